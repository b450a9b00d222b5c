//! The stored form of an entry.
//!
//! Numbers are big endian; text and bytes have their length (4 bytes) in front.
//!
//! | field | form |
//! |---|---|
//! | subscription, partition | text, 4 bytes |
//! | store epoch, number | 8 bytes each |
//! | positions | their number (4 bytes); each: topic (text), partition (4 bytes), next offset (8 bytes) |
//! | frontier | `0`, or `1` and 8 bytes |
//! | clocks | bytes |
//! | changes | to the end; each: key (bytes), `0` for a removal or `1` and the value (bytes) |

use thiserror::Error;
use turbine_keygroups::Partition;

use super::{Entry, EntryChecksum, Frontier, Position};
use crate::epochs::{EntryNumber, StoreEpoch};
use crate::layout::Task;

const REMOVED: u8 = 0;
const PUT: u8 = 1;
const NONE: u8 = 0;
const SOME: u8 = 1;

/// A part of an entry is longer than 4 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a key, a value or the clocks of an entry have {0} bytes; at most 4294967295 can be stored"
)]
pub struct EntryTooLarge(pub usize);

impl Entry<'_> {
    /// Appends the stored form to `out`, and says its checksum.
    ///
    /// # Errors
    /// If a key, a value or the clocks are longer than the form can say; `out` is then of no use.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<EntryChecksum, EntryTooLarge> {
        let begin = out.len();
        sized(self.task.subscription.as_str().as_bytes(), out)?;
        out.extend_from_slice(&self.task.partition.get().to_be_bytes());
        out.extend_from_slice(&self.store_epoch.get().to_be_bytes());
        out.extend_from_slice(&self.number.get().to_be_bytes());
        let positions =
            u32::try_from(self.positions.len()).map_err(|_| EntryTooLarge(self.positions.len()))?;
        out.extend_from_slice(&positions.to_be_bytes());
        for position in self.positions {
            sized(position.topic.as_str().as_bytes(), out)?;
            out.extend_from_slice(&position.partition.get().to_be_bytes());
            out.extend_from_slice(&position.next.get().to_be_bytes());
        }
        match self.frontier.0 {
            None => out.push(NONE),
            Some(millis) => {
                out.push(SOME);
                out.extend_from_slice(&millis.to_be_bytes());
            }
        }
        sized(self.clocks, out)?;
        let changes: usize = self
            .changes
            .iter()
            .map(|change| change.key.len() + change.value.map_or(0, <[u8]>::len) + 9)
            .sum();
        out.reserve(changes);
        for change in self.changes {
            sized(change.key, out)?;
            match change.value {
                None => out.push(REMOVED),
                Some(value) => {
                    out.push(PUT);
                    sized(value, out)?;
                }
            }
        }
        Ok(EntryChecksum(crc32c::crc32c(&out[begin..])))
    }
}

fn sized(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), EntryTooLarge> {
    let length = u32::try_from(bytes.len()).map_err(|_| EntryTooLarge(bytes.len()))?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

/// An entry as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry<'a> {
    /// The task that committed.
    pub task: Task,
    /// The life of the store this belongs to.
    pub store_epoch: StoreEpoch,
    /// One more than that of the commit before.
    pub number: EntryNumber,
    /// The positions of all cursors after this commit.
    pub positions: Vec<Position>,
    /// How far event time had closed with this commit.
    pub frontier: Frontier,
    /// The engine's clocks and timers, in the engine's own form.
    pub clocks: &'a [u8],
    changes: &'a [u8],
}

impl<'a> StoredEntry<'a> {
    /// Reads a stored form up to its changes; `None` if it is none.
    #[must_use]
    pub fn decode(stored: &'a [u8]) -> Option<Self> {
        let mut rest = Reader(stored);
        let subscription = rest.text()?.parse().ok()?;
        let partition = Partition::try_from(rest.i32()?).ok()?;
        let store_epoch = rest.i64()?.try_into().ok()?;
        let number = rest.i64()?.try_into().ok()?;
        let mut positions = Vec::new();
        for _ in 0..rest.i32()? {
            positions.push(Position {
                topic: rest.text()?.parse().ok()?,
                partition: rest.i32()?.try_into().ok()?,
                next: rest.i64()?.try_into().ok()?,
            });
        }
        let frontier = match rest.byte()? {
            NONE => None,
            SOME => Some(rest.i64()?),
            _ => return None,
        };
        Some(Self {
            task: Task {
                subscription,
                partition,
            },
            store_epoch,
            number,
            positions,
            frontier: Frontier(frontier),
            clocks: rest.sized()?,
            changes: rest.0,
        })
    }

