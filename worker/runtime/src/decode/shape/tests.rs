use turbine_crds::app::ColumnType;

use super::*;
use crate::decode::columns::ColumnBuffer;

fn columns() -> Vec<Column> {
    vec![Column {
        name: "n".into(),
        kind: ColumnType::Int64,
        buffer: ColumnBuffer::new(ColumnType::Int64),
    }]
}

/// Reads a message or learns from it, as the decoder does; whether it was guessed.
fn see(shapes: &mut Shapes, columns: &mut [Column], message: &str) -> bool {
    let row = columns[0].buffer.len();
    let guessed = shapes.read(message.as_bytes(), columns, row);
    if !guessed {
        shapes.learn(message.as_bytes(), columns);
    }
    guessed
}

#[test]
fn a_skeleton_counts_from_its_second_message_on() {
    let (mut shapes, mut columns) = (Shapes::default(), columns());
    let guessed: Vec<bool> = [
        r#"{"n":1,"a":"x"}"#,
        r#"{"n":2}"#,
        r#"{"n":-3,"a":null}"#,
        r#"{"n":4,"a":"longer"}"#,
        r#"{"n":5}"#,
        r#"{"n":6}"#,
        r#"{"n":7, "a":"x"}"#,
    ]
    .iter()
    .map(|message| see(&mut shapes, &mut columns, message))
    .collect();
    assert_eq!(guessed, [false, false, false, true, false, true, false]);
    assert_eq!(columns[0].buffer.len(), 2);
}

#[test]
fn the_skeletons_that_hit_last_are_kept() {
    let (mut shapes, mut columns) = (Shapes::default(), columns());
    let message = |kind: usize| format!(r#"{{"n":1,"field{kind}":true}}"#);
    for kind in 0..KNOWN {
        see(&mut shapes, &mut columns, &message(kind));
        see(&mut shapes, &mut columns, &message(kind));
    }
    assert!(see(&mut shapes, &mut columns, &message(0)));
    see(&mut shapes, &mut columns, &message(KNOWN));
    see(&mut shapes, &mut columns, &message(KNOWN));
    let known: Vec<bool> = [0, KNOWN, 1]
        .iter()
        .map(|kind| see(&mut shapes, &mut columns, &message(*kind)))
        .collect();
    assert_eq!(known, [true, true, false]);
}

#[test]
fn guessing_rests_where_it_does_not_pay_and_starts_again() {
    let (mut shapes, mut columns) = (Shapes::default(), columns());
    for _ in 0..2 {
        see(&mut shapes, &mut columns, r#"{"n":1}"#);
    }
    assert!(see(&mut shapes, &mut columns, r#"{"n":2}"#));
    for _ in 0..MISSES {
        assert!(!see(&mut shapes, &mut columns, r#"{"n":1,"a":[1]}"#));
    }
    assert!(
        !see(&mut shapes, &mut columns, r#"{"n":2}"#),
        "it still guesses"
    );
    for _ in 0..REST - 1 {
        see(&mut shapes, &mut columns, r#"{"n":2}"#);
    }
    assert!(
        see(&mut shapes, &mut columns, r#"{"n":2}"#),
        "it never guesses again"
    );
}

#[test]
fn misses_that_are_few_end_no_guessing() {
    let (mut shapes, mut columns) = (Shapes::default(), columns());
    for _ in 0..10 * WINDOW {
        see(&mut shapes, &mut columns, r#"{"n":1}"#);
        see(&mut shapes, &mut columns, r#"{"n":1}"#);
        see(&mut shapes, &mut columns, r#"{"n":1}"#);
        see(&mut shapes, &mut columns, r#"{"n":1,"a":[1]}"#);
    }
    assert!(see(&mut shapes, &mut columns, r#"{"n":2}"#));
}
