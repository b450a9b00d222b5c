//! A stored pane as tools read it, without the spec that gives it meaning.

use turbine_keygroups::{Group, KeyValue, canonical_key};

use crate::error::StateError;
use crate::keys::{Reader, order_restoring};
use crate::windows::{PaneKey, header_signature};

/// A stored pane's key, taken apart as far as it says itself what it is.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPane<'a> {
    /// The key group.
    pub group: Group,
    /// The window's name.
    pub window: &'a str,
    /// The start of the window instance, in epoch milliseconds.
    pub start: i64,
    /// The key tuple as it is stored.
    pub tuple: &'a [u8],
}

/// One part of a key tuple, null or with a value.
pub type TuplePart<'a> = Option<KeyValue<'a>>;

impl<'a> StoredPane<'a> {
    /// Takes a stored key apart.
    ///
    /// # Errors
    /// If the key is no pane's.
    pub fn decode(key: &'a [u8]) -> Result<Self, StateError> {
        let pane = PaneKey::decode(key)?;
        Ok(Self {
            group: pane.group,
            window: pane.window,
            start: pane.start,
            tuple: pane.tuple,
        })
    }

    /// What the value stored under `key` says of the definition that its window had: equal for all
    /// panes of one window in a store that is whole.
    ///
    /// # Errors
    /// If the value is no pane's, or of another format.
    pub fn signature(key: &[u8], value: &[u8]) -> Result<u32, StateError> {
        header_signature(key, value).map(|(signature, _)| signature)
    }

    /// The parts of the key tuple; none if it is no tuple at all. A tuple does not say the types of
    /// its parts, so this is a guess, nearly always right: it must come out even, and of two that do
    /// the one is taken that has text before numbers before truth values, from the front.
    #[must_use]
    pub fn parts(&self) -> Option<Vec<TuplePart<'a>>> {
        let tuple = self.tuple;
        // From the back: where a part begins, and what follows it comes out even, it is one.
        let mut found: Vec<Option<(TuplePart<'a>, usize)>> = vec![None; tuple.len()];
        let even = |found: &[Option<(TuplePart<'a>, usize)>], at: usize| {
            at == tuple.len() || found.get(at).is_some_and(Option::is_some)
        };
        for at in (0..tuple.len()).rev() {
            let fits = candidates(&tuple[at..])
                .into_iter()
                .flatten()
                .map(|(part, length)| (part, at + length))
                .find(|(_, next)| even(&found, *next));
            found[at] = fits;
        }
        let mut parts = Vec::new();
        let mut at = 0;
        while at < tuple.len() {
            let (part, next) = (*found.get(at)?)?;
            parts.push(part);
            at = next;
        }
        Some(parts)
    }

    /// Whether the tuple has a part with these canonical bytes: a text, or what is written so.
    #[must_use]
    pub fn has_part(&self, canonical: &[u8]) -> bool {
        self.parts()
            .unwrap_or_default()
            .into_iter()
            .flatten()
            .any(|value| canonical_key(value) == canonical)
    }
}

/// What the bytes may begin with, the likeliest first, with its length.
fn candidates(bytes: &[u8]) -> [Option<(TuplePart<'_>, usize)>; 3] {
    let mut rest = Reader(bytes);
    match rest.byte() {
        Some(0) => [Some((None, 1)), None, None],
        Some(1) => {
            let sized = Reader(rest.0).sized().map(|content| {
                let value =
                    std::str::from_utf8(content).map_or(KeyValue::Bytes(content), KeyValue::Text);
                (Some(value), 5 + content.len())
            });
            let number = Reader(rest.0).array().map(|bytes| {
                let value = order_restoring(u64::from_be_bytes(bytes));
                (Some(KeyValue::Int64(value)), 9)
            });
            let truth = rest
                .byte()
                .filter(|byte| *byte < 2)
                .map(|byte| (Some(KeyValue::Bool(byte == 1)), 2));
            [sized, number, truth]
        }
        _ => [None; 3],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pane(tuple: &[u8]) -> StoredPane<'_> {
        StoredPane {
            group: Group::Null,
            window: "w",
            start: 0,
            tuple,
        }
    }

    fn write(parts: &[TuplePart<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in parts {
            let Some(value) = part else {
                out.push(0);
                continue;
            };
            out.push(1);
            match value {
                KeyValue::Int64(n) => out.extend((n ^ i64::MIN).to_be_bytes()),
                KeyValue::Bool(b) => out.push(u8::from(*b)),
                KeyValue::Text(_) | KeyValue::Bytes(_) => value.write_part_to(&mut out),
            }
        }
        out
    }

    #[test]
    fn parts_are_found_without_their_types() {
        for parts in [
            vec![],
            vec![Some(KeyValue::Text("AAPL"))],
            vec![Some(KeyValue::Text(""))],
            vec![
                Some(KeyValue::Bytes(&[0xff, 0x00])),
                Some(KeyValue::Int64(-7)),
            ],
            vec![
                None,
                Some(KeyValue::Int64(i64::MAX)),
                Some(KeyValue::Text("grüße")),
            ],
            vec![
                Some(KeyValue::Bool(true)),
                None,
                Some(KeyValue::Bool(false)),
            ],
        ] {
            let tuple = write(&parts);
            assert_eq!(pane(&tuple).parts(), Some(parts));
        }
        for torn in [
            &b"\x02"[..],
            b"\x01",
            b"\x01\x00\x00\x00\x05ab",
            b"\x00\x01\x07",
        ] {
            assert_eq!(pane(torn).parts(), None, "{torn:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_found_reads_as_the_same_bytes(tuple: Vec<u8>) {
            if let Some(parts) = pane(&tuple).parts() {
                prop_assert_eq!(write(&parts), tuple);
            }
        }

        #[test]
        fn texts_are_found_by_what_they_say(texts: Vec<String>) {
            let parts: Vec<_> = texts.iter().map(|text| Some(KeyValue::Text(text))).collect();
            let tuple = write(&parts);
            for text in &texts {
                prop_assert!(pane(&tuple).has_part(text.as_bytes()));
            }
        }
    }
}
