use super::*;
use crate::rescale::growth::tests::partition;
use crate::rescale::time::Millis;
use crate::rescale::vouch::Seen;

const WAITS: Waits = Waits {
    order_grace: Millis(100),
    producer_refresh: Millis(1000),
    metadata_grace: Millis(10),
};

fn at(offset: i64) -> Offset {
    offset.try_into().unwrap()
}

fn tail(number: u32, next: i64, closed: Option<i64>) -> TailAt {
    TailAt {
        partition: partition(number),
        next: at(next),
        closed: closed.map(at),
    }
}

/// Asked and answered at these moments: the ends of the own partition, 9, and of the tails, 0 and 1.
fn answered(gate: &mut Gate, asked: i64, now: i64, own: i64, tails: [i64; 2]) {
    let question = Question::new(&Seen::new(WAITS), WAITS, Moment(asked));
    let ends = Ends::from([
        (partition(9), at(own)),
        (partition(0), at(tails[0])),
        (partition(1), at(tails[1])),
    ]);
    gate.answered(&question, Moment(now), &ends, partition(9), WAITS);
}

fn open(gate: &mut Gate, tails: &[TailAt]) -> Option<i64> {
    gate.open_to(tails).map(Offset::get)
}

#[test]
fn it_opens_once_all_tails_were_read_to_ends_asked_a_grace_after_the_answer() {
    let mut gate = Gate::shut_at(at(3));
    answered(&mut gate, 0, 7, 20, [5, 5]);
    // A grace after the question, not after the answer: too early.
    answered(&mut gate, 106, 106, 20, [6, 6]);
    assert_eq!(
        open(&mut gate, &[tail(0, 50, None), tail(1, 50, None)]),
        Some(3)
    );
    answered(&mut gate, 107, 120, 30, [8, 9]);
    assert_eq!(
        open(&mut gate, &[tail(0, 8, None), tail(1, 8, None)]),
        Some(3)
    );
    assert_eq!(
        open(&mut gate, &[tail(0, 8, None), tail(1, 9, None)]),
        Some(20)
    );
    // What came later waits for a later moment.
    assert_eq!(
        open(&mut gate, &[tail(0, 99, None), tail(1, 99, None)]),
        Some(20)
    );
}

#[test]
fn a_bound_that_waits_does_not_keep_the_next_one_from_waiting_too() {
    let mut gate = Gate::shut_at(at(0));
    answered(&mut gate, 0, 0, 10, [1, 1]);
    answered(&mut gate, 50, 50, 20, [2, 2]);
    answered(&mut gate, 100, 100, 30, [3, 3]);
    assert_eq!(
        open(&mut gate, &[tail(0, 3, None), tail(1, 3, None)]),
        Some(10)
    );
    answered(&mut gate, 150, 150, 40, [4, 4]);
    assert_eq!(
        open(&mut gate, &[tail(0, 3, None), tail(1, 4, None)]),
        Some(10)
    );
    assert_eq!(
        open(&mut gate, &[tail(0, 4, None), tail(1, 4, None)]),
        Some(20)
    );
}

#[test]
fn a_tail_that_ended_is_not_waited_for() {
    let mut gate = Gate::shut_at(at(0));
    answered(&mut gate, 0, 0, 10, [5, 5]);
    answered(&mut gate, 100, 100, 10, [50, 50]);
    assert_eq!(
        open(&mut gate, &[tail(0, 7, Some(7)), tail(1, 20, None)]),
        Some(0)
    );
    assert_eq!(
        open(&mut gate, &[tail(0, 7, Some(7)), tail(1, 20, Some(20))]),
        None
    );
    assert_eq!(open(&mut gate, &[]), None);
    assert_eq!(
        open(&mut gate, &[tail(0, 6, Some(7)), tail(1, 50, None)]),
        Some(0)
    );
    assert_eq!(
        open(&mut gate, &[tail(0, 7, Some(7)), tail(1, 50, None)]),
        Some(10)
    );
}

#[test]
fn a_tail_nobody_asked_for_keeps_the_gate_shut() {
    let mut gate = Gate::shut_at(at(0));
    answered(&mut gate, 0, 0, 10, [5, 5]);
    answered(&mut gate, 100, 100, 10, [5, 5]);
    assert_eq!(open(&mut gate, &[tail(2, 1000, None)]), Some(0));
}
