//! The one byte form that a typed key value has before it is hashed, stored or compared.
//!
//! | type | bytes |
//! |---|---|
//! | int64 | decimal ASCII digits, `-` in front if negative, no leading zeros: `42`, `-7`, `0` |
//! | text | its UTF-8 bytes as they are, nothing normalised |
//! | bool | `true` or `false` |
//! | bytes | as they are |
//! | several columns | per part: length (4 bytes, big endian), then the part's bytes as above |
//!
//! So `42` as a number and `"42"` as a text are one key, which is what producers that write keys
//! as text expect, and `("x", "yz")` and `("xy", "z")` are two. Floats have no canonical form
//! (`42.0`, `4.2e1`, `-0.0`, NaN) and are no keys. A composite key with a null part is a null key.

/// A key value that is there. Null has no value: it is handled by the null-key policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyValue<'a> {
    /// A 64-bit integer.
    Int64(i64),
    /// Text.
    Text(&'a str),
    /// A truth value.
    Bool(bool),
    /// Bytes that need no text form, like a Kafka record's key.
    Bytes(&'a [u8]),
}

impl KeyValue<'_> {
    /// Appends the canonical bytes to `out`; nothing is allocated if `out` has room.
    pub fn write_to(self, out: &mut Vec<u8>) {
        match self {
            Self::Int64(value) => write_decimal(value, out),
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
        }
    }

    /// Appends the value as one part of a composite key: its length, then its bytes.
    pub fn write_part_to(self, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        self.write_to(out);
        // Kafka's records end below 2^31 bytes, so the length of one of their values fits.
        #[allow(clippy::cast_possible_truncation)]
        let length = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// The canonical bytes of a key of one column.
#[must_use]
pub fn canonical_key(value: KeyValue<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    value.write_to(&mut out);
    out
}

/// The canonical bytes of a key of several columns; each part carries its length.
#[must_use]
pub fn composite_key(parts: &[KeyValue<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        part.write_part_to(&mut out);
    }
    out
}

fn write_decimal(value: i64, out: &mut Vec<u8>) {
    // 19 digits hold every 64-bit integer, the sign aside.
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        #[allow(clippy::cast_possible_truncation)]
        let digit = (rest % 10) as u8;
        digits[at] = b'0' + digit;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}
