use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// How long a refused call waits until the file may be read again: guessing reads no files.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// The token in a file, which may be given another one while the worker runs.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    held: Mutex<(Token, Instant)>,
}

/// Why there is no token.
#[derive(Debug, Error)]
pub enum TokenFileError {
    /// Not readable.
    #[error("the token's file {path} cannot be read: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// Nothing in it.
    #[error(transparent)]
    Empty(#[from] EmptyToken),
}

impl TokenFile {
    /// Reads it for the first time.
    ///
    /// # Errors
    /// If there is no token in it.
    pub fn open(path: &Path) -> Result<Self, TokenFileError> {
        Ok(Self {
            path: path.to_owned(),
            held: Mutex::new((read(path)?, Instant::now())),
        })
    }

    /// Whether an `Authorization` header carries the token, as the file has it now.
    #[must_use]
    pub fn admits(&self, header: Option<&str>) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.0.admits(header) {
            return true;
        }
        if held.1.elapsed() < READ_AGAIN_AFTER {
            return false;
        }
        held.1 = Instant::now();
        match read(&self.path) {
            Ok(token) => held.0 = token,
            // The former one counts until there is another.
            Err(error) => tracing::warn!(%error, "the control token"),
        }
        held.0.admits(header)
    }
}

fn read(path: &Path) -> Result<Token, TokenFileError> {
    let text = std::fs::read_to_string(path).map_err(|source| TokenFileError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(Token::new(&text)?)
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
