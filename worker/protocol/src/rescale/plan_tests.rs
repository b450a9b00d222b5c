use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::rescale::growth::tests::{any_growth, growth, partition};
use crate::rescale::{Millis, Reading, RecordKey, Row, Taken, Waits};

const WAITS: Waits = Waits {
    order_grace: Millis(100),
    producer_refresh: Millis(1000),
    metadata_grace: Millis(10),
};

fn at(offset: u32) -> Offset {
    i64::from(offset).try_into().unwrap()
}

fn stop(next: u32, left_from: Option<u32>) -> OldStop {
    OldStop {
        next: at(next),
        left_from: left_from.map(at),
    }
}

fn plan(growth: Growth) -> Plan {
    Plan::new(4.try_into().unwrap(), growth)
}

fn old_tasks(
    growth: Growth,
    stops: &[u32],
    frontiers: &[i64],
) -> BTreeMap<Partition, StoredReading> {
    let old = Partition::all(growth.from()).zip(stops).zip(frontiers);
    old.map(|((task, stop), frontier)| {
        let mut stored = StoredReading::steady(task, growth.from(), at(*stop));
        stored.frontier.0 = Some(*frontier);
        (task, stored)
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_record_is_taken_once_by_its_keys_owner_wherever_its_producers_count_puts_it(
        growth in any_growth(),
        ends in prop::collection::vec((0..20_u32, 0..20_u32), 120),
        records in prop::collection::vec((0..=0x7fff_ffff_u32, any::<bool>(), 0..40_u32), 1..40),
    ) {
        let count = growth.from().get() as usize;
        let before: Vec<u32> = ends[..count].iter().map(|(before, _)| *before).collect();
        let stops: Vec<u32> = ends[..count].iter().map(|(_, stop)| *stop).collect();
        let plan = plan(growth)
            .with_ends_before(before.iter().copied().map(at).collect()).unwrap()
            .with_growth(Moment(0)).unwrap()
            .with_stops(stops.iter().map(|next| stop(*next, None)).collect()).unwrap();
        let old = old_tasks(growth, &stops, &vec![0; count]);
        for (hash, placed_by_new, offset) in records {
            let key = RecordKey::Hash(hash);
            let owner = partition(hash % growth.to().get());
            let by_old = partition(hash % growth.from().get());
            let lies_in = if placed_by_new { owner } else { by_old };
            let index = lies_in.index() as usize;
            // What only the new count explains lies behind the end before the growth.
            let offset = match before.get(index) {
                Some(before) if lies_in != by_old => offset + before,
                _ => offset,
            };
            let mut takers = Vec::new();
            if lies_in == by_old && offset < stops[index] {
                takers.push(by_old);
            }
            for task in Partition::all(growth.to()) {
                let begun = plan.begin(task, |source| old.get(&source)).unwrap();
                let mut reading = Reading::resume(begun, 0, WAITS, Moment(0));
                for (cursor, reads) in reading.stored().cursors().to_vec().iter().enumerate() {
                    if reads.partition() == lies_in && reads.next() <= at(offset) {
                        let row = Row { offset: at(offset), key, event_time: 1 };
                        if let Taken::Apply { .. } = reading.take(cursor, &row, Moment(1)).unwrap() {
                            takers.push(task);
                        }
                    }
                }
            }
            let taker = if offset < stops.get(index).copied().unwrap_or(0) && lies_in == by_old { by_old } else { owner };
            prop_assert_eq!(takers, vec![taker], "hash {} at {}/{}", hash, lies_in, offset);
        }
    }

    #[test]
    fn the_readers_of_an_old_partition_are_its_own_task_and_those_with_a_tail_of_it(growth in any_growth()) {
        let count = growth.from().get() as usize;
        let plan = plan(growth)
            .with_growth(Moment(0)).unwrap()
            .with_stops(vec![stop(3, None); count]).unwrap();
        for old in Partition::all(growth.from()) {
            let with_tail = Partition::all(growth.to()).filter(|task| {
                let cursors = plan.cursors(*task).unwrap();
                *task == old || cursors.iter().any(|cursor| cursor.kind == CursorKind::Tail && cursor.partition == old)
            });
            prop_assert_eq!(plan.old_readers(old).collect::<Vec<_>>(), with_tail.collect::<Vec<_>>());
        }
    }
}

#[test]
fn the_cursors_of_two_to_three() {
    let plan = plan(growth(2, 3))
        .with_ends_before(vec![at(10), at(20)])
        .unwrap()
        .with_growth(Moment(7))
        .unwrap()
        .with_stops(vec![stop(12, Some(11)), stop(18, None)])
        .unwrap();
    let cursors = |task: u32| {
        let planned = plan.cursors(partition(task)).unwrap().into_iter();
        planned
            .map(|cursor| (cursor.kind, cursor.partition.index(), cursor.from.get()))
            .collect::<Vec<_>>()
    };
    use CursorKind::{Kept, MovedIn, Tail};
    assert_eq!(cursors(0), [(Kept, 0, 12), (MovedIn, 0, 10), (Tail, 1, 18)]);
    assert_eq!(cursors(1), [(Kept, 1, 18), (MovedIn, 1, 20), (Tail, 0, 12)]);
    assert_eq!(
        cursors(2),
        [(Kept, 2, 0), (MovedIn, 2, 0), (Tail, 0, 12), (Tail, 1, 18)]
    );
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
}

#[test]
fn after_another_hands_growth_moved_in_begins_at_the_first_record_met_or_at_the_stop() {
    let plan = plan(growth(2, 3))
        .with_growth(Moment(7))
        .unwrap()
        .with_stops(vec![stop(12, Some(5)), stop(18, None)])
        .unwrap();
    let moved_in = |task: u32| plan.cursors(partition(task)).unwrap()[1].from.get();
    assert_eq!([moved_in(0), moved_in(1), moved_in(2)], [5, 18, 0]);
}

#[test]
fn a_new_task_remembers_per_source_what_had_closed_beyond_the_lowest() {
    let growth = growth(2, 3);
    let plan = plan(growth)
        .with_growth(Moment(7))
        .unwrap()
        .with_stops(vec![stop(1, None), stop(1, None)])
        .unwrap();
    let old = old_tasks(growth, &[1, 1], &[50, 80]);
    let begun = plan.begin(partition(2), |source| old.get(&source)).unwrap();
    assert_eq!(begun.frontier().0, Some(50));
    // 2 was with 0 of 2, 5 with 1 of 2.
    let closed = |hash| begun.closed_to().of(RecordKey::Hash(hash), partition(2)).0;
    assert_eq!((closed(2), closed(5)), (None, Some(80)));
}

#[test]
fn facts_come_in_order_once_and_for_every_old_partition() {
    let reason = |unfit: Result<Plan, Unfit>| unfit.unwrap_err().to_string();
    let new = || plan(growth(2, 3));
    let grown = || {
        new()
            .with_ends_before(vec![at(10), at(20)])
            .unwrap()
            .with_growth(Moment(7))
            .unwrap()
    };
    let stopped = || {
        grown()
            .with_stops(vec![stop(1, None), stop(2, None)])
            .unwrap()
    };
    assert!(reason(new().with_ends_before(vec![at(1)])).contains("`before` names 1 partitions"));
    assert!(reason(grown().with_ends_before(vec![at(1), at(2)])).contains("the topic has grown"));
    assert!(reason(grown().with_growth(Moment(8))).contains("already"));
    assert!(reason(new().with_stops(vec![stop(1, None), stop(2, None)])).contains("has not grown"));
    assert!(reason(grown().with_closed(partition(0), at(9))).contains("have not stopped"));
    assert!(reason(stopped().with_closed(partition(2), at(9))).contains("none of the 2 old"));
    let closed = stopped().with_closed(partition(1), at(9)).unwrap();
    assert_eq!(
        closed.clone().with_closed(partition(1), at(9)).unwrap(),
        closed
    );
    assert!(reason(closed.with_closed(partition(1), at(10))).contains("readers rely on it"));
    let left = grown()
        .with_stops(vec![stop(30, Some(9)), stop(30, None)])
        .unwrap_err();
    assert_eq!(
        left,
        Unfit::LeftBeforeGrowth {
            partition: partition(0),
            left_from: at(9),
            before: at(10)
        }
    );
}
