//! Dead letters: a record that could not be used, as it was, with where it came from and why.

use turbine_keygroups::Partition;
use turbine_protocol::{Offset, SubscriptionName, TopicName};

/// Beginning of the names of our own headers. A record that is a dead letter already loses its
/// old ones, so they do not pile up when a dead letter is put back and fails again.
pub const DLQ_HEADER_PREFIX: &str = "turbine_dlq_";

/// In which phase a record failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Decoding its bytes.
    Deserialize,
    /// Computing with it.
    Processing,
    /// A timer or an expiry it had set.
    ProcessingExpiry,
}

impl Phase {
    /// The phase's name in headers and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deserialize => "deserialize",
            Self::Processing => "processing",
            Self::ProcessingExpiry => "processing_expiry",
        }
    }
}

/// A record that could not be used.
#[derive(Debug, Clone)]
pub struct DeadLetter<'a, H> {
    /// Its key, as it was.
    pub key: Option<&'a [u8]>,
    /// Its value, as it was.
    pub value: Option<&'a [u8]>,
    /// Its headers, as they were and in their order.
    pub headers: H,
    /// The topic it came from.
    pub topic: &'a TopicName,
    /// The partition it came from.
    pub partition: Partition,
    /// Its offset there.
    pub offset: Offset,
    /// In which phase it failed.
    pub phase: Phase,
    /// Why.
    pub error: &'a str,
    /// Which subscription could not use it.
    pub subscription: &'a SubscriptionName,
}

/// The headers of a dead letter: the record's own, then ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterHeaders(Vec<(Vec<u8>, Option<Vec<u8>>)>);

impl DeadLetterHeaders {
    /// The headers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_slice(), value.as_deref()))
    }

    /// Says that the value was left out as too large, and how large it was.
    pub(crate) fn without_value(mut self, bytes: usize) -> Self {
        self.0.push(ours("value_dropped_bytes", &bytes.to_string()));
        self
    }
}

fn ours(name: &str, value: &str) -> (Vec<u8>, Option<Vec<u8>>) {
    (
        format!("{DLQ_HEADER_PREFIX}{name}").into_bytes(),
        Some(value.as_bytes().to_vec()),
    )
}

impl<'a, H> DeadLetter<'a, H>
where
    H: Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + Clone,
{
    /// The headers this dead letter is written with.
    #[must_use]
    pub fn headers(&self) -> DeadLetterHeaders {
        let mut headers: Vec<_> = without_ours(self.headers.clone())
            .map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec)))
            .collect();
        headers.extend([
            ours("source_topic", self.topic.as_str()),
            ours("source_partition", &self.partition.get().to_string()),
            ours("source_offset", &self.offset.to_string()),
            ours("phase", self.phase.as_str()),
            ours("error", self.error),
            ours("worker", self.subscription.as_str()),
        ]);
        DeadLetterHeaders(headers)
    }
}

/// What the headers of a dead letter say about it, as text; `None` where one is not there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The topic it came from.
    pub topic: Option<String>,
    /// The partition it came from.
    pub partition: Option<i32>,
    /// Its offset there.
    pub offset: Option<i64>,
    /// In which phase it failed.
    pub phase: Option<String>,
    /// Why.
    pub error: Option<String>,
    /// Which subscription could not use it.
    pub subscription: Option<String>,
    /// How large its value was, if that had to be left out.
    pub value_dropped: Option<u64>,
}

impl Origin {
    /// Reads a record's headers. A record that is no dead letter says nothing.
    #[must_use]
    pub fn of<'a>(headers: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>) -> Self {
        let mut origin = Self::default();
        for (name, value) in headers {
            let (Some(name), Some(value)) =
                (name.strip_prefix(DLQ_HEADER_PREFIX.as_bytes()), value)
            else {
                continue;
            };
            let text = String::from_utf8_lossy(value).into_owned();
            match name {
                b"source_topic" => origin.topic = Some(text),
                b"source_partition" => origin.partition = text.parse().ok(),
                b"source_offset" => origin.offset = text.parse().ok(),
                b"phase" => origin.phase = Some(text),
                b"error" => origin.error = Some(text),
                b"worker" => origin.subscription = Some(text),
                b"value_dropped_bytes" => origin.value_dropped = text.parse().ok(),
                _ => {}
            }
        }
        origin
    }
}

