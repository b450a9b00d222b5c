//! One row: judged by every rule, then folded.

use turbine_keygroups::{Group, Partition};

use super::Pipeline;
use crate::batch::{Outcome, RowError, RowFault};
use crate::clock::EVENT_TIME_RANGE;
use crate::columns::Columns;
use crate::keys::MAX_KEY_BYTES;
use crate::placement::Judged;
use crate::spec::OnNullKey;
use crate::windows::{NewPane, Slice};

impl Pipeline {
    pub(super) fn take_row(
        &mut self,
        row: usize,
        event_time: Option<i64>,
        now_ms: i64,
        columns: &Columns<'_>,
        can_refuse: bool,
        outcome: &mut Outcome,
    ) -> Result<(), RowFault> {
        let event_time = self.check_time(event_time, now_ms)?;
        let null_key = self.partition_key.is_null(columns, row);
        if null_key {
            match self.spec.on_null_key {
                OnNullKey::Group => {}
                OnNullKey::Error => return Err(RowFault::NullKey),
                OnNullKey::Drop => {
                    outcome.null_keys_dropped += 1;
                    return Ok(());
                }
            }
        }
        self.places.clear();
        let mut check_placement = self.placement.every_row();
        // A row that no window takes meets no pane whose key was checked.
        let mut late = true;
        for window in &mut self.windows {
            let keys = &self.key_sets[window.key_set].1;
            let place = window.locate(row, event_time, &self.frontier, keys);
            check_placement |= place.makes_pane();
            late &= place.is_late();
            self.places.push(place);
        }
        let judged = if check_placement || late {
            let key = self.partition_key.read(columns, row, &mut self.scratch);
            match self.placement.judge(key) {
                Judged::Foreign { hash, owner, .. } if self.placement.refuses() => {
                    return Err(self.misplaced(hash, owner));
                }
                judged => Some(judged),
            }
        } else {
            None
        };
        if self.has_long_key {
            self.check_keys(row)?;
        }
        if can_refuse {
            for (window, place) in self.windows.iter().zip(&self.places) {
                window.check(*place, columns, row)?;
            }
        }
        let group = judged.map(|judged| self.settle(row, judged, outcome));
        let windows = self
            .windows
            .iter_mut()
            .zip(&self.places)
            .zip(&mut outcome.late);
        for ((window, place), late) in windows {
            let keys = &self.key_sets[window.key_set].1;
            let (partition_key, scratch) = (&self.partition_key, &mut self.scratch);
            window.fold(*place, columns, row, late, || NewPane {
                tuple: keys.tuple(row),
                hash: keys.hash(row),
                slice: Slice::of(
                    group.unwrap_or_else(|| Group::of(partition_key.read(columns, row, scratch))),
                ),
            });
        }
        outcome.null_keys_grouped += u64::from(null_key);
        self.frontier.observe(event_time);
        Ok(())
    }

    /// The fault of the row whose partition key was read last.
    fn misplaced(&self, hash: u32, owner: Partition) -> RowFault {
        RowFault::Misplaced {
            key: self.scratch.clone(),
            hash,
            owner,
        }
    }

    /// Keeps what a row that is folded proves; its key group.
    fn settle(&mut self, row: usize, judged: Judged, outcome: &mut Outcome) -> Group {
        match judged {
            Judged::Fits { group, hash } => {
                if let Some(hash) = hash {
                    self.placement.evidence.saw_right(hash);
                }
                group
            }
            Judged::Foreign { group, hash, owner } => {
                outcome.observed_misplaced += 1;
                outcome.first_observed.get_or_insert_with(|| RowError {
                    row,
                    fault: self.misplaced(hash, owner),
                });
                group
            }
        }
    }

    fn check_keys(&self, row: usize) -> Result<(), RowFault> {
        let longest = self.key_sets.iter().map(|(_, keys)| keys.tuple(row).len());
        match longest.max() {
            Some(bytes) if bytes > MAX_KEY_BYTES => Err(RowFault::KeyTooLong {
                bytes,
                limit: MAX_KEY_BYTES,
            }),
            Some(_) | None => Ok(()),
        }
    }

    fn check_time(&self, event_time: Option<i64>, now_ms: i64) -> Result<i64, RowFault> {
        let ms = event_time.ok_or(RowFault::NoEventTime)?;
        if !EVENT_TIME_RANGE.contains(&ms) {
            return Err(RowFault::EventTimeOutOfRange { ms });
        }
        let limit_ms = self.spec.max_future_ms;
        if ms > now_ms.saturating_add_unsigned(limit_ms) {
            return Err(RowFault::TooFarAhead {
                ms,
                ahead_ms: ms.abs_diff(now_ms),
                limit_ms,
            });
        }
        Ok(ms)
    }
}
