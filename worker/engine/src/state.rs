use std::ops::Range;

/// Keys that changed, with their new values, in ascending order of keys. One buffer holds all
/// bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    key: Range<usize>,
    value: Option<Range<usize>>,
}

/// One key that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    /// The stored key; its first two bytes are the prefix of its key group.
    pub key: &'a [u8],
    /// The new value, or none if the key is to be deleted.
    pub value: Option<&'a [u8]>,
}

impl Changes {
    /// How many keys changed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all keys and values.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The changes, ascending by key; no key comes twice.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Change<'_>> {
        self.entries.iter().map(|entry| Change {
            key: &self.bytes[entry.key.clone()],
            value: entry.value.clone().map(|value| &self.bytes[value]),
        })
    }

    pub(crate) fn put(&mut self, key: impl FnOnce(&mut Vec<u8>), value: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        key(&mut self.bytes);
        let middle = self.bytes.len();
        value(&mut self.bytes);
        let value = Some(middle..self.bytes.len());
        self.entries.push(Entry {
            key: start..middle,
            value,
        });
    }

    pub(crate) fn delete(&mut self, key: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        key(&mut self.bytes);
        self.entries.push(Entry {
            key: start..self.bytes.len(),
            value: None,
        });
    }

    pub(crate) fn sort(&mut self) {
        let bytes = &self.bytes;
        self.entries
            .sort_unstable_by(|a, b| bytes[a.key.clone()].cmp(&bytes[b.key.clone()]));
    }
}
