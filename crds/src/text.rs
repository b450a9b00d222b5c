//! Text forms of the spec: durations.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::rules::cel;

/// A duration as the user wrote it: one or more numbers with a unit, largest first (`60s`, `5m`, `1h30m`, `250ms`).
///
/// Kept as text so that a file with several mistakes is read whole and every mistake is reported at once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DurationText(pub String);

/// The text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a duration; write a number and a unit of ms, s, m, h or d, for example 250ms, 60s or 1h30m"
)]
pub struct DurationError {
    text: String,
}

impl DurationText {
    /// Longest text, in characters.
    pub const MAX_LENGTH: usize = 40;
    /// Most digits of one number. With them no sum of the parts of a text leaves 64 bits.
    const MAX_DIGITS: usize = 9;
    /// Form that the API server checks.
    pub const PATTERN: &str = "^([0-9]{1,9}(ms|s|m|h|d))+$";

    /// Milliseconds.
    pub fn millis(&self) -> Result<u64, DurationError> {
        let error = || DurationError {
            text: self.0.clone(),
        };
        let mut rest = self.0.as_str();
        let mut total: u64 = 0;
        if rest.is_empty() || rest.len() > Self::MAX_LENGTH {
            return Err(error());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(error)?;
            if digits > Self::MAX_DIGITS {
                return Err(error());
            }
            let number: u64 = rest[..digits].parse().map_err(|_| error())?;
            rest = &rest[digits..];
            let unit = rest
                .find(|c: char| c.is_ascii_digit())
                .unwrap_or(rest.len());
            let factor = match &rest[..unit] {
                "ms" => 1,
                "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return Err(error()),
            };
            rest = &rest[unit..];
            total = number
                .checked_mul(factor)
                .and_then(|ms| total.checked_add(ms))
                .ok_or_else(error)?;
        }
        Ok(total)
    }
}

impl JsonSchema for DurationText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // A pattern of the schema would answer in the API server's words.
        json_schema!({
            "type": "string",
            "maxLength": Self::MAX_LENGTH,
            "x-kubernetes-validations": [cel::duration()]
        })
    }
}
