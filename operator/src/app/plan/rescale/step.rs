//! The steps of a rescale and the edges between them.

use std::fmt::Write as _;

use strum::IntoEnumIterator as _;
use turbine_crds::status::RescaleStep;

/// The steps that may follow a step. The match is exhaustive: a new step has to say where it leads.
pub fn next(step: RescaleStep) -> &'static [RescaleStep] {
    use RescaleStep::{
        Announced, Draining, Growing, OldStateReleased, Requested, Settled, Started, StateMoved,
        Stopped, TopicGrown, Undone, Verified,
    };
    match step {
        Requested => &[Announced, Undone],
        // Without a topic to grow (another hand grew it, or only pods change) there is no call to journal.
        Announced => &[Growing, TopicGrown, Undone],
        Growing => &[TopicGrown],
        TopicGrown => &[Draining],
        Draining => &[Stopped],
        Stopped => &[StateMoved],
        StateMoved => &[Started],
        Started => &[Verified],
        Verified => &[OldStateReleased],
        OldStateReleased => &[Settled],
        // A plan that is over is followed by another one, under a higher epoch.
        Settled | Undone => &[Requested],
    }
}

/// What a step records, does and waits for.
struct Row {
    journalled: &'static str,
    acts: &'static str,
    until: &'static str,
}

fn row(step: RescaleStep) -> Row {
    let (journalled, acts, until) = match step {
        RescaleStep::Requested => (
            "epoch, generation, counts, placement; nothing was refused",
            "copies are made ahead",
            "nothing is refused, copies are made",
        ),
        RescaleStep::Announced => (
            "the hold",
            "tasks are told to hold their frontiers",
            "every old task has synced a hold of this epoch and knows the count",
        ),
        RescaleStep::Growing => (
            "each hold's commit, the end of each old partition",
            "topics are grown",
            "a broker answers the new count",
        ),
        RescaleStep::TopicGrown => (
            "that topics have grown, and by whom",
            "further pods are made",
            "every broker answers the new count, every pod of the new layout answers",
        ),
        RescaleStep::Draining => (
            "the order to stop, the time of the growth",
            "tasks are stopped; exactly once: their receipts are sealed",
            "exactly once: each old task is sealed; at least once: each said where it stopped",
        ),
        RescaleStep::Stopped => (
            "where each old task stopped",
            "new stores are pulled",
            "each new store has each of its parts once",
        ),
        RescaleStep::StateMoved => (
            "checksum of the manifest of each new store",
            "",
            "the record is on the volumes",
        ),
        RescaleStep::Started => (
            "the new layout",
            "tasks are started",
            "each new task has made a commit of its own",
        ),
        RescaleStep::Verified => ("when the pause ended", "", "the volumes that go are known"),
        RescaleStep::OldStateReleased => (
            "volumes that go, which of them are empty, the proposed and the agreed end of each old partition",
            "old stores, then pods, then their volumes (if asked for) are removed",
            "all are gone, tails are closed, moved-in cursors have caught up",
        ),
        RescaleStep::Settled => ("the end", "", "another plan"),
        RescaleStep::Undone => ("that the plan is given up", "holds end", "another plan"),
    };
    Row {
        journalled,
        acts,
        until,
    }
}

/// The table of steps, as the documentation prints it.
pub fn table() -> String {
    let mut table = String::from(
        "| step | on record before | then | goes on when | may become |\n|---|---|---|---|---|\n",
    );
    for step in RescaleStep::iter() {
        let after: Vec<String> = next(step).iter().map(ToString::to_string).collect();
        let Row {
            journalled,
            acts,
            until,
        } = row(step);
        // Writing to a String cannot fail.
        let _ = writeln!(
            table,
            "| {step} | {journalled} | {acts} | {until} | {} |",
            after.join(", ")
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_before_a_growth_is_undone() {
        let undoable: Vec<RescaleStep> = RescaleStep::iter()
            .filter(|step| next(*step).contains(&RescaleStep::Undone))
            .collect();
        assert_eq!(undoable, [RescaleStep::Requested, RescaleStep::Announced]);
    }

    #[test]
    fn steps_only_go_forward_until_the_plan_is_over() {
        for step in RescaleStep::iter() {
            for after in next(step) {
                let anew = *after == RescaleStep::Requested;
                assert!(anew || *after > step, "{step} to {after}");
                assert_eq!(anew, step >= RescaleStep::Settled, "{step} to {after}");
            }
        }
    }

    #[test]
    fn the_printed_table() {
        insta::assert_snapshot!(table());
    }
}
