//! Keys as people write them, and the bytes they stand for.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use thiserror::Error;

use crate::documents::label;

/// How keys are written, and what they are in Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub(crate) struct KeyForm {
    /// How keys are written: as text, or as bytes in hex
    #[arg(long, value_enum, default_value_t = KeyEncoding::Utf8)]
    pub(crate) key_encoding: KeyEncoding,
    /// What a record's key holds: the text itself (integers in decimal too), or an integer in binary form, big endian,
    /// as Java's `LongSerializer` and `IntegerSerializer` write it
    #[arg(long, value_enum, default_value_t = KeyType::String)]
    pub(crate) key_type: KeyType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyEncoding {
    Utf8,
    Hex,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyType {
    String,
    Int64,
    Int32,
}

/// A key that does not say what bytes it stands for.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum KeyError {
    #[error(
        "the key is not UTF-8 (its bytes are {0}): keys are bytes; write them in hex and pass --key-encoding hex"
    )]
    NotUtf8(String),
    #[error(
        "`{0}` is not hex: write two digits per byte, such as 00ff, or leave out --key-encoding hex"
    )]
    NotHex(String),
    #[error("`{text}` is no integer of {bits} bits: correct it, or leave out --key-type")]
    NotInteger { text: String, bits: u8 },
    #[error(
        "--key-type {0} takes integers in decimal: leave out --key-encoding hex, or --key-type"
    )]
    HexInteger(&'static str),
}

/// A key, and how people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) shown: String,
    pub(crate) bytes: Vec<u8>,
}

/// Bytes in hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| {
            digit
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        })
        .collect();
    let (pairs, rest) = digits.as_deref()?.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

impl KeyForm {
    /// The key that is written like this.
    pub(crate) fn read(self, written: &[u8]) -> Result<Key, KeyError> {
        let text = std::str::from_utf8(written).map_err(|_| KeyError::NotUtf8(hex(written)))?;
        let not_integer = |bits| KeyError::NotInteger {
            text: text.to_owned(),
            bits,
        };
        let (shown, bytes) = match (self.key_type, self.key_encoding) {
            (KeyType::String, KeyEncoding::Utf8) => (text.to_owned(), written.to_vec()),
            (KeyType::String, KeyEncoding::Hex) => {
                let bytes = unhex(text).ok_or_else(|| KeyError::NotHex(text.to_owned()))?;
                (hex(&bytes), bytes)
            }
            (KeyType::Int64, KeyEncoding::Utf8) => {
                let number: i64 = text.parse().map_err(|_| not_integer(64))?;
                (number.to_string(), number.to_be_bytes().to_vec())
            }
            (KeyType::Int32, KeyEncoding::Utf8) => {
                let number: i32 = text.parse().map_err(|_| not_integer(32))?;
                (number.to_string(), number.to_be_bytes().to_vec())
            }
            (KeyType::Int64, KeyEncoding::Hex) => return Err(KeyError::HexInteger("int64")),
            (KeyType::Int32, KeyEncoding::Hex) => return Err(KeyError::HexInteger("int32")),
        };
        Ok(Key { shown, bytes })
    }
}

/// A key of a record as people can read it: as text where it is one, else its bytes in hex.
pub(crate) fn readable(key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => format!("0x{}", hex(key)),
    }
}

/// Why there are no keys to work with.
#[derive(Debug, Error)]
pub(crate) enum KeysError {
    #[error("{place}: cannot be read: {error}; check the path and its rights")]
    Io { place: String, error: io::Error },
    #[error("{place}: holds no key; write one key per line")]
    Empty { place: String },
    #[error("{place}: {error}")]
    Key { place: String, error: KeyError },
    #[error("no keys are given: write them as arguments, name a file with --file, or pipe them in")]
    None,
}

