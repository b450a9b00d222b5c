use super::*;
use crate::rescale::growth::tests::{growth, partition};
use crate::rescale::plan::{OldStop, Plan};

const WAITS: Waits = Waits {
    order_grace: Millis(100),
    producer_refresh: Millis(1000),
    metadata_grace: Millis(10),
};

fn at(offset: i64) -> Offset {
    offset.try_into().unwrap()
}

fn count(count: u32) -> RawPartitionCount {
    count.try_into().unwrap()
}

fn epoch(number: i64) -> LayoutEpoch {
    number.try_into().unwrap()
}

fn row(offset: i64, hash: u32, event_time: i64) -> Row {
    Row {
        offset: at(offset),
        key: RecordKey::Hash(hash),
        event_time,
    }
}

fn steady() -> Reading {
    let stored = StoredReading::steady(partition(0), count(2), at(0));
    Reading::resume(stored, 5, WAITS, Moment(0))
}

/// Task 0 of a growth from 2 to 3: kept and moved-in on 0, a tail on 1, all from 0.
fn through() -> Reading {
    let growth = growth(2, 3);
    let stop = OldStop {
        next: at(0),
        left_from: None,
    };
    let plan = Plan::new(epoch(4), growth)
        .with_ends_before(vec![at(0), at(0)])
        .unwrap()
        .with_growth(Moment(0))
        .unwrap()
        .with_stops(vec![stop, stop])
        .unwrap();
    let old = [0, 1].map(|task| StoredReading::steady(partition(task), count(2), at(0)));
    let begun = plan
        .begin(partition(0), |source| old.get(source.index() as usize))
        .unwrap();
    Reading::resume(begun, 5, WAITS, Moment(0))
}

const KEPT: usize = 0;
const MOVED_IN: usize = 1;
const TAIL: usize = 2;

fn ends(zero: i64, one: i64) -> Ends {
    Ends::from([(partition(0), at(zero)), (partition(1), at(one))])
}

fn answered(reading: &mut Reading, asked: i64, now: i64, ends: &Ends, known: u32) {
    let question = reading.ask(Moment(asked));
    reading.vouch_by_ends(&question, ends);
    reading.gate_by_ends(&question, Moment(now), ends);
    reading.count_answered(&question, count(known));
}

#[test]
fn a_row_is_late_by_the_maximum_before_it_and_the_frontier_waits_for_the_count() {
    let mut reading = steady();
    let line = |taken: Taken| match taken {
        Taken::Apply { line } => line.0,
        Taken::Leave => panic!("it is the task's"),
    };
    assert_eq!(
        line(reading.take(0, &row(0, 2, 50), Moment(1)).unwrap()),
        None
    );
    assert_eq!(
        line(reading.take(0, &row(1, 4, 90), Moment(20)).unwrap()),
        Some(45)
    );
    assert_eq!(
        line(reading.take(0, &row(2, 2, 60), Moment(21)).unwrap()),
        Some(85)
    );
    assert_eq!(reading.advance().0, None);
    // Ten before 20 only the first had been seen.
    answered(&mut reading, 29, 40, &Ends::new(), 2);
    assert_eq!(reading.advance().0, Some(45));
    answered(&mut reading, 30, 41, &Ends::new(), 3);
    assert_eq!(reading.advance().0, Some(45));
    answered(&mut reading, 30, 41, &Ends::new(), 2);
    assert_eq!(reading.advance().0, Some(85));
}

#[test]
fn a_hold_names_its_plan_and_outlives_a_restart() {
    let mut reading = steady();
    let growth = growth(2, 3);
    reading.announce(epoch(4), growth).unwrap();
    assert_eq!(
        reading.undo(epoch(5)),
        Err(NotNow::OtherPlan {
            holds: Some(Hold::Plan(epoch(4))),
            epoch: epoch(5)
        })
    );
    reading.undo(epoch(4)).unwrap();
    assert_eq!(reading.stored().hold(), None);
    reading.announce(epoch(5), growth).unwrap();
    assert!(reading.announce(epoch(4), growth).is_err());
    let text = serde_json::to_string(reading.stored()).unwrap();
    let mut reading = Reading::resume(serde_json::from_str(&text).unwrap(), 5, WAITS, Moment(50));
    assert_eq!(reading.stored().hold(), Some(Hold::Plan(epoch(5))));
    reading.take(0, &row(0, 2, 50), Moment(60)).unwrap();
    answered(&mut reading, 500, 500, &ends(1, 0), 3);
    assert_eq!(reading.advance().0, None);
    assert_eq!(reading.coast(Millis(1)).0, None);
    // 3 is 1 of 2 and 0 of 3.
    assert_eq!(
        reading.take(0, &row(1, 3, 50), Moment(60)),
        Ok(Taken::Leave)
    );
    assert!(
        matches!(reading.stored().layout(), Layout::Ahead { left_from: Some(left), .. } if left == at(1))
    );
}

