//! The rules as CEL, for the attributes of the resource's types.
//!
//! `self` is the field that bears the rule. Functions are those that every API server since 1.31 knows, and messages
//! are put together from fields and literals only: an older server cannot bound the length of anything else (of
//! `string(1)`, of an element found by `filter`) and refuses the whole definition for its possible cost. What CEL
//! cannot see is judged by the Rust rules alone: `partitionKey` and `startFrom` (several shapes, so no schema type),
//! `podOverrides` (no schema), and loops of more than two subscriptions.

use kube::core::{Message, Rule};
use turbine_protocol::client_properties::{BESIDE_TRANSACTIONS, DENIALS, Denial, property_refusal};

use super::limits::{self, DurationRange};
use super::words::{self, Words, quote};
use crate::compiled::STATE_DIR;
use crate::text::DurationText;

fn rule(expression: impl Into<String>, words: Words, holes: &[(&str, &str)]) -> Rule {
    Rule {
        message: Some(words.cel(holes)),
        ..Rule::new(expression)
    }
}

/// The number `of` (an expression that is not negative) as text of at most `length` digits. A digit is cut out of a
/// literal, so that its length has a bound.
fn digits(of: &str, length: u32) -> String {
    (0..length)
        .rev()
        .map(|power| {
            let unit = 10_u32.pow(power);
            let digit = format!("{of}/{unit}%10");
            let digit = format!("'0123456789'.substring({digit},{digit}+1)");
            if power == 0 {
                digit
            } else {
                format!("({of}>={unit}?{digit}:'')")
            }
        })
        .collect::<Vec<_>>()
        .join(" + ")
}

const LABEL_PATTERN: &str = "^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$";

pub(crate) fn label(what: &str) -> Rule {
    rule(
        format!("self.matches('{LABEL_PATTERN}')"),
        words::LABEL,
        &[
            ("what", &quote(what)),
            ("given", "self"),
            ("length", &digits("self.size()", 3)),
        ],
    )
}

pub(crate) fn resource_name() -> Rule {
    rule(
        format!("self.metadata.name.matches('{LABEL_PATTERN}')"),
        words::LABEL,
        &[
            ("what", &quote("metadata.name")),
            ("given", "self.metadata.name"),
            ("length", &digits("self.metadata.name.size()", 3)),
        ],
    )
}

pub(crate) fn app_id_stays() -> Rule {
    let id = |of: &str| format!("(has({of}.spec.appId) ? {of}.spec.appId : {of}.metadata.name)");
    rule(
        format!("{} == {}", id("self"), id("oldSelf")),
        words::APP_ID_CHANGED,
        &[("old", &id("oldSelf")), ("new", &id("self"))],
    )
    .field_path(".spec.appId")
}

pub(crate) fn replicas() -> Rule {
    rule("self >= 1 && self <= 1000", words::REPLICAS, &[])
}

pub(crate) fn bootstrap() -> Rule {
    let port =
        "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])";
    let server = format!("([A-Za-z0-9._-]+|\\\\[[0-9A-Fa-f:.]+\\\\]):{port}");
    rule(
        format!("self.matches('^{server}(,{server})*$')"),
        words::BOOTSTRAP,
        &[("given", "self")],
    )
}

pub(crate) fn tls_pair() -> Rule {
    rule(
        "has(self.certificate) == has(self.key)",
        words::TLS_PAIR,
        &[],
    )
}

pub(crate) fn secret_name() -> Rule {
    rule(
        "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
        words::SECRET_NAME,
        &[("given", "self")],
    )
}

pub(crate) fn secret_key() -> Rule {
    rule(
        "self.matches('^[-._a-zA-Z0-9]+$')",
        words::SECRET_KEY,
        &[("given", "self")],
    )
}

