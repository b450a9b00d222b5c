//! The rules as CEL, for the attributes of the resource's types.
//!
//! `self` is the field that bears the rule. Functions are those that every API server since 1.31 knows. What CEL
//! cannot see is judged by the Rust rules alone: `partitionKey` and `startFrom` (several shapes, so no schema type),
//! `podOverrides` (no schema), and what lies in more than two subscriptions at once.

use kube::core::{Message, Rule};
use turbine_protocol::client_properties::{CALLBACK_SUFFIX, DENIALS, UNUSED, property_refusal};

use super::limits::DurationRange;
use super::words::{self, Words, quote};
use crate::text::DurationText;

fn rule(expression: impl Into<String>, words: Words, holes: &[(&str, &str)]) -> Rule {
    Rule {
        message: Some(words.cel(holes)),
        ..Rule::new(expression)
    }
}

const LABEL_PATTERN: &str = "^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$";

pub(crate) fn label(what: &str) -> Rule {
    rule(
        format!("self.matches('{LABEL_PATTERN}')"),
        words::LABEL,
        &[
            ("what", &quote(what)),
            ("given", "self"),
            ("length", "string(self.size())"),
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
            ("length", "string(self.metadata.name.size())"),
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
    rule(
        "self >= 1 && self <= 1000",
        words::REPLICAS,
        &[("count", "string(self)")],
    )
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

/// One rule per reason, since a message names its reason.
pub(crate) fn kafka_properties() -> Vec<Rule> {
    let refusal = |condition: &str, reason: &str| {
        // A name that no property has marks where CEL puts the name in.
        let text = property_refusal("\u{0}", reason);
        let message = text
            .split('\u{0}')
            .map(quote)
            .collect::<Vec<_>>()
            .join(&format!(" + self.filter(k, {condition})[0] + "));
        Rule {
            message: Some(Message::Expression(message)),
            ..Rule::new(format!("!self.exists(k, {condition})"))
        }
    };
    DENIALS
        .iter()
        .map(|denial| {
            let names: Vec<String> = denial.names.iter().map(|name| quote(name)).collect();
            refusal(&format!("k in [{}]", names.join(", ")), denial.reason)
        })
        .chain([refusal(
            &format!("k.endsWith({})", quote(CALLBACK_SUFFIX)),
            UNUSED,
        )])
        .collect()
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
        &[("given", "self"), ("length", "string(self.size())")],
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
    rule(
        "self <= 100000",
        words::OUTPUT_PARTITIONS,
        &[("count", "string(self)")],
    )
}

pub(crate) fn replication() -> Rule {
    rule(
        "self >= 1 && self <= 100",
        words::REPLICATION,
        &[("count", "string(self)")],
    )
}

/// The words are those of [`turbine_keygroups::divisor_refusal`].
pub(crate) fn divisor() -> Rule {
    let counts: Vec<String> = turbine_keygroups::VALID_COUNTS
        .iter()
        .map(ToString::to_string)
        .collect();
    let counts = counts.join(", ");
    let below = format!("string([{counts}].filter(v, v < self.partitions).max())");
    let above = format!("string([{counts}].filter(v, v > self.partitions).min())");
    let message = format!(
        "'topic `' + self.topic + '` has ' + string(self.partitions) + ' partitions, which does not divide 960; ' + \
         (self.partitions < 960 ? 'the nearest valid counts are ' + {below} + ' and ' + {above} : \
         'the nearest valid count is 960') + \
         '; state is kept by key in 960 groups and can follow keys only through counts that divide 960: ' + \
         (self.partitions < 960 ? 'grow the topic to ' + {above} + ' before the app first runs, or create it anew' : \
         'create the topic anew with a valid count')"
    );
    Rule {
        message: Some(Message::Expression(message)),
        ..Rule::new("!has(self.partitions) || self.partitions < 1 || 960 % self.partitions == 0")
    }
    .field_path(".partitions")
}

/// The duration in `text` in milliseconds. Minutes and milliseconds would both begin with `m`.
fn millis(text: &str) -> String {
    [("u", 1_u64), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)]
        .map(|(unit, factor)| {
            format!(
                "{text}.replace('ms', 'u').findAll('[0-9]+{unit}').map(n, int(n.replace('{unit}', ''))).sum() * {factor}"
            )
        })
        .join(" + ")
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
    let partner =
        "b.name != a.name && b.input.topic == a.output.topic && b.output.topic == a.input.topic";
    rule(
        format!("!self.exists(a, self.exists(b, {partner}))"),
        words::LOOP,
        &[(
            "topic",
            &format!("self.filter(a, self.exists(b, {partner}))[0].output.topic"),
        )],
    )
}

/// True for a window `w` and a key `k` of it that no column declares.
const KEY_UNKNOWN: &str = "!self.input.columns.exists(c, c.name == k)";
const KEY_FLOAT: &str = "self.input.columns.exists(c, c.name == k && c.type == 'float64')";

fn keys(broken: &str, words: Words) -> Rule {
    rule(
        format!("!self.windows.exists(w, w.keys.exists(k, {broken}))"),
        words,
        &[(
            "column",
            &format!(
                "self.windows.filter(w, w.keys.exists(k, {broken}))[0].keys.filter(k, {broken})[0]"
            ),
        )],
    )
    .field_path(".windows")
}

pub(crate) fn keys_declared() -> Rule {
    keys(KEY_UNKNOWN, words::KEY_COLUMN)
}

pub(crate) fn keys_not_float() -> Rule {
    keys(KEY_FLOAT, words::KEY_FLOAT)
}

/// The column that aggregate `a` reads; the empty text if none.
const READS: &str = "(has(a.sum) ? a.sum : has(a.min) ? a.min : has(a.max) ? a.max : has(a.mean) ? a.mean : \
    has(a.count) && has(a.count.column) ? a.count.column : '')";

fn aggregates(broken: &str, words: Words) -> Rule {
    rule(
        format!("!self.windows.exists(w, w.aggregates.exists(a, {broken}))"),
        words,
        &[
            (
                "window",
                &format!("self.windows.filter(w, w.aggregates.exists(a, {broken}))[0].name"),
            ),
            (
                "column",
                &format!(
                    "self.windows.filter(w, w.aggregates.exists(a, {broken}))[0]\
                     .aggregates.filter(a, {broken}).map(a, {READS})[0]"
                ),
            ),
        ],
    )
    .field_path(".windows")
}

pub(crate) fn aggregates_declared() -> Rule {
    aggregates(
        &format!("{READS} != '' && !self.input.columns.exists(c, c.name == {READS})"),
        words::AGGREGATE_COLUMN,
    )
}

pub(crate) fn sums_numeric() -> Rule {
    aggregates(
        "(has(a.sum) || has(a.mean)) && self.input.columns.exists(c, \
         c.name == (has(a.sum) ? a.sum : a.mean) && !(c.type in ['int64', 'float64']))",
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
    let twice = "self.filter(o, o == k).size() > 1";
    rule(
        format!("!self.exists(k, {twice})"),
        words::KEY_TWICE,
        &[("column", &format!("self.filter(k, {twice})[0]"))],
    )
}

pub(crate) fn results_are_no_keys() -> Rule {
    let broken = "self.keys.exists(k, k == a.__as__)";
    rule(
        format!("!self.aggregates.exists(a, {broken})"),
        words::RESULT_IS_KEY,
        &[
            (
                "name",
                &format!("self.aggregates.filter(a, {broken})[0].__as__"),
            ),
            ("window", "self.name"),
        ],
    )
    .field_path(".aggregates")
}

const BOUNDS: &str = "['window_start_ms', 'window_end_ms']";

pub(crate) fn results_are_no_bounds() -> Rule {
    rule(
        format!("!self.aggregates.exists(a, a.__as__ in {BOUNDS})"),
        words::RESERVED_RESULT,
        &[
            (
                "name",
                &format!("self.aggregates.filter(a, a.__as__ in {BOUNDS})[0].__as__"),
            ),
            ("window", "self.name"),
        ],
    )
    .field_path(".aggregates")
}

pub(crate) fn keys_are_no_bounds() -> Rule {
    rule(
        format!("!self.keys.exists(k, k in {BOUNDS})"),
        words::RESERVED_RESULT,
        &[
            ("name", &format!("self.keys.filter(k, k in {BOUNDS})[0]")),
            ("window", "self.name"),
        ],
    )
    .field_path(".keys")
}

const IS_RESULT: &str = "self.output.messageKey in w.keys || w.aggregates.exists(a, a.__as__ == self.output.messageKey)";
/// `record_key` is a result if the record's own key is the partition key, which CEL cannot see.
const GIVEN_BY_WINDOW: &str = "['window_start_ms', 'window_end_ms', 'record_key']";

pub(crate) fn message_key_is_result() -> Rule {
    rule(
        format!(
            "!has(self.output.messageKey) || self.output.messageKey in {GIVEN_BY_WINDOW} || \
             self.windows.all(w, {IS_RESULT})"
        ),
        words::MESSAGE_KEY,
        &[("name", "self.output.messageKey")],
    )
    .field_path(".output.messageKey")
}

pub(crate) fn message_key_type() -> Rule {
    let no_key = "!(c.type in ['string', 'int64'])";
    rule(
        format!(
            "!has(self.output.messageKey) || self.windows.all(w, \
             !(self.output.messageKey in w.keys && self.input.columns.exists(c, c.name == self.output.messageKey && {no_key})) && \
             !w.aggregates.exists(a, a.__as__ == self.output.messageKey && (has(a.mean) || \
             (!has(a.count) && self.input.columns.exists(c, c.name == {READS} && {no_key})))))"
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
