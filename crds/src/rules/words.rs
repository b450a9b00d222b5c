//! What users read when a rule is broken: one text per rule, for CEL and for Rust.

use std::fmt::Write;

use kube::core::Message;

/// A text with holes, written as `{name}`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words(&'static str);

enum Part<'a> {
    Text(&'a str),
    Hole(&'a str),
}

impl Words {
    fn parts(self) -> impl Iterator<Item = Part<'static>> {
        self.0.split('{').enumerate().flat_map(|(at, piece)| {
            let (hole, text) = match piece.split_once('}') {
                Some((hole, text)) if at > 0 => (Some(Part::Hole(hole)), text),
                _ => (None, piece),
            };
            hole.into_iter()
                .chain((!text.is_empty()).then_some(Part::Text(text)))
        })
    }

    /// The text with values in its holes. A hole without a value stays visible.
    pub(super) fn with(self, values: &[(&str, &str)]) -> String {
        self.parts().fold(String::new(), |mut out, part| {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Hole(name) => match values.iter().find(|(hole, _)| *hole == name) {
                    Some((_, value)) => out.push_str(value),
                    // Writing to a String cannot fail.
                    None => drop(write!(out, "{{{name}}}")),
                },
            }
            out
        })
    }

    /// The text without holes.
    pub(super) fn plain(self) -> String {
        self.with(&[])
    }

    /// The same text as CEL gives it, with CEL expressions of type string in its holes.
    pub(super) fn cel(self, expressions: &[(&str, &str)]) -> Message {
        if expressions.is_empty() {
            return Message::Message(self.plain());
        }
        let parts: Vec<String> = self
            .parts()
            .map(|part| match part {
                Part::Text(text) => quote(text),
                Part::Hole(name) => expressions
                    .iter()
                    .find(|(hole, _)| *hole == name)
                    .map_or_else(|| quote(name), |(_, expression)| format!("({expression})")),
            })
            .collect();
        Message::Expression(parts.join(" + "))
    }
}

/// A CEL string literal.
pub(super) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

macro_rules! words {
    ($($name:ident = $text:literal;)*) => {
        $(pub(super) const $name: Words = Words($text);)*
    };
}