/// The headers that a record had before it became a dead letter.
pub fn without_ours<'a>(
    headers: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> {
    headers.filter(|(name, _)| !name.starts_with(DLQ_HEADER_PREFIX.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Header<'a> = (&'a [u8], Option<&'a [u8]>);

    fn letter<'a>(
        headers: &'a [Header<'a>],
        topic: &'a TopicName,
        subscription: &'a SubscriptionName,
    ) -> DeadLetter<'a, impl Iterator<Item = Header<'a>> + Clone> {
        DeadLetter {
            key: None,
            value: Some(b"{"),
            headers: headers.iter().copied(),
            topic,
            partition: Partition::try_from(3).unwrap(),
            offset: Offset::try_from(42).unwrap(),
            phase: Phase::Deserialize,
            error: "cut off",
            subscription,
        }
    }

    #[test]
    fn own_headers_keep_order_repeats_null_empty_and_bytes_and_ours_follow() {
        let long = "n".repeat(300);
        let original: Vec<Header<'_>> = vec![
            (b"t", Some(b"1")),
            (b"t", Some(b"2")),
            (b"n", None),
            (b"e", Some(b"")),
            (b"b", Some(&[0xff, 0x00])),
            (long.as_bytes(), Some(b"x")),
        ];
        let (topic, subscription) = ("in".parse().unwrap(), "s".parse().unwrap());
        let headers = letter(&original, &topic, &subscription).headers();
        let all: Vec<Header<'_>> = headers.iter().collect();
        assert_eq!(all[..6], original[..]);
        let ours: Vec<(String, String)> = all[6..]
            .iter()
            .map(|(name, value)| {
                (
                    String::from_utf8_lossy(name).into_owned(),
                    String::from_utf8_lossy(value.unwrap()).into_owned(),
                )
            })
            .collect();
        let expected = [
            ("turbine_dlq_source_topic", "in"),
            ("turbine_dlq_source_partition", "3"),
            ("turbine_dlq_source_offset", "42"),
            ("turbine_dlq_phase", "deserialize"),
            ("turbine_dlq_error", "cut off"),
            ("turbine_dlq_worker", "s"),
        ];
        assert_eq!(
            ours,
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn a_dead_letter_that_fails_again_carries_our_headers_once() {
        let (topic, subscription) = ("in".parse().unwrap(), "s".parse().unwrap());
        let first = letter(&[], &topic, &subscription).headers();
        let read_back: Vec<Header<'_>> = first.iter().collect();
        let second = letter(&read_back, &topic, &subscription).headers();
        assert_eq!(second, first);
    }

    #[test]
    fn what_a_dead_letter_was_written_with_is_read_back() {
        let original: Vec<Header<'_>> =
            vec![(b"t", Some(b"1")), (b"t", None), (b"\xff", Some(b""))];
        let (topic, subscription) = ("in".parse().unwrap(), "s".parse().unwrap());
        let headers = letter(&original, &topic, &subscription).headers();
        let expected = Origin {
            topic: Some("in".to_owned()),
            partition: Some(3),
            offset: Some(42),
            phase: Some("deserialize".to_owned()),
            error: Some("cut off".to_owned()),
            subscription: Some("s".to_owned()),
            value_dropped: None,
        };
        assert_eq!(Origin::of(headers.iter()), expected);
        let own: Vec<Header<'_>> = without_ours(headers.iter()).collect();
        assert_eq!(own, original);
        let headers = headers.without_value(77);
        assert_eq!(Origin::of(headers.iter()).value_dropped, Some(77));
        assert_eq!(Origin::of(original.iter().copied()), Origin::default());
    }
}
