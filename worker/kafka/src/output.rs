//! Records on their way out, collected without an allocation per record.

use std::ops::Range;

use crate::error::KafkaError;

/// Key and value of a record; either may be null.
pub type Parts<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

#[derive(Debug, Clone, Copy)]
struct Row {
    /// Where the key ends in `bytes`; the value follows it.
    key_end: usize,
    value_end: usize,
    has_key: bool,
    has_value: bool,
}

/// Records for one topic, key and value side by side in one buffer. Fill it, produce it, clear it
/// and fill it again.
#[derive(Debug, Default)]
pub struct OutputBatch {
    bytes: Vec<u8>,
    rows: Vec<Row>,
}

/// A record that was not taken; the others of its batch were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Its index in the batch.
    pub index: usize,
    /// Why.
    pub reason: KafkaError,
}

impl OutputBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a record. No key is not an empty key; no value is a tombstone.
    pub fn push(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        match value {
            Some(value) => self.push_with(key, |bytes| bytes.extend_from_slice(value)),
            None => self.push_row(key, false, |_| {}),
        }
    }

    /// Appends a record whose value `write` appends to the buffer it is given.
    pub fn push_with(&mut self, key: Option<&[u8]>, write: impl FnOnce(&mut Vec<u8>)) {
        self.push_row(key, true, write);
    }

    fn push_row(&mut self, key: Option<&[u8]>, has_value: bool, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.extend_from_slice(key.unwrap_or_default());
        let key_end = self.bytes.len();
        write(&mut self.bytes);
        self.rows.push(Row {
            key_end,
            value_end: self.bytes.len(),
            has_key: key.is_some(),
            has_value,
        });
    }

    /// How many records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all records and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    /// The record at `index`, as key and value.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Parts<'_>> {
        let row = self.rows.get(index)?;
        let start = match index.checked_sub(1) {
            None => 0,
            Some(before) => self.rows.get(before)?.value_end,
        };
        let part =
            |there: bool, range: Range<usize>| if there { self.bytes.get(range) } else { None };
        Some((
            part(row.has_key, start..row.key_end),
            part(row.has_value, row.key_end..row.value_end),
        ))
    }

    /// All records, as key and value.
    pub fn iter(&self) -> impl Iterator<Item = Parts<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Part = Option<Vec<u8>>;

    proptest! {
        #[test]
        fn records_come_back_as_they_were_put_in(
            records in prop::collection::vec(any::<(Part, Part)>(), 0..50),
        ) {
            let mut batch = OutputBatch::new();
            // A cleared batch keeps nothing of what was in it.
            batch.push(Some(b"old"), Some(b"old"));
            batch.clear();
            for (key, value) in &records {
                batch.push(key.as_deref(), value.as_deref());
            }
            let back: Vec<(Part, Part)> = batch
                .iter()
                .map(|(key, value)| (key.map(<[u8]>::to_vec), value.map(<[u8]>::to_vec)))
                .collect();
            prop_assert_eq!(back, records);
        }
    }
}
