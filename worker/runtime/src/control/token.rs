use std::fmt;

use sha2::{Digest, Sha256};
use thiserror::Error;

/// The control API's bearer token. Never printed; kept and compared as a digest, so that the time
/// of a comparison says nothing about how much of a guess was right.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

/// A file that holds no token.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the token is empty: an open control API is not offered; write a random text into the token's file"
)]
pub struct EmptyToken;

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Token {
    /// The token in a text; blanks around it do not count.
    ///
    /// # Errors
    /// If there is none.
    pub fn new(text: &str) -> Result<Self, EmptyToken> {
        let text = text.trim();
        if text.is_empty() {
            Err(EmptyToken)
        } else {
            Ok(Self(Sha256::digest(text).into()))
        }
    }

    /// Whether an `Authorization` header carries this token.
    #[must_use]
    pub fn admits(&self, header: Option<&str>) -> bool {
        let Some((scheme, given)) = header.and_then(|header| header.split_once(' ')) else {
            return false;
        };
        let given: [u8; 32] = Sha256::digest(given.trim()).into();
        let differences = self
            .0
            .iter()
            .zip(given)
            .fold(0, |differences, (a, b)| differences | (a ^ b));
        scheme.eq_ignore_ascii_case("bearer") && differences == 0
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Some("Bearer s3cret"), true)]
    #[case(Some("bearer s3cret"), true)]
    #[case(Some("Bearer s3cre"), false)]
    #[case(Some("Bearer s3cret2"), false)]
    #[case(Some("Bearer "), false)]
    #[case(Some("Basic s3cret"), false)]
    #[case(Some("s3cret"), false)]
    #[case(None, false)]
    fn only_the_whole_token_admits(#[case] header: Option<&str>, #[case] admitted: bool) {
        assert_eq!(Token::new("s3cret\n").unwrap().admits(header), admitted);
    }

    #[test]
    fn an_empty_token_is_no_token() {
        assert_eq!(Token::new(" \n"), Err(EmptyToken));
    }
}
