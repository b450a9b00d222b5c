//! The simulator itself: each broken rule is found out within a bounded number of schedules.

#![allow(clippy::print_stdout, reason = "tests tell what they covered")]

use turbine_simulator::{Broken, Violation, run};

/// So many are tried for each rule.
const SCHEDULES: u64 = 4000;

/// Whether this is what the broken rule leads to; nothing else counts as found out.
fn shows(broken: Broken, violation: &Violation) -> bool {
    use Violation::{Applied, ClosedTwice, ForeignReceipt, Late, NoProgress, Order, Stopped};
    match broken {
        Broken::EndsAfterGrowth => matches!(violation, Stopped(_) | Applied { .. }),
        Broken::GrowthBeforeHolds | Broken::VouchAtAnswer => matches!(violation, Late { .. }),
        Broken::NoGate => matches!(violation, Order { .. }),
        Broken::LastStableOffset => matches!(violation, Order { .. } | Late { .. }),
        Broken::ClosedToForgotten => matches!(violation, ClosedTwice { .. }),
        Broken::NoInternalTails => matches!(violation, Applied { times: 0, .. }),
        Broken::NoSeal | Broken::BareNumber => matches!(
            violation,
            Applied { times: 2.., .. } | Applied { times: 0, .. } | ForeignReceipt(_)
        ),
        Broken::Buffers => matches!(violation, NoProgress(_)),
    }
}

/// The first seed whose schedule shows the broken rule.
fn caught(broken: Broken) -> Option<(u64, Violation)> {
    (1..=SCHEDULES).find_map(|seed| {
        let violations = run(seed, Some(broken)).violations;
        let shown = violations.into_iter().find(|found| shows(broken, found))?;
        Some((seed, shown))
    })
}

#[test]
fn each_broken_rule_is_found_out_by_what_it_leads_to() {
    let not_found: Vec<Broken> = Broken::ALL
        .into_iter()
        .filter(|broken| match caught(*broken) {
            Some((seed, violation)) => {
                println!("{broken:?}: seed {seed}: {violation:?}");
                false
            }
            None => true,
        })
        .collect();
    assert!(
        not_found.is_empty(),
        "{not_found:?} not found out by {SCHEDULES} schedules each"
    );
}