#[test]
fn the_frontier_is_the_lowest_that_all_cursors_vouch_for() {
    let mut reading = through();
    answered(&mut reading, 0, 0, &ends(0, 0), 3);
    // 0 is kept; 3 is of the tail.
    reading.take(KEPT, &row(0, 0, 100), Moment(10)).unwrap();
    assert_eq!(reading.advance().0, None);
    reading.take(TAIL, &row(0, 3, 80), Moment(11)).unwrap();
    // Moved-in has nothing in front of it that it could take, but is not at its end.
    answered(&mut reading, 200, 200, &ends(1, 1), 3);
    assert_eq!(reading.advance().0, None);
    reading.pass(MOVED_IN, at(1));
    assert_eq!(reading.advance().0, Some(95));
}

#[test]
fn a_cursor_at_its_end_vouches_for_what_was_seen_a_grace_before_the_question() {
    let mut reading = through();
    reading.pass(MOVED_IN, at(1));
    reading.take(KEPT, &row(0, 0, 100), Moment(10)).unwrap();
    let question = reading.ask(Moment(109));
    reading.vouch_by_ends(&question, &ends(1, 0));
    let confirm = reading.ask(Moment(900));
    reading.count_answered(&confirm, count(3));
    assert_eq!(reading.advance().0, None);
    let question = reading.ask(Moment(110));
    // Behind the end that is answered lies something of the tail: nothing is proved until it is read.
    reading.vouch_by_ends(&question, &ends(1, 2));
    assert_eq!(reading.advance().0, None);
    reading.take(TAIL, &row(0, 3, 1), Moment(120)).unwrap();
    assert_eq!(reading.advance().0, Some(1 - 5));
    reading.take(TAIL, &row(1, 3, 2), Moment(120)).unwrap();
    assert_eq!(reading.advance().0, Some(95));
}

#[test]
fn moved_in_is_shut_until_the_tails_were_read_and_never_passes_kept() {
    let mut reading = through();
    let opened = |reading: &mut Reading| {
        let open = reading.open().into_iter();
        open.map(|open| (open.cursor, open.until.map(Offset::get)))
            .collect::<Vec<_>>()
    };
    assert_eq!(opened(&mut reading), [(KEPT, None), (TAIL, None)]);
    answered(&mut reading, 0, 0, &ends(5, 0), 3);
    answered(&mut reading, 100, 100, &ends(9, 1), 3);
    reading.pass(KEPT, at(9));
    assert_eq!(opened(&mut reading), [(KEPT, None), (TAIL, None)]);
    reading.take(TAIL, &row(0, 3, 1), Moment(101)).unwrap();
    assert_eq!(
        opened(&mut reading),
        [(KEPT, None), (MOVED_IN, Some(5)), (TAIL, None)]
    );
    reading.close(epoch(4), partition(1), at(1));
    assert_eq!(opened(&mut reading), [(KEPT, None), (MOVED_IN, Some(9))]);
}