    /// Shows each change: the key, and its new value or none for a removal. `None` if the bytes
    /// are no run of changes; those before the fault were shown.
    pub fn changes<E>(
        &self,
        mut visit: impl FnMut(&'a [u8], Option<&'a [u8]>) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let mut rest = Reader(self.changes);
        while !rest.0.is_empty() {
            let key = rest.sized()?;
            let value = match rest.byte()? {
                REMOVED => None,
                PUT => Some(rest.sized()?),
                _ => return None,
            };
            if let Err(error) = visit(key, value) {
                return Some(Err(error));
            }
        }
        Some(Ok(()))
    }
}

/// Takes fields off the front; none at a premature end.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    fn sized(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(u32::from_be_bytes(self.array()?)).ok()?;
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.sized()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::entry::Change;

    fn task() -> Task {
        Task {
            subscription: "per-tenant".parse().unwrap(),
            partition: 7.try_into().unwrap(),
        }
    }

    type Owned = (Vec<u8>, Option<Vec<u8>>);
    type Borrowed<'a> = (&'a [u8], Option<&'a [u8]>);

    fn shown(entry: &StoredEntry<'_>) -> Option<Vec<Owned>> {
        let mut all = Vec::new();
        entry
            .changes::<Infallible>(|key, value| {
                all.push((key.to_vec(), value.map(<[u8]>::to_vec)));
                Ok(())
            })?
            .ok()?;
        Some(all)
    }

    #[test]
    fn an_entry_reads_back_and_one_that_was_cut_is_shorter_or_none() {
        let changes = [
            (&b""[..], Some(&b""[..])),
            (b"abc", Some(b"\x00\x01")),
            (b"gone", None),
        ];
        let given: Vec<Change<'_>> = changes
            .iter()
            .map(|(key, value)| Change { key, value: *value })
            .collect();
        let positions = [Position {
            topic: "events".parse().unwrap(),
            partition: 7.try_into().unwrap(),
            next: 42.try_into().unwrap(),
        }];
        for frontier in [None, Some(-1), Some(i64::MAX)] {
            let entry = Entry {
                task: &task(),
                store_epoch: 3.try_into().unwrap(),
                number: 9.try_into().unwrap(),
                positions: &positions,
                frontier: Frontier(frontier),
                clocks: b"{}",
                changes: &given,
            };
            let mut stored = vec![0xff];
            entry.encode(&mut stored).unwrap();
            let stored = &stored[1..];
            let read = StoredEntry::decode(stored).unwrap();
            assert_eq!(
                (&read.task, read.number, read.frontier.0, read.clocks),
                (&task(), entry.number, frontier, &b"{}"[..])
            );
            assert_eq!(read.positions, positions);
            let all: Vec<_> = changes
                .iter()
                .map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))
                .collect();
            assert_eq!(shown(&read), Some(all));
            for end in 0..stored.len() {
                let fewer = StoredEntry::decode(&stored[..end]).and_then(|cut| shown(&cut));
                assert!(fewer.is_none_or(|fewer| fewer.len() < 3), "cut at {end}");
            }
        }
    }

    #[test]
    fn no_two_entries_have_one_form() {
        let (empty, ab, a, b, c) = (&b""[..], &b"ab"[..], &b"a"[..], &b"b"[..], &b"c"[..]);
        let alike: [&[Borrowed<'_>]; 7] = [
            &[],
            &[(ab, Some(c))],
            &[(a, Some(b"bc"))],
            &[(ab, None), (c, None)],
            &[(a, None), (b"bc", None)],
            &[(a, Some(empty)), (b, Some(c))],
            &[(a, Some(b)), (b, Some(c))],
        ];
        let mut forms = std::collections::BTreeSet::new();
        for changes in alike {
            let changes: Vec<Change<'_>> = changes
                .iter()
                .map(|(key, value)| Change { key, value: *value })
                .collect();
            let mut stored = Vec::new();
            Entry {
                task: &task(),
                store_epoch: 0.try_into().unwrap(),
                number: 1.try_into().unwrap(),
                positions: &[],
                frontier: Frontier(None),
                clocks: b"",
                changes: &changes,
            }
            .encode(&mut stored)
            .unwrap();
            assert!(forms.insert(stored));
        }
    }
}
