//! What a seed makes of a schedule.

use rand::Rng;
use rand::rngs::StdRng;
use turbine_protocol::rescale::{Millis, Waits};

/// Out-of-orderness and size of the tumbling window, in ticks; one tick is a millisecond.
pub(crate) const OUT_OF_ORDERNESS: i64 = 8;
pub(crate) const WINDOW: i64 = 10;

pub(crate) const WAITS: Waits = Waits {
    order_grace: Millis(14),
    producer_refresh: Millis(60),
    metadata_grace: Millis(6),
};

/// A record is visible as an end at most so long after it was sent; below `order_grace`.
pub(crate) const DELIVERY: i64 = 6;
pub(crate) const STALL: i64 = 5;

/// The old and the new counts that schedules are made of.
pub const SHAPES: [(u32, u32); 8] = [
    (2, 4),
    (2, 3),
    (4, 6),
    (5, 15),
    (7, 8),
    (6, 12),
    (1, 3),
    (3, 5),
];

/// A rule that the driver breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The ends before the growth are asked for after it.
    EndsAfterGrowth,
    /// The topic grows before every hold is durable.
    GrowthBeforeHolds,
    /// Moved-in cursors are read whatever their gates say.
    NoGate,
    /// The last stable offset is taken for the end.
    LastStableOffset,
    /// What a cursor at its end vouches for is looked up when the answer comes.
    VouchAtAnswer,
    /// What had closed in the old tasks is forgotten.
    ClosedToForgotten,
    /// Tails of internal topics are left out.
    NoInternalTails,
    /// Old tasks are taken at their word, unsealed.
    NoSeal,
    /// The number alone says whether an entry counts, and whose receipt it is.
    BareNumber,
    /// Gated cursors read ahead into a buffer; one fetch per partition serves all tasks.
    Buffers,
}

impl Broken {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::EndsAfterGrowth,
        Self::GrowthBeforeHolds,
        Self::NoGate,
        Self::LastStableOffset,
        Self::VouchAtAnswer,
        Self::ClosedToForgotten,
        Self::NoInternalTails,
        Self::NoSeal,
        Self::BareNumber,
        Self::Buffers,
    ];
}

/// A schedule's setting.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub(crate) counts: Vec<u32>,
    pub(crate) foreign: bool,
    pub(crate) internal: bool,
    pub(crate) coasts: bool,
    pub(crate) straggler: bool,
    pub(crate) undone_first: bool,
    pub(crate) crashes: bool,
    pub(crate) keys: u32,
    pub(crate) producers: usize,
    pub(crate) pace: f64,
    /// The share of rows that come late.
    pub(crate) late: f64,
    pub(crate) reads: usize,
    pub(crate) broken: Option<Broken>,
}

impl Scenario {
    pub(crate) fn draw(rng: &mut StdRng, broken: Option<Broken>) -> Self {
        let (from, to) = SHAPES[rng.random_range(0..SHAPES.len())];
        let mut counts = vec![from, to];
        if to <= 6 && rng.random_bool(0.2) {
            counts.push(to * 2);
        }
        let internal =
            broken == Some(Broken::NoInternalTails) || (broken.is_none() && rng.random_bool(0.1));
        let ours_only = matches!(
            broken,
            Some(Broken::EndsAfterGrowth | Broken::GrowthBeforeHolds)
        );
        Self {
            foreign: !internal && !ours_only && rng.random_bool(0.2),
            internal,
            coasts: rng.random_bool(0.3),
            straggler: !internal && broken.is_none() && rng.random_bool(0.05),
            undone_first: rng.random_bool(0.2),
            crashes: rng.random_bool(0.7),
            keys: [3, 12, 60][rng.random_range(0..3)],
            producers: rng.random_range(2..6),
            pace: [0.1, 0.3, 0.6][rng.random_range(0..3)],
            late: [0.02, 0.1, 0.4][rng.random_range(0..3)],
            reads: rng.random_range(1..6),
            counts,
            broken,
        }
    }

    pub(crate) fn breaks(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }
}
