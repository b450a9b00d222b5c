//! Where a JSON value ends, and what it is. Each of these takes less than JSON allows, never more.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Longest number that is read here. The general parser has limits of its own far beyond.
const LONGEST_NUMBER: usize = 64;
/// So many digits always fit 64 bits.
const MOST_DIGITS: usize = 19;

/// A text without escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text {
    /// Index of the closing quote.
    pub(super) end: usize,
    pub(super) is_ascii: bool,
}

/// The text whose first byte, behind the opening quote, is at `at`; none if it has an escape or a
/// control byte, or does not end. Bytes beyond ASCII are not checked.
#[inline]
pub(super) fn text(bytes: &[u8], mut at: usize) -> Option<Text> {
    let mut high = 0;
    while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk::<32>) {
        if block.iter().fold(false, |hit, byte| hit | ends_text(*byte)) {
            break;
        }
        high |= block.iter().fold(0, |all, byte| all | *byte);
        at += 32;
    }
    let mut high = u64::from(high);
    while let Some(word) = word(bytes, at) {
        let hits =
            (zeros(word ^ (ONES * 0x22)) | zeros(word ^ (ONES * 0x5c)) | controls(word)) & HIGH;
        if hits == 0 {
            high |= word & HIGH;
            at += 8;
            continue;
        }
        // The lowest hit is exact; borrows only disturb those above it.
        let bits = hits.trailing_zeros() & !7;
        high |= word & ((1 << bits) - 1) & HIGH;
        return close(bytes, at + (bits / 8) as usize, high);
    }
    while let Some(byte) = bytes.get(at) {
        if ends_text(*byte) {
            return close(bytes, at, high);
        }
        high |= u64::from(*byte);
        at += 1;
    }
    None
}

#[inline]
fn close(bytes: &[u8], end: usize, high: u64) -> Option<Text> {
    (bytes.get(end) == Some(&b'"')).then_some(Text {
        end,
        is_ascii: high & HIGH == 0,
    })
}

/// Without branches, so that a block is looked at with vector instructions.
#[inline]
#[allow(clippy::needless_bitwise_bool)]
fn ends_text(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|chunk| u64::from_le_bytes(*chunk))
}

/// The high bit of each byte that is zero; exact up to the lowest one.
#[inline]
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGH
}

/// The high bit of each byte below a blank; exact up to the lowest one.
#[inline]
fn controls(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word & HIGH
}

/// Powers of ten up to that of [`MOST_DIGITS`].
const TENS: [u64; MOST_DIGITS + 1] = {
    let mut tens = [1; MOST_DIGITS + 1];
    let mut at = 1;
    while at < tens.len() {
        tens[at] = tens[at - 1] * 10;
        at += 1;
    }
    tens
};

/// A run of decimal digits.
#[derive(Debug, Clone, Copy)]
struct Digits {
    value: u64,
    count: usize,
}

/// The digits from `at` on; none if there are more than always fit 64 bits.
#[inline]
fn digits(bytes: &[u8], mut at: usize) -> Option<Digits> {
    let mut digits = Digits { value: 0, count: 0 };
    while let Some(word) = word(bytes, at) {
        let distance = word ^ (ONES * 0x30);
        let others = (((distance & !HIGH) + ONES * 0x76) | distance) & HIGH;
        if others == 0 {
            digits.count += 8;
            if digits.count > MOST_DIGITS {
                return None;
            }
            digits.value = digits.value * 100_000_000 + eight(word);
            at += 8;
            continue;
        }
        let count = others.trailing_zeros() / 8;
        if count == 0 {
            return Some(digits);
        }
        digits.count += count as usize;
        if digits.count > MOST_DIGITS {
            return None;
        }
        let padded = eight(word << (64 - 8 * count));
        digits.value = digits.value * TENS.get(count as usize)? + padded;
        return Some(digits);
    }
    while let Some(digit) = bytes.get(at).filter(|byte| byte.is_ascii_digit()) {
        digits.count += 1;
        if digits.count > MOST_DIGITS {
            return None;
        }
        digits.value = digits.value * 10 + u64::from(digit - b'0');
        at += 1;
    }
    Some(digits)
}

/// The number of eight digits, the first one in the lowest byte; zero bytes count as zeros.
#[inline]
fn eight(word: u64) -> u64 {
    let word = word & (ONES * 0x0f);
    let pairs = word.wrapping_mul(2_561) >> 8 & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(6_553_601) >> 16 & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(42_949_672_960_001) >> 32
}

/// The whole number at `at`, and the index behind it. What follows is not looked at: it is up to the
/// caller to refuse further digits, a fraction or an exponent.
#[inline]
pub(super) fn whole(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let negative = bytes.get(at) == Some(&b'-');
    let start = at + usize::from(negative);
    let digits = unpadded(bytes, start)?;
    let value = if negative {
        0_i64.checked_sub_unsigned(digits.value)
    } else {
        i64::try_from(digits.value).ok()
    };
    Some((value?, start + digits.count))
}

/// At least one digit, and no zero in front of others.
#[inline]
fn unpadded(bytes: &[u8], at: usize) -> Option<Digits> {
    let digits = digits(bytes, at)?;
    match digits.count {
        0 => None,
        1 => Some(digits),
        _ => (bytes.get(at) != Some(&b'0')).then_some(digits),
    }
}

/// The number at `at` as the nearest double, and the index behind it; none if it is too large for
/// one. As with [`whole`], what follows is up to the caller.
#[inline]
pub(super) fn float(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    if let Some(short) = short_float(bytes, at) {
        return Some(short);
    }
    let end = number(bytes, at)?;
    let text = std::str::from_utf8(bytes.get(at..end)?).ok()?;
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some((value, end))
}

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// A number without exponent whose digits and whose power of ten a double holds exactly: then one
/// division gives the nearest double.
#[inline]
fn short_float(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    let negative = bytes.get(at) == Some(&b'-');
    let start = at + usize::from(negative);
    let mut number = unpadded(bytes, start)?;
    let mut end = start + number.count;
    let mut decimals = 0;
    if bytes.get(end) == Some(&b'.') {
        let fraction = digits(bytes, end + 1)?;
        decimals = fraction.count;
        end += 1 + decimals;
        if decimals == 0 || number.count + decimals > MOST_DIGITS {
            return None;
        }
        number.value = number.value * TENS.get(decimals)? + fraction.value;
    }
    if number.value >= 1 << 53 || matches!(bytes.get(end), Some(b'e' | b'E')) {
        return None;
    }
    #[allow(clippy::cast_precision_loss)] // below 2^53
    let value = number.value as f64 / POWERS.get(decimals)?;
    Some((if negative { -value } else { value }, end))
}

/// The index behind the number at `at`.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let run = |from: usize| {
        let digits = bytes
            .get(from..)?
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        (digits > 0).then_some(from + digits)
    };
    let start = at + usize::from(bytes.get(at) == Some(&b'-'));
    let mut end = run(start)?;
    if end > start + 1 && bytes.get(start) == Some(&b'0') {
        return None;
    }
    if bytes.get(end) == Some(&b'.') {
        end = run(end + 1)?;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = matches!(bytes.get(end + 1), Some(b'+' | b'-'));
        end = run(end + 1 + usize::from(sign))?;
    }
    (end - at <= LONGEST_NUMBER).then_some(end)
}

/// The index behind `word`, if it stands at `at`.
#[inline]
pub(super) fn behind(bytes: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    bytes
        .get(at..)?
        .starts_with(word)
        .then_some(at + word.len())
}
