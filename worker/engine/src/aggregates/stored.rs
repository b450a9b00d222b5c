//! The stored form of running values: big endian, floats by their bits, optional values with a
//! byte 0 or 1 in front, text with its length (4 bytes).

use super::accumulator::Accumulator;
use super::cells::{FloatMean, IntMean};
use crate::keys::Reader;

impl Accumulator {
    /// Appends a pane's running value.
    pub(crate) fn encode(&self, pane: usize, out: &mut Vec<u8>) {
        match self {
            Self::CountRows(cells) | Self::Count(_, cells) => {
                out.extend_from_slice(&cells[pane].to_be_bytes());
            }
            Self::IntSum(_, cells) | Self::IntExtreme(_, _, cells) => {
                encode_option(out, cells[pane], |out, v| {
                    out.extend_from_slice(&v.to_be_bytes());
                });
            }
            Self::FloatSum(_, cells) | Self::FloatExtreme(_, _, cells) => {
                encode_option(out, cells[pane], |out, v| {
                    out.extend_from_slice(&v.to_bits().to_be_bytes());
                });
            }
            Self::BoolExtreme(_, _, cells) => {
                encode_option(out, cells[pane], |out, v| out.push(u8::from(v)));
            }
            Self::TextExtreme(_, _, texts) => {
                encode_option(out, texts.get(pane), |out, v| {
                    turbine_keygroups::KeyValue::Text(v).write_part_to(out);
                });
            }
            Self::IntMean(_, cells) => {
                out.extend_from_slice(&cells[pane].count.to_be_bytes());
                out.extend_from_slice(&cells[pane].sum.to_be_bytes());
            }
            Self::FloatMean(_, cells) => {
                out.extend_from_slice(&cells[pane].count.to_be_bytes());
                out.extend_from_slice(&cells[pane].sum.to_bits().to_be_bytes());
            }
        }
    }

    /// Adds a pane with a stored running value; none if the bytes are no such value. After a
    /// failure the accumulator has one pane less than its siblings and must not be used.
    pub(crate) fn decode_pane(&mut self, bytes: &mut Reader<'_>) -> Option<()> {
        match self {
            Self::CountRows(cells) | Self::Count(_, cells) => {
                cells.push(u64::from_be_bytes(bytes.array()?));
            }
            Self::IntSum(_, cells) | Self::IntExtreme(_, _, cells) => {
                cells.push(decode_option(bytes, |b| b.array().map(i64::from_be_bytes))?);
            }
            Self::FloatSum(_, cells) | Self::FloatExtreme(_, _, cells) => {
                cells.push(decode_option(bytes, finite)?);
            }
            Self::BoolExtreme(_, _, cells) => cells.push(decode_option(bytes, boolean)?),
            Self::TextExtreme(_, _, texts) => texts.push(decode_option(bytes, |b| {
                std::str::from_utf8(b.sized()?).ok()
            })?),
            Self::IntMean(_, cells) => {
                let count = u64::from_be_bytes(bytes.array()?);
                cells.push(IntMean {
                    sum: i128::from_be_bytes(bytes.array()?),
                    count,
                });
            }
            Self::FloatMean(_, cells) => {
                let count = u64::from_be_bytes(bytes.array()?);
                cells.push(FloatMean {
                    sum: finite(bytes)?,
                    count,
                });
            }
        }
        Some(())
    }
}

fn finite(bytes: &mut Reader<'_>) -> Option<f64> {
    bytes
        .array()
        .map(u64::from_be_bytes)
        .map(f64::from_bits)
        .filter(|v| v.is_finite())
}

fn boolean(bytes: &mut Reader<'_>) -> Option<bool> {
    match bytes.byte()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn encode_option<T>(out: &mut Vec<u8>, value: Option<T>, encode: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        encode(out, value);
    }
}

/// The outer level is damage, the inner one null.
#[allow(clippy::option_option)]
fn decode_option<'b, T>(
    bytes: &mut Reader<'b>,
    decode: impl FnOnce(&mut Reader<'b>) -> Option<T>,
) -> Option<Option<T>> {
    if boolean(bytes)? {
        decode(bytes).map(Some)
    } else {
        Some(None)
    }
}
