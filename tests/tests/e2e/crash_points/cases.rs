//! Every point with the passes at which a worker is to die there.

use std::fmt;

use turbine_state::fault::FaultPoint;
use turbine_tests::events::mix;

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
        // No worker comes there: stores are moved by a tool, while the app is stopped.
        P::InPull | P::InCut | P::BeforeMovedStore | P::AfterMovedStore => return None,
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

impl Case {
    /// The test that this is a case of.
    fn test(&self) -> String {
        let dies = match self.checkpoints {
            Checkpoints::Volume => "a_worker_that_dies_at_any_named_point",
            Checkpoints::Bucket => "a_worker_that_dies_with_its_checkpoints_in_a_bucket",
        };
        let case = match self.guarantee {
            Guarantee::AtLeastOnce => "case_1_at_least_once",
            Guarantee::ExactlyOnce => "case_2_exactly_once",
        };
        format!("crash_points::{dies}_loses_and_doubles_nothing::{case}")
    }

    /// What runs this case again, and no other.
    pub(super) fn command(&self) -> String {
        format!(
            "TURBINE_CRASH_SEED={} TURBINE_FAULT_POINTS={} ./run test --e2e {}",
            self.seed,
            self.fault.point,
            self.test()
        )
    }
}

/// The seed of one case: that of its round, with its own names mixed in, so that which other cases there are changes nothing.
fn own_seed(seed: u64, point: FaultPoint, guarantee: Guarantee, checkpoints: Checkpoints) -> u64 {
    format!("{point} {guarantee} {checkpoints:?}")
        .bytes()
        .fold(seed, |seed, byte| mix(seed, byte.into(), 0))
}

/// One case per point, at passes that the seed of a round chooses. A round is a run of its own: the next one has the next seed.
pub(super) fn cases(
    guarantee: Guarantee,
    checkpoints: Checkpoints,
    points: &[FaultPoint],
    seed: u64,
) -> Vec<Case> {
    points
        .iter()
        .filter_map(|point| {
            let point = *point;
            let Way { before, passes } = way(point, guarantee)?;
            let mut dice = Dice::new(own_seed(seed, point, guarantee, checkpoints));
            let pass = passes.0 + dice.below(passes.1 - passes.0 + 1);
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::*;

    const GUARANTEES: [Guarantee; 2] = [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce];

    fn passes(of: &[Case]) -> BTreeSet<(String, u64)> {
        of.iter()
            .map(|case| (case.fault.point.to_string(), case.fault.pass))
            .collect()
    }

    #[test]
    fn a_point_has_the_same_pass_whichever_other_points_there_are() {
        let all: Vec<FaultPoint> = FaultPoint::all().collect();
        let backwards: Vec<FaultPoint> = all.iter().rev().copied().collect();
        for guarantee in GUARANTEES {
            for seed in 1_790_000_000..1_790_000_020 {
                let together = cases(guarantee, Checkpoints::Volume, &all, seed);
                assert!(together.len() > 10, "{together:?}");
                assert_eq!(
                    passes(&cases(guarantee, Checkpoints::Volume, &backwards, seed)),
                    passes(&together)
                );
                for case in &together {
                    let alone = cases(guarantee, Checkpoints::Volume, &[case.fault.point], seed);
                    assert_eq!(passes(&alone), passes(std::slice::from_ref(case)));
                }
            }
        }
    }

    #[test]
    fn rounds_and_guarantees_differ_in_their_passes() {
        let of = |guarantee, seed| {
            let cases = cases(
                guarantee,
                Checkpoints::Volume,
                &[FaultPoint::AfterSync],
                seed,
            );
            cases[0].fault.pass
        };
        for guarantee in GUARANTEES {
            let different: BTreeSet<u64> = (0..50).map(|seed| of(guarantee, seed)).collect();
            assert!(different.len() > 15, "{guarantee}: {different:?}");
        }
        assert!(
            (0..50).any(|seed| {
                of(Guarantee::AtLeastOnce, seed) != of(Guarantee::ExactlyOnce, seed)
            })
        );
    }

    #[test]
    fn the_command_of_a_case_names_its_seed_its_point_and_one_test_that_there_is() {
        for guarantee in GUARANTEES {
            for checkpoints in [Checkpoints::Volume, Checkpoints::Bucket] {
                let cases = cases(guarantee, checkpoints, &[FaultPoint::InPrune], 7);
                assert_eq!(cases.len(), 1);
                let command = cases[0].command();
                assert!(
                    command.starts_with("TURBINE_CRASH_SEED=7 TURBINE_FAULT_POINTS=in-prune "),
                    "{command}"
                );
                let name = command.rsplit(' ').next().unwrap();
                let listed = Command::new(std::env::current_exe().unwrap())
                    .args(["--list", name])
                    .output()
                    .unwrap();
                let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
                let tests = listed.lines().filter(|line| line.ends_with(": test"));
                assert_eq!(tests.count(), 1, "{command}: {listed}");
            }
        }
    }
}