/// The refusal's words, with the first of the properties in the map `of`. Literals only, so that the length of the message has
/// a bound.
fn property_words(denial: &Denial, of: &str) -> Option<Message> {
    let (last, others) = denial.names.split_last()?;
    let mut first: String = others
        .iter()
        .map(|name| format!("{0} in {of} ? {0} : ", quote(name)))
        .collect();
    first.push_str(&quote(last));
    // The words around a name that occurs in no reason.
    let words = property_refusal("\u{0}", denial.reason);
    let (before, after) = words.split_once('\u{0}')?;
    Some(Message::Expression(format!(
        "{} + ({first}) + {}",
        quote(before),
        quote(after)
    )))
}

/// Whether none of the properties is in the map `of`.
fn without(denial: &Denial, of: &str) -> String {
    let names: Vec<String> = denial.names.iter().map(|name| quote(name)).collect();
    format!("!([{}].exists(n, n in {of}))", names.join(", "))
}

/// One rule per reason; its message names the first of the properties that it is broken by.
pub(crate) fn kafka_properties() -> Vec<Rule> {
    DENIALS
        .iter()
        .filter_map(|denial| {
            Some(Rule {
                message: Some(property_words(denial, "self")?),
                ..Rule::new(without(denial, "self"))
            })
        })
        .collect()
}

pub(crate) fn properties_beside_transactions() -> Rule {
    let (denial, of) = (&BESIDE_TRANSACTIONS, "self.spec.kafka.properties");
    Rule {
        message: property_words(denial, of),
        ..Rule::new(format!(
            "!has({of}) || {} || !self.spec.subscriptions.exists(s, \
             has(s.processingGuarantee) && s.processingGuarantee == 'exactlyOnce')",
            without(denial, of)
        ))
    }
    .field_path(".spec.kafka.properties")
}

pub(crate) fn image() -> Rule {
    rule(
        "self.matches('^[^[:space:]]+$')",
        words::IMAGE,
        &[("given", "self")],
    )
}

pub(crate) fn topic() -> Rule {
    rule(
        "self.matches('^[a-zA-Z0-9._-]{1,249}$') && self != '.' && self != '..'",
        words::TOPIC,
        &[("given", "self"), ("length", &digits("self.size()", 3))],
    )
}

pub(crate) fn at_least_one_partition() -> Rule {
    rule(
        "self >= 1",
        words::AT_LEAST_ONE,
        &[("count", "string(self)")],
    )
}

pub(crate) fn output_partitions() -> Rule {
    rule("self <= 100000", words::OUTPUT_PARTITIONS, &[])
}

pub(crate) fn replication() -> Rule {
    rule("self >= 1 && self <= 100", words::REPLICATION, &[])
}

/// The words are those of [`turbine_keygroups::divisor_refusal`].
pub(crate) fn divisor() -> Rule {
    // For each gap between valid counts, what is said of a count in it.
    let in_gap = |say: &dyn Fn(u32, u32) -> String| {
        turbine_keygroups::VALID_COUNTS
            .windows(2)
            .filter(|gap| gap[1] - gap[0] > 1)
            .map(|gap| {
                format!(
                    "self.partitions < {} ? {} : ",
                    gap[1],
                    quote(&say(gap[0], gap[1]))
                )
            })
            .collect::<String>()
    };
    let nearest = in_gap(&|below, above| format!("counts are {below} and {above}"));
    let cure = in_gap(&|_, above| {
        format!("grow the topic to {above} before the app first runs, or create it anew")
    });
    let count = digits("self.partitions", limits::PARTITION_DIGITS);
    let none = turbine_keygroups::no_partition_refusal("\u{0}");
    let (before, after) = none.split_once('\u{0}').unwrap_or_default();
    let none = format!("{} + self.topic + {}", quote(before), quote(after));
    let message = format!(
        "self.partitions < 1 ? {none} : 'topic `' + self.topic + '` has ' + {count} + ' partitions, which does not divide 960; the nearest valid ' + \
         ({nearest}'count is 960') + \
         '; state is kept by key in 960 groups and can follow keys only through counts that divide 960: ' + \
         ({cure}'create the topic anew with a valid count')"
    );
    Rule {
        message: Some(Message::Expression(message)),
        ..Rule::new("!has(self.partitions) || (self.partitions >= 1 && 960 % self.partitions == 0)")
    }
    .field_path(".partitions")
}

