//! Guessing against the general parser: both take, refuse and yield the same, whatever comes.
//!
//! `TURBINE_DECODE_INPUTS` is the number of messages; the long form is 10 million:
//! `TURBINE_DECODE_INPUTS=10000000 cargo test --release -p turbine-runtime guesses_agree`

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, BooleanArray, StringArray};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

use super::*;

const QUICK: u64 = 200_000;
/// Few enough that misses alone never end the guessing.
const ROUND: u64 = 250;

const NAMES: [&str; 8] = ["user", "n", "x", "ok", "at", "ts", "é", "a b"];
const KINDS: [ColumnType; 5] = [
    ColumnType::String,
    ColumnType::Int64,
    ColumnType::Float64,
    ColumnType::Bool,
    ColumnType::Timestamp,
];

const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "-0.0",
    "0.0",
    "00",
    "01",
    "-01",
    "-",
    "+1",
    "1.",
    ".5",
    "-.5",
    "1e",
    "1e+",
    "1E5",
    "1e5",
    "1e-5",
    "1e+5",
    "-1.5e3",
    "0e0",
    "0e1",
    "1e400",
    "-1e400",
    "1e-400",
    "1e308",
    "1.8e308",
    "2.2250738585072011e-308",
    "5e-324",
    "2e-324",
    "1.7976931348623157e308",
    "1.7976931348623159e308",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "9007199254740993.0",
    "900719925474099.3",
    "0.9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "9999999999999999999",
    "10000000000000000000",
    "99999999999999999999",
    "999999999999999999",
    "1000000000000000000",
    "0.30000000000000004",
    "0.1",
    "1.0",
    "-1.0",
    "123456.789",
    "0.0000000000000000000001",
    "0.00000000000000000000001",
    "1.0000000000000000000",
    "0.00",
    "12345678",
    "123456789",
    "1234567812345678",
    "12345678.12345678",
    "1700000000000",
    "NaN",
    "Infinity",
    "-Infinity",
    "1_000",
    "0x10",
    "1,0",
    "1 ",
    " 1",
    "1\n",
    "1e1.5",
    "1.2.3",
    "--1",
    "1-",
    "7.e1",
    "123456789012345678901234567890",
    "0.123456789012345678901234567890",
    "1234567890123456789012345678901234567890123456789012345678901234567890",
];
const TEXTS: &[&[u8]] = &[
    b"\"\"",
    b"\"a\"",
    b"\"\\n\"",
    b"\"\\\"\"",
    b"\"\\\\\"",
    b"\"\\u00e9\"",
    b"\"\\ud83d\\ude00\"",
    b"\"\\ud83d\"",
    b"\"\\ude00\"",
    b"\"\\u12\"",
    b"\"\\x\"",
    b"\"\\",
    b"\"",
    b"\"a",
    b"'a'",
    b"\"\x7f\"",
    b"\"\x00\"",
    b"\"\x1f\"",
    b"\"\t\"",
    b"\"\xff\"",
    b"\"\xc3\"",
    b"\"\xc3\xa9\"",
    b"\"\xc0\x80\"",
    b"\"\xed\xa0\x80\"",
    b"\"\xf4\x90\x80\x80\"",
    b"\"\xf0\x9f\x98\x80\"",
    b"\"\xf0\x9f\x98\"",
    b"\"\xa9\"",
    b"\"\xe2\x80\xa8\"",
    b"\"1\"",
    b"\"null\"",
    b"\"true\"",
    b"\"{\"",
    b"\",\"",
    b"\"\"\"",
    b"\" \"",
];
const TIMES: &[&str] = &[
    "2026-01-01T00:00:00Z",
    "2026-01-01T05:00:00+05:00",
    "1969-12-31T23:59:59.9999Z",
    "2026-01-01T00:00:00.123456789Z",
    "2026-01-01T00:00:00",
    "2026-01-01",
    "20260101T000000Z",
    "2026-01-01 00:00:00z",
    "2026-01-01T00:00:00[Europe/Berlin]",
    "2026-01-01T00:00:00+01:00[Europe/Berlin]",
    "2026-02-30T00:00:00Z",
    "10000-01-01T00:00:00Z",
    "-009999-01-01T00:00:00Z",
    "2026-06-30T23:59:60Z",
    "",
];
const OTHERS: &[&[u8]] = &[
    b"true",
    b"false",
    b"null",
    b"True",
    b"nul",
    b"tru",
    b"fals",
    b"nullx",
    b"truefalse",
    b"",
    b" ",
    b"[]",
    b"{}",
    b"[1,2]",
    b"{\"n\":1}",
    b"{\"a\":{\"b\":null}}",
    b"[",
    b"]",
    b"}",
    b"{",
    b"undefined",
    b"null null",
];

