//! What a journal has of one store, in the order in which it counts.

use std::path::Path;

use turbine_protocol::journal::{Playback, RecordKind, Replay};
use turbine_protocol::{EntryNumber, StoreIdentity, StoredEntry};

use crate::error::StateError;
use crate::journal::{Journal, Life, RecordRef, WAY_OUT};
use crate::task_state::Progress;

/// The records of one store in a journal.
pub(crate) struct Tape<'a> {
    pub(crate) journal: &'a Journal,
    pub(crate) identity: &'a StoreIdentity,
    pub(crate) life: Life,
    /// The store's folder.
    pub(crate) store: &'a Path,
}

/// How far a playback came.
#[derive(Debug, Default)]
pub(crate) struct Played {
    /// Where the store stands by it; none if no entry counted.
    pub(crate) progress: Option<Progress>,
    /// The entry that is prepared, and where the store stands if it counts.
    pub(crate) held: Option<(RecordRef, Progress)>,
}

/// Takes a key with its value, or the removal of it.
pub(crate) type TakeChange<'a> = dyn FnMut(&[u8], Option<&[u8]>) -> Result<(), StateError> + 'a;

impl Tape<'_> {
    /// Gives the changes of all entries that count and lie behind `saved`.
    pub(crate) fn play(
        &self,
        saved: EntryNumber,
        take: &mut TakeChange<'_>,
    ) -> Result<Played, StateError> {
        let mut replay = Replay::after(saved);
        let mut held: Option<RecordRef> = None;
        let mut played = Played::default();
        for found in self.journal.records(self.life)? {
            let playback = replay
                .take(found.record)
                .map_err(|gap| self.damaged(&gap.to_string()))?;
            let counts = match playback {
                Playback::Known => None,
                Playback::Absorb => Some(found),
                Playback::Hold => {
                    held = Some(found);
                    None
                }
                Playback::AbsorbHeld => held.take(),
                Playback::ForgetHeld => {
                    held = None;
                    None
                }
            };
            if let Some(found) = counts {
                played.progress = Some(self.changes(&found, take)?);
            }
        }
        if let Some(found) = held {
            let stored = self.journal.read(&found)?;
            let progress = progress_of(&self.decode(&found, &stored)?, &found);
            played.held = Some((found, progress));
        }
        Ok(played)
    }

    /// Gives the changes of one entry, and says where the store stands with them.
    pub(crate) fn changes(
        &self,
        found: &RecordRef,
        take: &mut TakeChange<'_>,
    ) -> Result<Progress, StateError> {
        let stored = self.journal.read(found)?;
        let entry = self.decode(found, &stored)?;
        entry
            .changes(take)
            .ok_or_else(|| self.no_entry(entry.number))??;
        Ok(progress_of(&entry, found))
    }

    fn decode<'a>(
        &self,
        found: &RecordRef,
        stored: &'a [u8],
    ) -> Result<StoredEntry<'a>, StateError> {
        let entry = StoredEntry::decode(stored)
            .filter(|entry| entry.number == found.record.number)
            .ok_or_else(|| self.no_entry(found.record.number))?;
        if entry.task != self.identity.task() || entry.store_epoch != self.identity.store_epoch {
            return Err(self.damaged(&format!("entry {} is one of {}", entry.number, entry.task)));
        }
        Ok(entry)
    }

    fn no_entry(&self, number: EntryNumber) -> StateError {
        self.damaged(&format!("entry {number} does not decode"))
    }

    /// What is damaged is the journal, not the store: nothing may be put in its place for it.
    fn damaged(&self, detail: &str) -> StateError {
        StateError::Damaged {
            path: self.journal.folder().to_owned(),
            detail: format!(
                "for the store at {}: {detail}; {WAY_OUT}",
                self.store.display()
            ),
        }
    }
}

fn progress_of(entry: &StoredEntry<'_>, found: &RecordRef) -> Progress {
    Progress {
        number: entry.number,
        checksum: found.checksum(),
        positions: entry.positions.clone(),
        frontier: entry.frontier,
        by_transaction: matches!(
            found.record.kind,
            RecordKind::Prepared | RecordKind::Carried
        ),
        cleanly_stopped: false,
        clocks: entry.clocks.to_vec(),
    }
}