/// The duration in `text` in milliseconds. Minutes and milliseconds would both begin with `m`.
fn millis(text: &str) -> String {
    [("u", 1_u64), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)]
        .map(|(unit, factor)| {
            format!(
                "{text}.replace('ms','u').findAll('[0-9]+{unit}').map(n,int(n.replace('{unit}',''))).sum()*{factor}"
            )
        })
        .join("+")
}

fn is_duration(text: &str) -> String {
    format!("{text}.matches('{}')", DurationText::PATTERN)
}

pub(crate) fn duration() -> Rule {
    rule(is_duration("self"), words::DURATION, &[("text", "self")])
}

pub(crate) fn duration_in(range: DurationRange) -> Rule {
    rule(
        format!(
            "!{} || [{}].all(ms, ms >= {} && ms <= {})",
            is_duration("self"),
            millis("self"),
            range.min.1,
            range.max.1
        ),
        words::DURATION_RANGE,
        &[
            ("text", "self"),
            ("min", &quote(range.min.0)),
            ("max", &quote(range.max.0)),
        ],
    )
}

/// A transaction is given up by the broker after a minute.
pub(crate) fn transaction_length() -> Rule {
    let interval = "self.commitInterval";
    rule(
        format!(
            "!has(self.processingGuarantee) || self.processingGuarantee != 'exactlyOnce' || \
             !has(self.commitInterval) || !{} || [{}].all(ms, ms <= {})",
            is_duration(interval),
            millis(interval),
            limits::LONGEST_TRANSACTION_MS
        ),
        words::LONG_TRANSACTION,
        &[("text", interval)],
    )
    .field_path(".commitInterval")
}

pub(crate) fn event_time_column() -> Rule {
    rule(
        "self.columns.exists(c, c.name == self.eventTime.field && c.type in ['int64', 'float64', 'timestamp'])",
        words::EVENT_TIME_COLUMN,
        &[("field", "self.eventTime.field")],
    )
    .field_path(".eventTime.field")
}

pub(crate) fn event_time_unit() -> Rule {
    rule(
        "!has(self.eventTime.unit) || !self.columns.exists(c, c.name == self.eventTime.field && c.type == 'timestamp')",
        words::EVENT_TIME_UNIT,
        &[("field", "self.eventTime.field")],
    )
    .field_path(".eventTime.unit")
}

pub(crate) fn no_repartition() -> Rule {
    rule(
        "!has(self.onMisplaced) || self.onMisplaced != 'repartition'",
        words::NO_REPARTITION,
        &[],
    )
    .field_path(".onMisplaced")
}

pub(crate) fn misplaced_needs_hash() -> Rule {
    rule(
        "!has(self.input.onMisplaced) || has(self.partitionHash)",
        words::MISPLACED_WITHOUT_HASH,
        &[],
    )
    .field_path(".input.onMisplaced")
}

const SENDS_TO_DLQ: &str = "((has(self.input.onError) && self.input.onError == 'dlq') || \
    (has(self.onNullKey) && self.onNullKey == 'dlq'))";

pub(crate) fn dlq_there() -> Rule {
    rule(
        format!("has(self.input.dlq) || !{SENDS_TO_DLQ}"),
        words::DLQ_MISSING,
        &[],
    )
    .field_path(".input")
}

pub(crate) fn dlq_used() -> Rule {
    rule(
        format!("!has(self.input.dlq) || {SENDS_TO_DLQ}"),
        words::DLQ_UNUSED,
        &[("dlq", "self.input.dlq")],
    )
    .field_path(".input.dlq")
}

