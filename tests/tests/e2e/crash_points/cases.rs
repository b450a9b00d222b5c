//! Every point with the passes at which a worker is to die there.

use std::fmt;

use turbine_state::fault::FaultPoint;

use super::super::crashes::Dice;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guarantee {
    AtLeastOnce,
    ExactlyOnce,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtLeastOnce => "atLeastOnce",
            Self::ExactlyOnce => "exactlyOnce",
        })
    }
}

/// A point, and the pass of it that is meant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    pub(super) point: FaultPoint,
    pub(super) pass: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.point, self.pass)
    }
}

/// Where checkpoints lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checkpoints {
    Volume,
    Bucket,
}

impl Checkpoints {
    /// Points at which it matters where they lie.
    pub(super) const POINTS: [FaultPoint; 4] = [
        FaultPoint::InUpload,
        FaultPoint::InCheckpoint,
        FaultPoint::InPrune,
        FaultPoint::InRestore,
    ];
}

/// How a point is come to.
struct Way {
    /// How the life before must have ended.
    before: Option<Fault>,
    /// Passes, ends included: from where there is state to where a life comes within seconds.
    passes: (u64, u64),
}

fn way(point: FaultPoint, guarantee: Guarantee) -> Option<Way> {
    use FaultPoint as P;
    let once = guarantee == Guarantee::ExactlyOnce;
    let (before, passes) = match point {
        P::AfterProduce => (None, (2, 12)),
        P::AfterJournalWrite | P::AfterSync | P::AfterOffsetsSent | P::AfterCommit => {
            (None, (4, 40))
        }
        // At least once nothing is prepared.
        P::BeforeMarkingDone | P::AfterMarkingDone if !once => return None,
        P::BeforeMarkingDone | P::AfterMarkingDone => (None, (4, 40)),
        P::InRecovery => (Some((P::AfterSync, 20)), (1, 3)),
        // The first ones are those of new stores; one a second and task.
        P::InSave | P::AfterSave => (None, (2, 7)),
        P::InCheckpoint => (None, (2, 7)),
        P::InUpload => (None, (2, 30)),
        // The first that goes is the one before the two that are kept.
        P::InPrune => (None, (1, 4)),
        P::InRestore => (Some((P::InCheckpoint, 7)), (1, 8)),
        P::InCompaction => (None, (1, 8)),
        P::DiskFull => (None, (4, 40)),
        P::TornWrite => (None, (4, 40)),
    };
    let before = before.map(|(point, pass)| Fault { point, pass });
    Some(Way { before, passes })
}

/// One way to die, from the first life to the comparison.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) guarantee: Guarantee,
    pub(super) checkpoints: Checkpoints,
    pub(super) before: Option<Fault>,
    pub(super) fault: Fault,
    pub(super) seed: u64,
}

/// One case per point, at passes that a seed chooses.
pub(super) fn cases(
    guarantee: Guarantee,
    checkpoints: Checkpoints,
    points: &[FaultPoint],
    seed: u64,
) -> Vec<Case> {
    let mut dice = Dice::new(seed);
    points
        .iter()
        .filter_map(|point| {
            let Way { before, passes } = way(*point, guarantee)?;
            let pass = passes.0 + dice.below(passes.1 - passes.0 + 1);
            let point = *point;
            Some(Case {
                guarantee,
                checkpoints,
                before,
                fault: Fault { point, pass },
                seed,
            })
        })
        .collect()
}