#[test]
fn an_agreement_keeps_old_records_behind_it_out_until_it_is_decided() {
    let mut reading = through();
    reading.take(TAIL, &row(0, 3, 1), Moment(50)).unwrap();
    let proposal = |end, asked_at| Proposal {
        epoch: epoch(4),
        partition: partition(1),
        end: at(end),
        asked_at: Moment(asked_at),
    };
    let late = proposal(1, 1150);
    assert!(
        !reading.propose(&proposal(1, 1149)),
        "an old record was read less than both waits ago"
    );
    assert!(
        !reading.propose(&proposal(2, 1150)),
        "it was not read so far"
    );
    assert!(reading.propose(&late) && reading.propose(&late));
    assert!(
        !reading.propose(&proposal(0, 1149)),
        "a proposal that was given up comes late"
    );
    assert!(matches!(
        reading.take(TAIL, &row(1, 3, 1), Moment(2000)),
        Err(Stop::EndUndecided { .. })
    ));
    // What both counts put there is no sign of an old producer: 1 is 1 of both.
    assert_eq!(
        reading.take(TAIL, &row(1, 1, 1), Moment(2000)),
        Ok(Taken::Leave)
    );
    assert!(
        !reading.propose(&proposal(3, 2000)),
        "it was not read so far, and the one before is given up"
    );
    assert!(reading.take(TAIL, &row(2, 3, 1), Moment(2000)).is_ok());
    assert!(!reading.propose(&proposal(3, 3000)));
    assert!(reading.propose(&proposal(3, 3100)));
}

#[test]
fn words_about_ends_of_another_plan_are_not_heard() {
    let mut reading = through();
    let before = reading.stored().clone();
    let proposal = Proposal {
        epoch: epoch(3),
        partition: partition(1),
        end: at(0),
        asked_at: Moment(9000),
    };
    assert!(!reading.propose(&proposal));
    reading.close(epoch(3), partition(1), at(0));
    assert_eq!(*reading.stored(), before);
    assert!(reading.propose(&Proposal {
        epoch: epoch(4),
        ..proposal
    }));
}

#[test]
fn an_old_record_behind_the_agreed_end_stops_the_partitions_own_task_for_ever() {
    let mut reading = through();
    reading.close(epoch(4), partition(0), at(1));
    assert!(reading.take(KEPT, &row(0, 4, 1), Moment(1)).is_ok());
    let stop = reading.take(KEPT, &row(1, 4, 1), Moment(1));
    assert!(
        matches!(stop, Err(Stop::ProducerNotRefreshed { .. })),
        "{stop:?}"
    );
    reading.pass(KEPT, at(1));
    reading.pass(MOVED_IN, at(1));
    reading.close(epoch(4), partition(1), at(0));
    assert!(reading.settle());
    let stop = reading.take(0, &row(1, 4, 1), Moment(1));
    assert!(
        matches!(stop, Err(Stop::ProducerNotRefreshed { .. })),
        "{stop:?}"
    );
    let stop = reading.take(0, &row(1, 5, 1), Moment(1));
    assert!(matches!(stop, Err(Stop::Unexplained { .. })), "{stop:?}");
}

#[test]
fn a_task_settles_when_tails_have_ended_and_moved_in_has_met_kept() {
    let mut reading = through();
    reading.pass(KEPT, at(4));
    reading.close(epoch(4), partition(0), at(4));
    reading.close(epoch(4), partition(1), at(2));
    assert!(!reading.settle());
    reading.pass(TAIL, at(2));
    assert!(!reading.settle());
    assert_eq!(reading.stored().cursors().len(), 2);
    reading.pass(MOVED_IN, at(4));
    assert!(reading.settle());
    assert_eq!(reading.stored().cursors()[0].next(), at(4));
}

#[test]
fn the_clock_moves_the_frontier_only_where_every_cursor_stands_at_its_end() {
    let mut reading = steady();
    reading.take(0, &row(0, 2, 100), Moment(50)).unwrap();
    answered(&mut reading, 90, 90, &ends(2, 0), 2);
    assert_eq!(reading.coast(Millis(20)).0, None);
    answered(&mut reading, 90, 90, &ends(1, 0), 2);
    // Quiet from 50 to 80: an answered count is ten old.
    assert_eq!(reading.coast(Millis(31)).0, None);
    assert_eq!(reading.coast(Millis(30)).0, Some(95 + 30));
    let mut reading = through();
    reading.take(KEPT, &row(0, 0, 100), Moment(50)).unwrap();
    reading.pass(MOVED_IN, at(1));
    answered(&mut reading, 190, 190, &ends(1, 0), 3);
    assert_eq!(reading.coast(Millis(40)).0, Some(95 + 40));
}