pub(crate) fn output_is_not_input() -> Rule {
    rule(
        "self.output.topic != self.input.topic",
        words::OUTPUT_IS_INPUT,
        &[("topic", "self.output.topic")],
    )
    .field_path(".output.topic")
}

pub(crate) fn dlq_is_not_input() -> Rule {
    rule(
        "!has(self.input.dlq) || self.input.dlq != self.input.topic",
        words::DLQ_IS_INPUT,
        &[("topic", "self.input.dlq")],
    )
    .field_path(".input.dlq")
}

pub(crate) fn dlq_is_not_output() -> Rule {
    rule(
        "!has(self.input.dlq) || self.input.dlq != self.output.topic",
        words::DLQ_IS_OUTPUT,
        &[("topic", "self.input.dlq")],
    )
    .field_path(".input.dlq")
}

/// Loops of two; longer ones are found in Rust.
pub(crate) fn no_loop() -> Rule {
    rule(
        "!self.exists(a, self.exists(b, b.name != a.name && b.input.topic == a.output.topic && \
         b.output.topic == a.input.topic))",
        words::LOOP,
        &[],
    )
}

/// Names of the columns for which `fits` holds of column `c`.
fn columns(fits: &str) -> String {
    format!("self.input.columns.filter(c, {fits}).map(c, c.name)")
}

const ALL_COLUMNS: &str = "self.input.columns.map(c, c.name)";

fn every_window(condition: &str, words: Words) -> Rule {
    rule(format!("self.windows.all(w, {condition})"), words, &[]).field_path(".windows")
}

pub(crate) fn keys_declared() -> Rule {
    every_window(
        &format!("sets.contains({ALL_COLUMNS}, w.keys)"),
        words::KEY_COLUMN,
    )
}

pub(crate) fn keys_not_float() -> Rule {
    let floats = columns("c.type == 'float64'");
    every_window(
        &format!("!sets.intersects({floats}, w.keys)"),
        words::KEY_FLOAT,
    )
}

/// The column that aggregate `a` reads; the empty text if none.
const READS: &str = "(has(a.sum) ? a.sum : has(a.min) ? a.min : has(a.max) ? a.max : has(a.mean) ? a.mean : \
    has(a.count) && has(a.count.column) ? a.count.column : '')";

pub(crate) fn aggregates_declared() -> Rule {
    every_window(
        &format!("sets.contains({ALL_COLUMNS} + [''], w.aggregates.map(a, {READS}))"),
        words::AGGREGATE_COLUMN,
    )
}

pub(crate) fn sums_numeric() -> Rule {
    let others = columns("c.type != 'int64' && c.type != 'float64'");
    every_window(
        &format!(
            "!sets.intersects({others}, w.aggregates.map(a, has(a.sum) ? a.sum : has(a.mean) ? a.mean : ''))"
        ),
        words::NOT_NUMERIC,
    )
}

pub(crate) fn one_function() -> Rule {
    rule(
        "[has(self.count), has(self.sum), has(self.min), has(self.max), has(self.mean)].filter(f, f).size() == 1",
        words::ONE_FUNCTION,
        &[("name", "self.__as__")],
    )
}

pub(crate) fn keys_once() -> Rule {
    rule(
        "self.all(k, self.filter(o, o == k).size() == 1)",
        words::KEY_TWICE,
        &[],
    )
}

pub(crate) fn results_are_no_keys() -> Rule {
    rule(
        "!sets.intersects(self.keys, self.aggregates.map(a, a.__as__))",
        words::RESULT_IS_KEY,
        &[("window", "self.name")],
    )
    .field_path(".aggregates")
}

const BOUNDS: &str = "['window_start_ms', 'window_end_ms']";

pub(crate) fn results_are_no_bounds() -> Rule {
    rule(
        format!("!sets.intersects({BOUNDS}, self.aggregates.map(a, a.__as__))"),
        words::RESERVED_RESULT,
        &[("window", "self.name")],
    )
    .field_path(".aggregates")
}

