use std::ops::Range;

/// Panes that changed, with their values now. One buffer holds all bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    key: Range<usize>,
    /// Where the value ends that begins where the key does.
    end: usize,
}

/// One pane that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    /// The stored key; its first two bytes are the prefix of its key group.
    pub key: &'a [u8],
    /// The value to be stored under it.
    pub value: &'a [u8],
}

impl Changes {
    /// How many panes changed.
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

    /// The changes; no key comes twice.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Change<'_>> {
        self.entries.iter().map(|entry| Change {
            key: &self.bytes[entry.key.clone()],
            value: &self.bytes[entry.key.end..entry.end],
        })
    }

    pub(crate) fn put(&mut self, key: impl FnOnce(&mut Vec<u8>), value: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        key(&mut self.bytes);
        let key = start..self.bytes.len();
        value(&mut self.bytes);
        self.entries.push(Entry {
            key,
            end: self.bytes.len(),
        });
    }
}

/// What the store of checkpoints lacks: to be applied in one atomic write, dead ranges first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unsaved {
    /// Panes to be stored, ascending by key. None of them lies in a dead range.
    pub puts: Changes,
    /// Ranges of keys that hold nothing but panes of windows that were handed out, ascending, at
    /// most one per key group and window of the spec: to be deleted.
    pub dead: Vec<KeyRange>,
}

impl Unsaved {
    /// Whether the store lacks nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.dead.is_empty()
    }
}

/// Keys from `from` on and below `to`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRange {
    /// The first key of the range.
    pub from: Vec<u8>,
    /// The first key after it.
    pub to: Vec<u8>,
}
