//! What a task's records in the journal mean: which entries count, which one is undecided, and
//! what must not be there.
//!
//! A store says how far it has absorbed the journal; the records after that are played back in
//! their order.

use thiserror::Error;

use crate::epochs::EntryNumber;

/// What one record of a task says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// An entry that counts from the moment it is durable.
    Entry,
    /// An entry that counts once the broker has its receipt.
    Prepared,
    /// The broker has the receipt of the prepared entry.
    Done,
    /// The prepared entry never counted; its number is given anew.
    Cancelled,
    /// The prepared entry once more, so that what lies before it can go while nobody decides over it.
    Carried,
}

/// A record of a task in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Record {
    /// What it says.
    pub kind: RecordKind,
    /// Of which entry.
    pub number: EntryNumber,
}

/// What playing back a record asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Playback {
    /// Nothing: the store has it.
    Known,
    /// Absorb this entry.
    Absorb,
    /// Keep this entry apart: it is undecided.
    Hold,
    /// Absorb the entry that was kept apart.
    AbsorbHeld,
    /// Forget the entry that was kept apart.
    ForgetHeld,
}

/// A record that cannot follow what came before: something between them is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the journal goes from entry {last} to a record {kind:?} of entry {given}: what lies between is missing"
)]
pub struct JournalGap {
    /// The last entry that counts.
    pub last: EntryNumber,
    /// What the record says.
    pub kind: RecordKind,
    /// Of which entry.
    pub given: EntryNumber,
}

/// Plays back the records of one store, in the journal's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Replay {
    absorbed: EntryNumber,
    last: EntryNumber,
    held: Option<EntryNumber>,
}

impl Replay {
    /// For a store that has absorbed the journal up to this entry.
    #[must_use]
    pub fn after(absorbed: EntryNumber) -> Self {
        Self {
            absorbed,
            last: absorbed,
            held: None,
        }
    }

    /// The last entry that counts.
    #[must_use]
    pub fn last(&self) -> EntryNumber {
        self.last
    }

    /// The entry that is undecided.
    #[must_use]
    pub fn held(&self) -> Option<EntryNumber> {
        self.held
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// If it does not follow what came before.
    pub fn take(&mut self, record: Record) -> Result<Playback, JournalGap> {
        let Record { kind, number } = record;
        if number <= self.absorbed {
            return Ok(Playback::Known);
        }
        let follows = self.held.is_none() && number == self.last.next();
        let decides = self.held == Some(number);
        let (allowed, playback) = match kind {
            RecordKind::Entry => (follows, Playback::Absorb),
            RecordKind::Prepared => (follows, Playback::Hold),
            RecordKind::Done => (decides, Playback::AbsorbHeld),
            // The oldest segments go first: what was taken back may be gone, and this not yet.
            RecordKind::Cancelled => (decides || follows, Playback::ForgetHeld),
            RecordKind::Carried => (decides || follows, Playback::Hold),
        };
        if !allowed {
            return Err(JournalGap {
                last: self.last,
                kind,
                given: number,
            });
        }
        match playback {
            Playback::Absorb => self.last = number,
            Playback::Hold => self.held = Some(number),
            Playback::AbsorbHeld => {
                self.held = None;
                self.last = number;
            }
            Playback::ForgetHeld => self.held = None,
            Playback::Known => {}
        }
        Ok(playback)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RecordKind::{Cancelled, Carried, Done, Entry, Prepared};

    fn play(absorbed: i64, records: &[(RecordKind, i64)]) -> Result<Vec<Playback>, JournalGap> {
        let mut replay = Replay::after(absorbed.try_into().unwrap());
        records
            .iter()
            .map(|(kind, number)| {
                replay.take(Record {
                    kind: *kind,
                    number: (*number).try_into().unwrap(),
                })
            })
            .collect()
    }

    #[test]
    fn what_the_store_has_is_passed_over_and_the_rest_is_absorbed_in_order() {
        use Playback::{Absorb, AbsorbHeld, ForgetHeld, Hold, Known};
        let all = [
            (Entry, 1),
            (Prepared, 2),
            (Done, 2),
            (Prepared, 3),
            (Cancelled, 3),
            (Prepared, 3),
            (Done, 3),
            (Entry, 4),
            (Prepared, 5),
        ];
        let from_nothing = [
            Absorb, Hold, AbsorbHeld, Hold, ForgetHeld, Hold, AbsorbHeld, Absorb, Hold,
        ];
        assert_eq!(play(0, &all).unwrap(), from_nothing);
        let mut from_three = [Known; 9];
        from_three[7..].copy_from_slice(&[Absorb, Hold]);
        assert_eq!(play(3, &all).unwrap(), from_three);
    }

    #[test]
    fn an_undecided_entry_may_be_carried_on_and_what_lies_before_it_may_be_gone() {
        use Playback::{AbsorbHeld, ForgetHeld, Hold};
        let all = [
            (Prepared, 5),
            (Cancelled, 5),
            (Prepared, 5),
            (Carried, 5),
            (Carried, 5),
            (Done, 5),
        ];
        let played = [Hold, ForgetHeld, Hold, Hold, Hold, AbsorbHeld];
        for gone in 0..5 {
            assert_eq!(play(4, &all[gone..]).unwrap(), played[gone..], "{gone}");
        }
        assert_eq!(
            play(4, &[(Carried, 5), (Cancelled, 5)]).unwrap(),
            [Hold, ForgetHeld]
        );
    }

    #[test]
    fn what_cannot_follow_is_a_gap() {
        for (absorbed, records) in [
            (0, &[(Entry, 2)][..]),
            (3, &[(Entry, 5)]),
            (0, &[(Entry, 1), (Entry, 1)]),
            (0, &[(Done, 1)]),
            (0, &[(Cancelled, 2)]),
            (0, &[(Carried, 2)]),
            (0, &[(Prepared, 1), (Carried, 2)]),
            (0, &[(Prepared, 1), (Done, 1), (Carried, 1)]),
            (0, &[(Prepared, 1), (Entry, 1)]),
            (0, &[(Prepared, 1), (Prepared, 2)]),
            (0, &[(Prepared, 1), (Done, 2)]),
            (0, &[(Prepared, 1), (Done, 1), (Done, 1)]),
            (0, &[(Prepared, 1), (Cancelled, 1), (Done, 1)]),
        ] {
            let gap = play(absorbed, records).unwrap_err();
            let (kind, given) = records[records.len() - 1];
            assert_eq!((gap.kind, gap.given.get()), (kind, given), "{records:?}");
        }
    }
}
