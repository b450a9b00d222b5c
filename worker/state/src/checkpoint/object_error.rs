//! What an object store's refusal means, and who has to act.

use super::error::{CheckpointError, Right};

/// S3 answers with a document that has the reason as `<Code>`.
fn code(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("<Code>")?;
    rest.split_once("</Code>").map(|(code, _)| code)
}

/// The error as one text, with its causes, each said once and with no line breaks.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        let said = one.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = one.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What an error of a request that needs `right` at `place` means.
pub(crate) fn judged(error: &object_store::Error, right: Right, place: String) -> CheckpointError {
    use object_store::Error;
    let text = whole(error);
    let code = code(&text);
    let detail = match code {
        Some(code) => code.to_owned(),
        None => text.clone(),
    };
    match code {
        Some("RequestTimeTooSkewed" | "RequestExpired") => CheckpointError::Clock { detail },
        Some(
            "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "ExpiredToken"
            | "InvalidToken"
            | "TokenRefreshRequired"
            | "InvalidSecurity"
            | "InvalidClientTokenId",
        ) => CheckpointError::Credentials { place, detail },
        Some(
            "NoSuchBucket"
            | "PermanentRedirect"
            | "AuthorizationHeaderMalformed"
            | "IllegalLocationConstraintException"
            | "InvalidBucketName",
        ) => CheckpointError::NoBucket { place, detail },
        Some("AccessDenied" | "AllAccessDisabled" | "AccountProblem") => CheckpointError::Denied {
            right,
            place,
            detail,
        },
        _ => match error {
            Error::PermissionDenied { .. } => CheckpointError::Denied {
                right,
                place,
                detail,
            },
            Error::Unauthenticated { .. } => CheckpointError::Credentials { place, detail },
            // Its client names the region itself when it is sent elsewhere without an address.
            _ if text.contains("incorrectly configured region") => {
                CheckpointError::NoBucket { place, detail }
            }
            _ => CheckpointError::Unreachable { place, detail },
        },
    }
}
