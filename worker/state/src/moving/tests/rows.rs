//! Whatever was written: each row is in one new store, that of its owner.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rstest::rstest;
use tempfile::TempDir;

use super::*;

fn act() -> impl Strategy<Value = Act> {
    let user = || (0_u16..400).prop_map(|number| format!("user-{number}"));
    prop_oneof![
        20 => (user(), any::<u8>()).prop_map(|(user, value)| Act::Put(user, value)),
        3 => (0_u32..60, any::<u8>()).prop_map(|(number, value)| Act::Null(number, value)),
        3 => user().prop_map(Act::Remove),
        1 => user().prop_map(Act::RemoveGroup),
    ]
}

/// Rounds, each saved as one, with a compaction behind some of them.
fn rounds() -> impl Strategy<Value = Vec<(Vec<Act>, bool)>> {
    prop::collection::vec((prop::collection::vec(act(), 0..250), any::<bool>()), 1..4)
}

#[rstest]
#[case::doubled(2, 4)]
#[case::half_as_many_again(2, 3)]
#[case::several_sources(4, 6)]
#[case::three_times(5, 15)]
#[case::out_of_the_escape(7, 8)]
#[case::doubled_without_a_power_of_two(6, 12)]
#[case::five_times(12, 60)]
#[case::out_of_the_escape_with_a_common_divisor(9, 12)]
fn every_row_is_in_the_new_store_of_its_owner_and_nothing_else_is(
    #[case] from: u32,
    #[case] to: u32,
) {
    let mut runner = TestRunner::new(Config {
        cases: 3,
        ..Config::default()
    });
    let property = |rounds: Vec<(Vec<Act>, bool)>| {
        let folder = TempDir::new().unwrap();
        let mut app = App::new(&folder.path().join("state"), from);
        for (acts, compacts) in &rounds {
            app.save(acts);
            if *compacts {
                app.compact();
            }
        }
        app.stop();
        let moving = app.moving(&folder.path().join("move"), to);
        for (task, expected) in moving.plan().tasks().iter().zip(app.expected(to).values()) {
            let new = moving.build(task).unwrap();
            prop_assert_eq!(&content(&new), expected, "{}", task.task());
        }
        // The old stores are as they were.
        for number in 0..from {
            prop_assert_eq!(&content(&app.path(number)), &app.content[&number]);
        }
        Ok(())
    };
    runner.run(&rounds(), property).unwrap();
}

/// What a later compaction frees has not to be there for ever: hidden rows go.
#[rstest]
#[case::by_links(3, 12)]
#[case::of_several(4, 6)]
fn what_is_hidden_is_gone_after_a_compaction(#[case] from: u32, #[case] to: u32) {
    let folder = TempDir::new().unwrap();
    let mut app = App::new(&folder.path().join("state"), from);
    let acts: Vec<_> = (0..2000)
        .map(|number| Act::Put(format!("user-{number}"), 1))
        .collect();
    app.save(&acts);
    app.stop();
    let moving = app.moving(&folder.path().join("move"), to);
    let mut hidden = 0;
    for (task, expected) in moving.plan().tasks().iter().zip(app.expected(to).values()) {
        let new = moving.build(task).unwrap();
        let (rows, _) = Rows::open_at_rest(&new, &budget()).unwrap().unwrap();
        let stored = |rows: &Rows| -> usize {
            let tables = rows.tables().unwrap();
            let entries: u64 = tables
                .iter()
                .map(|table| table.num_entries - table.num_deletions)
                .sum();
            usize::try_from(entries).unwrap()
        };
        hidden += stored(&rows) - expected.len();
        // Range deletes are among the deletes that a table says it has: what looks for them after a compaction relies on it.
        let deletes = rows
            .tables()
            .unwrap()
            .iter()
            .any(|table| table.num_deletions > 0);
        assert_eq!(deletes, from == 3);
        rows.compact_whole().unwrap();
        assert!(
            rows.tables()
                .unwrap()
                .iter()
                .all(|table| table.num_deletions == 0)
        );
        assert_eq!(stored(&rows), expected.len());
        drop(rows);
        assert_eq!(&content(&new), expected);
    }
    // What draws from one store is made of whole files, and so has something to hide; the other way hides nothing.
    assert_eq!(hidden > 0, from == 3);
}

#[rstest]
#[case::by_links(4, 8)]
#[case::of_several(4, 6)]
fn a_new_store_says_what_it_is_and_where_it_came_from(#[case] from: u32, #[case] to: u32) {
    let folder = TempDir::new().unwrap();
    let mut app = App::new(&folder.path().join("state"), from);
    app.save(&[Act::Put("a".to_owned(), 1), Act::Null(2, 3)]);
    app.save(&[Act::Put("b".to_owned(), 1)]);
    app.stop();
    let moving = app.moving(&folder.path().join("move"), to);
    for task in moving.plan().tasks() {
        let number = task.task().index();
        let new = moving.build(task).unwrap();
        let (rows, header) = Rows::open_to_read(&new, &budget()).unwrap().unwrap();
        let mut expected = identity(number, to);
        expected.store_epoch = epoch(2);
        expected.format = 3;
        assert_eq!(header.identity, expected);
        // It has committed nothing, and stands where its own partition was left.
        assert_eq!(header.progress.number.get(), 0);
        let stands = if number < from {
            i64::from(number) * 1000 + 2
        } else {
            0
        };
        assert_eq!(header.progress.positions, positions(number, stands));
        let origins = rows.origins().unwrap();
        let sources: Vec<u32> = origins
            .iter()
            .map(|origin| origin.partition.index())
            .collect();
        // A partition's rows lie with those of the old partitions that are equal to it as far as both counts tell.
        let common = if to == 8 { 4 } else { 2 };
        let known: Vec<u32> = (0..from)
            .filter(|old| old % common == number % common)
            .collect();
        assert_eq!(sources, known);
        let least = origins.iter().map(|origin| origin.frontier).min().unwrap();
        assert_eq!(header.progress.frontier, least);
        for origin in origins {
            let next = i64::from(origin.partition.get()) * 1000 + 2;
            assert_eq!(origin.positions, positions(origin.partition.index(), next));
            assert_eq!(origin.frontier, Frontier(Some(next * 10)));
            assert_eq!(origin.clocks, next.to_be_bytes());
            assert_eq!(origin.number.get(), 2);
            assert_eq!(origin.store_epoch, epoch(1));
            assert!(origin.cleanly_stopped);
        }
    }
}

/// Between two tries the app may have run.
#[rstest]
#[case::by_links(2, 4)]
#[case::of_several(4, 6)]
fn what_was_taken_before_the_app_ran_again_is_taken_anew(#[case] from: u32, #[case] to: u32) {
    let folder = TempDir::new().unwrap();
    let mut app = App::new(&folder.path().join("state"), from);
    let put = |number: u32, value| Act::Put(format!("user-{number}"), value);
    app.save(&(0..200).map(|number| put(number, 1)).collect::<Vec<_>>());
    app.stop();
    let at = folder.path().join("move");
    let moving = app.moving(&at, to);
    for task in moving.plan().tasks() {
        moving.build(task).unwrap();
    }
    app.start();
    app.save(&(100..300).map(|number| put(number, 2)).collect::<Vec<_>>());
    app.stop();
    let moving = app.moving(&at, to);
    for (task, expected) in moving.plan().tasks().iter().zip(app.expected(to).values()) {
        assert_eq!(&content(&moving.build(task).unwrap()), expected);
    }
}