words! {
    LABEL = "{what} `{given}` is refused: use 1 to 40 lower-case letters, digits and `-`, beginning and ending with a letter or digit (it has {length} characters)";
    TOPIC = "topic `{given}` is refused: use 1 to 249 letters, digits, `.`, `_` and `-`, and not `.` or `..` (it has {length} characters)";
    LIST_LENGTH = "{count} entries; use {min} to {max}";
    TEXT_LENGTH = "{count} characters; use {min} to {max}";
    TWICE = "`{name}` is there twice; names are unique here, rename one";

    APP_ID_CHANGED = "appId cannot change from `{old}` to `{new}`: state and offsets hang on it; set it back, or make a new app";
    REPLICAS = "an app has 1 to 1000 worker pods; `suspend: true` stops all of them";

    BOOTSTRAP = "`{given}` is refused: write host:port, several with commas and no spaces, for example kafka-0:9092,kafka-1:9092";
    TLS_PAIR = "`certificate` and `key` belong together; set both or neither";
    SECRET_NAME = "`{given}` is not the name of a Secret: use lower-case letters, digits, `-` and `.`, beginning and ending with a letter or digit";
    SECRET_KEY = "`{given}` is not a key of a Secret: use letters, digits, `-`, `_` and `.`";
    IMAGE = "`{given}` is not an image; write repository:tag or repository@digest, without spaces";

    AT_LEAST_ONE = "a partition count is at least 1";
    OUTPUT_PARTITIONS = "an output is created with 1 to 100000 partitions; use fewer";
    REPLICATION = "a replication factor is 1 to 100, and no more than there are brokers";

    LONG_TRANSACTION = "`{text}` is longer than a transaction may stay open; with processingGuarantee: exactlyOnce use 10ms to 30s";
    NEGATIVE_GAP = "a gap has 0 offsets or more; leave the field out for no bound";
    DURATION = "`{text}` is not a duration; write a number and a unit of ms, s, m, h or d, for example 250ms, 60s or 1h30m";
    DURATION_RANGE = "`{text}` is out of range; use {min} to {max}";

    EVENT_TIME_COLUMN = "eventTime.field `{field}` is not a column of type int64, float64 or timestamp; declare it so in `input.columns`";
    EVENT_TIME_UNIT = "eventTime.unit is for numbers, and `{field}` is a timestamp, whose text says it all; remove the unit";
    START_FROM = "`{given}` is refused; write earliest, latest, or {timestamp: \"2026-01-01T00:00:00Z\"}";
    NO_REPARTITION = "`onMisplaced: repartition` is not in this version; write followOnError, and place records by murmur2 in the producer";
    MISPLACED_WITHOUT_HASH = "onMisplaced says nothing while the hash is undeclared, since no record is then known to be misplaced; set `partitionHash: murmur2`, or remove it";
    DLQ_MISSING = "`onError: dlq` and `onNullKey: dlq` need a dead-letter topic; set `input.dlq`";
    DLQ_UNUSED = "dead-letter topic `{dlq}` would stay empty; set `onError: dlq` or `onNullKey: dlq`, or remove it";

    OUTPUT_IS_INPUT = "output topic `{topic}` is the input as well, so results would be read again; give them a topic of their own";
    DLQ_IS_INPUT = "dead-letter topic `{topic}` is the input as well, so bad records would be read for ever; give them a topic of their own";
    DLQ_IS_OUTPUT = "dead-letter topic `{topic}` is the output as well; give results and dead letters a topic each";
    LOOP = "subscriptions feed each other in a loop, so results would be read for ever; write to a topic that none of them reads";
    DLQ_LOOP = "dead letters would come back to this subscription through others, again and again; send them to a topic that none of them reads";

    PARTITION_KEY_EMPTY = "the partition key names no column; name one or more, or write {recordKey: true}";
    RECORD_KEY_FALSE = "recordKey is true or the key names columns; false says nothing";
    KEY_COLUMN = "a key column is not declared; declare it in `input.columns`, or look for a typing error";
    KEY_FLOAT = "a key column is float64, and floats are no keys; declare it as int64 or string";
    KEY_TWICE = "a key column is there twice; remove one";
    KEY_LACKS = "the keys of window `{window}` lack `{column}`, a column of the partition key; add it, since state is kept per partition key";
    AGGREGATE_COLUMN = "an aggregate reads a column that is not declared; declare it in `input.columns`, or look for a typing error";
    NOT_NUMERIC = "sum and mean take numbers only; use a column of type int64 or float64";
    ONE_FUNCTION = "aggregate `{name}` needs exactly one of count, sum, min, max and mean";
    RESULT_IS_KEY = "window `{window}` has a result with the name of a key column; rename it with `as`";
    RESERVED_RESULT = "window_start_ms and window_end_ms name the bounds of window `{window}` in its results; rename yours";
    RECORD_KEY_RESULT = "record_key names the record's key in the results of window `{window}`; rename yours";

    MESSAGE_KEY = "messageKey `{name}` is not in the results of every window; name a key column, window_start_ms, window_end_ms, or the `as` of an aggregate";
    MESSAGE_KEY_TYPE = "messageKey `{name}` has no type that makes a record key; name a result of type string or int64";

    SIZE = "`{given}` is not a size; write a positive quantity, for example 10Gi";
    SIZE_SHRINKS = "the volume cannot shrink from {old} to {new}; volumes only grow, so set at least {old}";
    STORAGE_CLASS_CHANGED = "the storage class of existing volumes cannot change; set it back, or make a new app";

    RETAIN = "2 to 100 checkpoints are kept, since the newest may turn out damaged; use 2 or more";
    BUCKET = "`{given}` is not a bucket's name; use 3 to 63 lower-case letters, digits, `-` and `.`, beginning and ending with a letter or digit";
    REGION = "`{given}` is not a region; use letters, digits and `-`, for example eu-central-1";
    ENDPOINT = "`{given}` is not the address of an object store; write http:// or https://, host and, where needed, port, for example https://minio.storage:9000";
    ONE_CHECKPOINT_STORE = "checkpoints go to a bucket or to a folder; set `s3` or `folder`, one of the two";
    CHECKPOINT_FOLDER = "`{given}` is not a folder for checkpoints; write an absolute path of letters, digits, `-`, `_` and `.` where podOverrides mount a volume, neither in /var/lib/turbine nor above it, for example /mnt/checkpoints";
    PREFIX = "`{given}` is not a prefix of objects; write letters, digits, `-`, `_` and `.`, with single `/` between parts and none at the ends";

    OVERRIDE_SHAPE = "does not read as a PodTemplateSpec: {error}";
    OVERRIDE_UNKNOWN = "is not a field of a PodTemplateSpec; remove it, or look for a typing error";
    OVERRIDE_OWNED = "is set by Turbine and cannot be overridden; {instead}";

    QUANTITY = "`{text}` is not a quantity; write a number and a unit, for example 10Gi, 512Mi or 250m";
    MEMORY_LIMIT = "`{given}` of memory does not hold a worker; give 128Mi or more (the default is 1Gi)";
    REQUEST_ABOVE_LIMIT = "the request of {request} is above the limit of {limit}; lower it, or raise the limit";
    NEGATIVE = "`{text}` is below zero";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_and_cel_fill_the_same_holes() {
        let words = Words("a `{x}` isn't {y}");
        assert_eq!(words.with(&[("x", "1"), ("y", "{2}")]), "a `1` isn't {2}");
        assert_eq!(
            words.cel(&[("x", "self.x"), ("y", "string(self.y)")]),
            Message::Expression("'a `' + (self.x) + '` isn\\'t ' + (string(self.y))".to_owned())
        );
        assert_eq!(
            Words("plain").cel(&[]),
            Message::Message("plain".to_owned())
        );
    }
}
