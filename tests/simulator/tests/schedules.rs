//! Schedules without a broken rule: none may be violated.
//!
//! `TURBINE_SCHEDULES` says how many the long form runs, `TURBINE_SEED` from which seed on.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking and tell what they covered"
)]

use turbine_simulator::run;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Runs seeds and says what they covered; a seed that fails is named, and repeats alone.
fn schedules(first: u64, count: u64) {
    let (mut records, mut ticks, mut blocked) = (0, 0, 0);
    for seed in first..first + count {
        let outcome = run(seed, None);
        assert!(
            outcome.violations.is_empty(),
            "seed {seed} fails after {} ticks; repeat it alone with TURBINE_SEED={seed} TURBINE_SCHEDULES=1\n{:#?}\n{:?}",
            outcome.ticks,
            outcome.violations,
            outcome.scenario,
        );
        records += outcome.records;
        ticks += outcome.ticks;
        blocked += u64::from(outcome.blocked);
    }
    println!(
        "{count} schedules from seed {first}: {records} records, {ticks} ticks, {blocked} stopped by a producer"
    );
}

#[test]
fn no_schedule_violates_a_rule() {
    schedules(1, 2000);
}

#[test]
#[ignore = "long: TURBINE_SCHEDULES schedules from TURBINE_SEED"]
fn long_form_no_schedule_violates_a_rule() {
    schedules(
        setting("TURBINE_SEED", 1_000_000),
        setting("TURBINE_SCHEDULES", 1_000_000),
    );
}