/// What one kind of message is made of.
struct Template {
    fields: Vec<Field>,
    blanks: [&'static str; 4],
}

#[derive(Clone)]
struct Field {
    name: String,
    value: Source,
}

#[derive(Clone, Copy)]
enum Source {
    Kind(ColumnType),
    /// An object with such a field in it.
    Nested(ColumnType),
    Array,
}

fn template(rng: &mut StdRng) -> Template {
    let mut fields: Vec<Field> = NAMES
        .iter()
        .chain(&["other", "pad", "z"])
        .filter(|_| rng.random_bool(0.6))
        .map(|name| (*name).to_owned())
        .collect::<Vec<_>>()
        .into_iter()
        .map(|name| Field {
            name,
            value: Source::Kind(ColumnType::Int64),
        })
        .collect();
    for field in &mut fields {
        let kind = *KINDS.choose(rng).unwrap();
        field.value = match rng.random_range(0..40) {
            0 => Source::Array,
            1..4 => Source::Nested(kind),
            _ => Source::Kind(kind),
        };
    }
    fields.shuffle(rng);
    if rng.random_bool(0.05) && !fields.is_empty() {
        fields.push(fields[0].clone());
    }
    let mut blanks = [""; 4];
    for blank in &mut blanks {
        *blank = ["", "", "", "", "", " ", "\n  ", "\t"].choose(rng).unwrap();
    }
    Template { fields, blanks }
}

/// Values of declared fields mostly have the declared type, or nothing would be taken.
fn message(template: &Template, columns: &[CompiledColumn], odd: f64, rng: &mut StdRng) -> Vec<u8> {
    let [edge, name, colon, comma] = template.blanks;
    let mut out = edge.as_bytes().to_vec();
    out.push(b'{');
    for (at, field) in template.fields.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend(name.as_bytes());
        out.extend(format!("\"{}\"{colon}:{comma}", field.name).as_bytes());
        let declared = columns.iter().find(|column| column.name == field.name);
        match (declared, field.value) {
            (Some(column), _) => value(column.type_, odd, rng, &mut out),
            (None, Source::Kind(kind)) => value(kind, odd, rng, &mut out),
            (None, Source::Nested(kind)) => {
                out.extend(b"{\"n\":");
                value(kind, odd, rng, &mut out);
                out.extend(b",\"deep\":{\"ts\":1,\"empty\":{}}}");
            }
            (None, Source::Array) => out.extend(b"[1,\"a\"]"),
        }
        out.extend(comma.as_bytes());
    }
    out.push(b'}');
    out.extend(edge.as_bytes());
    out
}