/// The keys given: as arguments, else in a file, else on the standard input.
pub(crate) fn given(
    arguments: &[OsString],
    file: Option<&PathBuf>,
    form: KeyForm,
) -> Result<Vec<Key>, KeysError> {
    if !arguments.is_empty() {
        return (1..)
            .zip(arguments)
            .map(|(at, argument)| {
                form.read(argument.as_bytes())
                    .map_err(|error| KeysError::Key {
                        place: format!("key {at}"),
                        error,
                    })
            })
            .collect();
    }
    let file = file.map_or(Path::new("-"), PathBuf::as_path);
    let place = label(file);
    let read = if file == Path::new("-") {
        if io::stdin().is_terminal() {
            return Err(KeysError::None);
        }
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    match read {
        Ok(bytes) => of_lines(&place, &bytes, form),
        Err(error) => Err(KeysError::Io { place, error }),
    }
}

/// One key per line. An empty line is the empty key: no bytes are a key like any other.
fn of_lines(place: &str, bytes: &[u8], form: KeyForm) -> Result<Vec<Key>, KeysError> {
    if bytes.is_empty() {
        return Err(KeysError::Empty {
            place: place.to_owned(),
        });
    }
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    (1..)
        .zip(bytes.split(|byte| *byte == b'\n'))
        .map(|(at, line)| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            form.read(line).map_err(|error| KeysError::Key {
                place: format!("{place} line {at}"),
                error,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn form(key_encoding: KeyEncoding, key_type: KeyType) -> KeyForm {
        KeyForm {
            key_encoding,
            key_type,
        }
    }

    #[rstest]
    #[case(KeyEncoding::Utf8, KeyType::String, b"42", "42", b"42")]
    #[case(KeyEncoding::Utf8, KeyType::String, b"", "", b"")]
    #[case(KeyEncoding::Hex, KeyType::String, b"FFfe", "fffe", b"\xff\xfe")]
    #[case(KeyEncoding::Hex, KeyType::String, b"", "", b"")]
    #[case(KeyEncoding::Utf8, KeyType::Int64, b"42", "42", b"\0\0\0\0\0\0\0\x2a")]
    #[case(KeyEncoding::Utf8, KeyType::Int32, b"42", "42", b"\0\0\0\x2a")]
    #[case(KeyEncoding::Utf8, KeyType::Int32, b"-1", "-1", b"\xff\xff\xff\xff")]
    fn a_key_is_the_bytes_that_its_form_says(
        #[case] encoding: KeyEncoding,
        #[case] key_type: KeyType,
        #[case] written: &[u8],
        #[case] shown: &str,
        #[case] bytes: &[u8],
    ) {
        let key = form(encoding, key_type).read(written).unwrap();
        assert_eq!((key.shown.as_str(), key.bytes.as_slice()), (shown, bytes));
    }

    #[rstest]
    #[case(KeyEncoding::Utf8, KeyType::String, b"\xff\xfe", "fffe")]
    #[case(KeyEncoding::Utf8, KeyType::String, b"\xff\xfe", "--key-encoding hex")]
    #[case(KeyEncoding::Hex, KeyType::String, b"abc", "two digits per byte")]
    #[case(KeyEncoding::Hex, KeyType::String, b"zz", "`zz` is not hex")]
    #[case(KeyEncoding::Utf8, KeyType::Int32, b"2147483648", "32 bits")]
    #[case(KeyEncoding::Utf8, KeyType::Int64, b"4.0", "64 bits")]
    #[case(
        KeyEncoding::Hex,
        KeyType::Int64,
        b"2a",
        "leave out --key-encoding hex"
    )]
    fn a_key_in_another_form_is_refused_with_the_way_out(
        #[case] encoding: KeyEncoding,
        #[case] key_type: KeyType,
        #[case] written: &[u8],
        #[case] words: &str,
    ) {
        let refused = form(encoding, key_type)
            .read(written)
            .unwrap_err()
            .to_string();
        assert!(refused.contains(words), "{refused}");
    }

    #[test]
    fn lines_are_keys_and_an_empty_one_is_the_empty_key() {
        let text = form(KeyEncoding::Utf8, KeyType::String);
        let keys = |bytes: &[u8]| -> Vec<String> {
            let keys = of_lines("f", bytes, text).unwrap();
            keys.into_iter().map(|key| key.shown).collect()
        };
        assert_eq!(keys(b"a\nb"), ["a", "b"]);
        assert_eq!(keys(b"a\r\n\r\nb c\r\n"), ["a", "", "b c"]);
        assert_eq!(keys(b"\n"), [""]);
        assert!(matches!(
            of_lines("f", b"", text),
            Err(KeysError::Empty { .. })
        ));
        let refused = of_lines("f", b"a\n\xff\n", text).unwrap_err().to_string();
        assert!(
            refused.starts_with("f line 2: the key is not UTF-8"),
            "{refused}"
        );
    }

    #[test]
    fn what_is_no_text_is_shown_in_hex() {
        assert_eq!(readable(b"abc"), "abc");
        assert_eq!(readable(b"\xff\xfe"), "0xfffe");
        assert_eq!(readable(b"\0\0\0\x2a"), "0x0000002a");
    }
}
