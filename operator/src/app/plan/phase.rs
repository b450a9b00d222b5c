//! The phases of an app and the edges between them.

use std::collections::VecDeque;
use std::fmt::Write as _;

use strum::IntoEnumIterator as _;
use turbine_crds::status::Phase;

/// The phases that may follow a phase. The match is exhaustive: a new phase has to say where it leads.
pub fn next(phase: Phase) -> &'static [Phase] {
    use Phase::{
        Deleting, Failed, Pending, Provisioning, Rescaling, Running, Starting, Stopping, Suspended,
    };
    match phase {
        Pending => &[Provisioning, Suspended, Failed, Deleting],
        Provisioning => &[Starting, Pending, Stopping, Failed, Deleting],
        Starting => &[Running, Rescaling, Provisioning, Stopping, Failed, Deleting],
        Running => &[Starting, Rescaling, Stopping, Failed, Deleting],
        // Its tasks may stand still, and start anew.
        Rescaling => &[Running, Starting, Stopping, Failed, Deleting],
        Stopping => &[Suspended, Starting, Provisioning, Deleting],
        Suspended => &[Provisioning, Stopping, Pending, Failed, Deleting],
        Failed => &[Pending, Provisioning, Starting, Stopping, Deleting],
        Deleting => &[],
    }
}

/// The phase to write on the way from one to another: a phase is never jumped over. `None` if there is no way.
pub fn step(from: Option<Phase>, to: Phase) -> Option<Phase> {
    // Every life begins as Pending.
    let Some(from) = from else {
        return Some(Phase::Pending);
    };
    if from == to {
        return Some(to);
    }
    let mut seen = vec![from];
    let mut ways: VecDeque<(Phase, Phase)> =
        next(from).iter().map(|phase| (*phase, *phase)).collect();
    while let Some((first, last)) = ways.pop_front() {
        if last == to {
            return Some(first);
        }
        if !seen.contains(&last) {
            seen.push(last);
            ways.extend(next(last).iter().map(|phase| (first, *phase)));
        }
    }
    None
}

/// The table of edges, as the documentation prints it.
pub fn table() -> String {
    let mut table = String::from("| phase | may become |\n|---|---|\n");
    for phase in Phase::iter() {
        let after: Vec<String> = next(phase).iter().map(ToString::to_string).collect();
        let after = if after.is_empty() {
            "(gone)".to_owned()
        } else {
            after.join(", ")
        };
        // Writing to a String cannot fail.
        let _ = writeln!(table, "| {phase} | {after} |");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletion_is_one_step_away_from_everywhere_and_final() {
        for phase in Phase::iter().filter(|phase| *phase != Phase::Deleting) {
            assert!(next(phase).contains(&Phase::Deleting), "{phase}");
        }
        assert_eq!(step(Some(Phase::Deleting), Phase::Running), None);
    }

    #[test]
    fn every_living_phase_leads_to_running_and_to_suspended() {
        for phase in Phase::iter().filter(|phase| *phase != Phase::Deleting) {
            for end in [Phase::Running, Phase::Suspended] {
                let mut at = phase;
                for _ in 0..8 {
                    at = step(Some(at), end).unwrap();
                }
                assert_eq!(at, end, "from {phase}");
            }
        }
    }

    #[test]
    fn nothing_runs_that_was_not_started() {
        for phase in Phase::iter().filter(|phase| *phase != Phase::Running) {
            let leads = next(phase).contains(&Phase::Running);
            let started = matches!(phase, Phase::Starting | Phase::Rescaling);
            assert_eq!(leads, started, "{phase}");
        }
    }

    #[test]
    fn the_printed_table() {
        insta::assert_snapshot!(table());
    }
}
