use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use turbine_keygroups::Evidence;

/// Event times that are accepted, in epoch milliseconds: 0001-01-01T00:00:00Z to
/// 9999-12-31T23:59:59.999Z.
pub const EVENT_TIME_RANGE: RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;

/// How far event time has come, and what the rows so far prove about their placement; stored with
/// the positions of the input, in the same write. All times are epoch milliseconds; none means that
/// no row was taken yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// The highest event time taken.
    pub max_event_time: Option<i64>,
    /// How far the data alone moved the frontier.
    pub data_frontier: Option<i64>,
    /// The frontier, idling included; at least the data frontier.
    pub frontier: Option<i64>,
    /// Per window: every window that ends at or before this has closed.
    pub closed_to: BTreeMap<String, i64>,
    /// Per window: the panes of every window that ends at or before this were handed out, so that
    /// those that are still stored are dead. Without an entry none was.
    #[serde(default)]
    pub drained_to: BTreeMap<String, i64>,
    /// Per window, where some panes of a window instance were handed out and others not: the stored
    /// key of the last that was. Those at or below it are dead.
    #[serde(default)]
    pub draining: BTreeMap<String, Vec<u8>>,
    /// While results are handed out some at a time: how far that is. None: all that closed was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handing_out: Option<HandingOut>,
    /// By what the state can be told from another one, and come to again from an older one.
    #[serde(default)]
    pub trail: Trail,
    /// What is known of the placement of rows. Stores of earlier versions have none.
    #[serde(default)]
    pub placement: Evidence,
}

/// How far the panes of windows that closed together were handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandingOut {
    /// Every window that was due at this frontier was handed out before.
    pub due: Option<i64>,
    /// Of those that came after it so many panes were, in the order of [`crate::Pipeline::drain_closed`]; none where that
    /// cannot be said, because the rules changed while they were open.
    pub panes: Option<u64>,
}

/// What a state rests on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trail {
    /// A number that is drawn anew where what follows does not come from the log by the same rules alone; 0 before any was.
    pub history: u64,
    /// The caller's word for the rules by which rows are made and judged.
    pub rules: u32,
    /// Rows taken so far. Rows in error are not counted, late ones are.
    pub rows: u64,
}

/// A stretch of time at the end of the log.
#[derive(Debug, Clone, Copy)]
struct IdleSpell {
    base: i64,
    length_ms: u64,
}

/// The running clocks of a pipeline.
#[derive(Debug)]
pub(crate) struct Frontier {
    out_of_orderness: i64,
    max_event_time: Option<i64>,
    data: Option<i64>,
    all: Option<i64>,
    spell: Option<IdleSpell>,
}

impl Frontier {
    pub(crate) fn new(out_of_orderness: i64, clocks: &Clocks) -> Self {
        Self {
            out_of_orderness,
            max_event_time: clocks.max_event_time,
            data: clocks.data_frontier,
            all: clocks.frontier.max(clocks.data_frontier),
            spell: None,
        }
    }

    pub(crate) fn max_event_time(&self) -> Option<i64> {
        self.max_event_time
    }

    pub(crate) fn data(&self) -> Option<i64> {
        self.data
    }

    pub(crate) fn get(&self) -> Option<i64> {
        self.all
    }

    /// A row of this time was taken.
    pub(crate) fn observe(&mut self, event_time: i64) {
        if self.max_event_time.is_some_and(|max| max >= event_time) {
            return;
        }
        self.max_event_time = Some(event_time);
        self.data = self.data.max(Some(event_time - self.out_of_orderness));
        self.all = self.all.max(self.data);
    }

    /// Something was read, so the task is not idle.
    pub(crate) fn end_spell(&mut self) {
        self.spell = None;
    }

    /// It is known to have come this far.
    pub(crate) fn advance(&mut self, to: Option<i64>) {
        self.all = self.all.max(to);
    }

    /// The task has stood at the log's end for `length_ms`; the frontier is moved along.
    pub(crate) fn coast(&mut self, length_ms: u64) {
        let Some(now) = self.all else { return };
        let base = match self.spell {
            Some(spell) if spell.length_ms <= length_ms => spell.base,
            _ => now,
        };
        self.spell = Some(IdleSpell { base, length_ms });
        self.all = self.all.max(Some(base.saturating_add_unsigned(length_ms)));
    }
}