fn value(kind: ColumnType, odd: f64, rng: &mut StdRng, out: &mut Vec<u8>) {
    if rng.random_bool(odd) {
        match rng.random_range(0..4) {
            0 => out.extend(NUMBERS.choose(rng).unwrap().as_bytes()),
            1 => out.extend(*TEXTS.choose(rng).unwrap()),
            2 => out.extend(*OTHERS.choose(rng).unwrap()),
            _ => return odd_of(kind, rng, out),
        }
        return;
    }
    match kind {
        ColumnType::String => {
            out.push(b'"');
            let length = rng.random_range(0..90);
            let ascii = rng.random_bool(0.6);
            for _ in 0..length {
                let c = if ascii || rng.random_bool(0.9) {
                    char::from(rng.random_range(b'#'..b'['))
                } else {
                    *['é', '€', '😀', '\u{7f}', '\u{80}', '\u{ffff}', ' ']
                        .choose(rng)
                        .unwrap()
                };
                out.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            out.push(b'"');
        }
        ColumnType::Int64 => {
            let number = rng.random::<i64>() >> rng.random_range(0..64);
            out.extend(number.to_string().as_bytes());
        }
        ColumnType::Float64 => out.extend(float_text(rng).as_bytes()),
        ColumnType::Bool => out.extend(if rng.random() { &b"true"[..] } else { b"false" }),
        ColumnType::Timestamp => {
            let ms = rng.random_range(-62_135_596_800_000..253_402_207_200_000);
            let time = jiff::Timestamp::from_millisecond(ms).unwrap();
            out.extend(format!("\"{time}\"").as_bytes());
        }
    }
}

fn float_text(rng: &mut StdRng) -> String {
    let digits = rng.random::<u64>() >> rng.random_range(0..64);
    match rng.random_range(0..6) {
        0 => format!("{digits}"),
        1 => format!(
            "{digits}.{}",
            rng.random::<u64>() >> rng.random_range(0..64)
        ),
        2 => format!(
            "{digits}.{:0width$}",
            rng.random_range(0..100),
            width = rng.random_range(1..24)
        ),
        3 => format!("-{digits}e{}", rng.random_range(-330..330)),
        4 => {
            let double = f64::from_bits(rng.random());
            if double.is_finite() {
                format!("{double:?}")
            } else {
                "0.5".to_owned()
            }
        }
        _ => format!("{:?}", rng.random::<f64>()),
    }
}

fn odd_of(kind: ColumnType, rng: &mut StdRng, out: &mut Vec<u8>) {
    match kind {
        ColumnType::Int64 | ColumnType::Float64 => {
            out.extend(NUMBERS.choose(rng).unwrap().as_bytes());
        }
        ColumnType::Timestamp => {
            out.extend(format!("\"{}\"", TIMES.choose(rng).unwrap()).as_bytes());
        }
        ColumnType::String => {
            // something bad within a text that is long enough for every way of looking at it
            let mut text = vec![b'a'; rng.random_range(0..70)];
            let bad = TEXTS.choose(rng).unwrap();
            let at = rng.random_range(0..=text.len());
            text.splice(at..at, bad.iter().copied().filter(|byte| *byte != b'"'));
            out.push(b'"');
            out.extend(text);
            out.push(b'"');
        }
        ColumnType::Bool => out.extend(*OTHERS.choose(rng).unwrap()),
    }
}

fn damage(message: &mut Vec<u8>, rng: &mut StdRng) {
    const BYTES: &[u8] = b"{}[]:,\"\\ \n\t\r0123456789-+.eEntfu\0\x1f\x7f\x80\xbf\xc3\xe2\xf0\xff";
    let any = |rng: &mut StdRng| *BYTES.choose(rng).unwrap();
    let at = rng.random_range(0..=message.len());
    match rng.random_range(0..7) {
        0 => message.truncate(at),
        1 => message.insert(at, any(rng)),
        2 if at < message.len() => {
            message.remove(at);
        }
        3 if at < message.len() => message[at] = any(rng),
        4 => message.push(any(rng)),
        5 => {
            let end = rng.random_range(at..=message.len());
            let piece = message[at..end].to_vec();
            message.splice(at..at, piece);
        }
        6 => {
            let end = rng.random_range(at..=message.len());
            message.drain(at..end);
        }
        _ => {}
    }
}

fn bits(array: &dyn Array) -> Vec<Option<Vec<u8>>> {
    let cell = |row: usize| -> Vec<u8> {
        if let Some(numbers) = array.as_primitive_opt::<Int64Type>() {
            numbers.value(row).to_le_bytes().to_vec()
        } else if let Some(numbers) = array.as_primitive_opt::<Float64Type>() {
            numbers.value(row).to_bits().to_le_bytes().to_vec()
        } else if let Some(texts) = array.as_any().downcast_ref::<StringArray>() {
            texts.value(row).as_bytes().to_vec()
        } else {
            let flags: &BooleanArray = array.as_boolean();
            vec![u8::from(flags.value(row))]
        }
    };
    (0..array.len())
        .map(|row| array.is_valid(row).then(|| cell(row)))
        .collect()
}

#[test]
fn guesses_agree_with_the_general_parser() {
    let inputs =
        std::env::var("TURBINE_DECODE_INPUTS").map_or(QUICK, |count| count.parse().unwrap());
    let (mut accepted, mut guessed) = (0_u64, 0_u64);
    for round in 0..inputs.div_ceil(ROUND) {
        let mut rng = StdRng::seed_from_u64(round);
        let mut columns: Vec<CompiledColumn> = NAMES
            .iter()
            .filter(|name| **name != "ts")
            .map(|name| CompiledColumn {
                name: (*name).to_owned(),
                type_: *KINDS.choose(&mut rng).unwrap(),
            })
            .collect();
        columns.truncate(rng.random_range(1..=columns.len()));
        columns.push(CompiledColumn {
            name: "ts".to_owned(),
            type_: ColumnType::Int64,
        });
        columns.shuffle(&mut rng);
        let time = CompiledEventTime {
            column: "ts".to_owned(),
            unit: TimeUnit::Ms,
        };
        let mut guessing = JsonDecoder::new(&columns, &time).unwrap();
        let mut general = JsonDecoder::new(&columns, &time).unwrap();
        let templates: Vec<Template> = (0..rng.random_range(1..12))
            .map(|_| template(&mut rng))
            .collect();
        let odd = *[0.0, 0.02, 0.2].choose(&mut rng).unwrap();
        for number in 0..ROUND {
            let template = templates.choose(&mut rng).unwrap();
            let mut message = message(template, &columns, odd, &mut rng);
            if rng.random_bool(0.2) {
                damage(&mut message, &mut rng);
            }
            let told = || {
                format!(
                    "message {number} of round {round}: {}",
                    message.escape_ascii()
                )
            };
            let rows = general.rows;
            let expected = general.push_any_shape(&message);
            accepted += u64::from(expected.is_ok());
            let is_guessed = guessing.shapes.read(&message, &mut guessing.columns, rows);
            guessed += u64::from(is_guessed);
            for (one, other) in guessing.columns.iter().zip(&general.columns) {
                let length = if is_guessed { rows + 1 } else { rows };
                assert_eq!(one.buffer.len(), length, "{}", told());
                assert!(!is_guessed || other.buffer.len() == length, "{}", told());
            }
            if is_guessed {
                assert_eq!(expected, Ok(()), "{}", told());
                guessing.rows += 1;
            } else {
                let taken = guessing.push_any_shape(&message);
                assert_eq!(taken, expected, "{}", told());
                if taken.is_ok() {
                    guessing.shapes.learn(&message, &guessing.columns);
                }
            }
            assert_eq!(guessing.rows, general.rows, "{}", told());
            if rng.random_bool(0.05) || number + 1 == ROUND {
                let (one, other) = (guessing.finish().unwrap(), general.finish().unwrap());
                for (one, other) in one.rows.columns().iter().zip(other.rows.columns()) {
                    assert_eq!(bits(one), bits(other), "{}", told());
                }
                assert_eq!(one.event_times, other.event_times);
            }
        }
    }
    // else this would prove little
    assert!(accepted * 3 > inputs, "{accepted} of {inputs} accepted");
    assert!(guessed * 2 > accepted, "{guessed} of {accepted} guessed");
}