pub(crate) fn keys_are_no_bounds() -> Rule {
    rule(
        format!("!sets.intersects({BOUNDS}, self.keys)"),
        words::RESERVED_RESULT,
        &[("window", "self.name")],
    )
    .field_path(".keys")
}

/// `record_key` is a result if the record's own key is the partition key, which CEL cannot see.
const GIVEN_BY_WINDOW: &str = "['window_start_ms', 'window_end_ms', 'record_key']";

pub(crate) fn message_key_is_result() -> Rule {
    rule(
        format!(
            "!has(self.output.messageKey) || self.output.messageKey in {GIVEN_BY_WINDOW} || \
             self.windows.all(w, self.output.messageKey in w.keys || \
             w.aggregates.exists(a, a.__as__ == self.output.messageKey))"
        ),
        words::MESSAGE_KEY,
        &[("name", "self.output.messageKey")],
    )
    .field_path(".output.messageKey")
}

pub(crate) fn message_key_type() -> Rule {
    let no_keys = columns("c.type != 'string' && c.type != 'int64'");
    rule(
        format!(
            "!has(self.output.messageKey) || self.output.messageKey in {GIVEN_BY_WINDOW} || self.windows.all(w, \
             !(self.output.messageKey in w.keys && self.output.messageKey in {no_keys}) && \
             !w.aggregates.exists(a, a.__as__ == self.output.messageKey && has(a.mean)) && \
             !sets.intersects({no_keys}, w.aggregates.filter(a, a.__as__ == self.output.messageKey && \
             !has(a.count)).map(a, {READS})))"
        ),
        words::MESSAGE_KEY_TYPE,
        &[("name", "self.output.messageKey")],
    )
    .field_path(".output.messageKey")
}

pub(crate) fn size() -> Rule {
    rule(
        "isQuantity(self) && quantity(self).compareTo(quantity('1')) >= 0",
        words::SIZE,
        &[("given", "self")],
    )
}

pub(crate) fn size_grows() -> Rule {
    rule(
        "!isQuantity(self) || !isQuantity(oldSelf) || quantity(self).compareTo(quantity(oldSelf)) >= 0",
        words::SIZE_SHRINKS,
        &[("old", "oldSelf"), ("new", "self")],
    )
}

pub(crate) fn storage_class_stays() -> Rule {
    rule(
        "has(self.storageClassName) == has(oldSelf.storageClassName) && \
         (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
        words::STORAGE_CLASS_CHANGED,
        &[],
    )
    .field_path(".storageClassName")
}

pub(crate) fn retain() -> Rule {
    rule("self >= 2 && self <= 100", words::RETAIN, &[])
}

fn matches(pattern: &str, words: Words) -> Rule {
    rule(
        format!("self.matches('{pattern}')"),
        words,
        &[("given", "self")],
    )
}

pub(crate) fn bucket() -> Rule {
    matches("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", words::BUCKET)
}

pub(crate) fn region() -> Rule {
    matches("^[A-Za-z0-9-]+$", words::REGION)
}

pub(crate) fn endpoint() -> Rule {
    matches("^https?://[A-Za-z0-9._-]+(:[0-9]{1,5})?$", words::ENDPOINT)
}

pub(crate) fn one_checkpoint_store() -> Rule {
    rule(
        "has(self.s3) != has(self.folder)",
        words::ONE_CHECKPOINT_STORE,
        &[],
    )
}

pub(crate) fn checkpoint_folder() -> Rule {
    rule(
        format!(
            "self.matches('^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$') && !(self + '/').startsWith('{STATE_DIR}/') \
             && !'{STATE_DIR}/'.startsWith(self + '/')"
        ),
        words::CHECKPOINT_FOLDER,
        &[("given", "self")],
    )
}

pub(crate) fn prefix() -> Rule {
    let part = "[A-Za-z0-9_-][A-Za-z0-9._-]*";
    matches(&format!("^{part}(/{part})*$"), words::PREFIX)
}
