//! Which dead letters are meant.

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use turbine_crds::text::DurationText;
use turbine_kafka::{Origin, Phase};

/// Which dead letters are meant; all that is given must hold.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Filter {
    /// Only those of this subscription
    #[arg(long, value_name = "NAME")]
    subscription: Option<String>,
    /// Only those that came from this topic
    #[arg(long, value_name = "TOPIC")]
    source_topic: Option<String>,
    /// Only those that came from this partition
    #[arg(long, value_name = "PARTITION", value_parser = clap::value_parser!(i32).range(0..))]
    source_partition: Option<i32>,
    /// Only those that failed in this phase
    #[arg(long, value_enum)]
    phase: Option<PhaseName>,
    /// Only those whose reason contains this text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only those written then or later: RFC 3339 with an offset, or how long ago, such as 90m
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Moment>,
    /// Only those written before then
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum PhaseName {
    /// Its bytes
    Deserialize,
    /// Its content
    Processing,
    /// A timer or an expiry that it had set
    ProcessingExpiry,
}

impl PhaseName {
    fn phase(self) -> Phase {
        match self {
            Self::Deserialize => Phase::Deserialize,
            Self::Processing => Phase::Processing,
            Self::ProcessingExpiry => Phase::ProcessingExpiry,
        }
    }
}

/// A point in time as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// Milliseconds since the Unix epoch.
    At(i64),
    /// Milliseconds before now.
    Ago(u64),
}

impl Moment {
    fn millis(self, now: i64) -> i64 {
        match self {
            Self::At(millis) => millis,
            Self::Ago(millis) => now.saturating_sub(i64::try_from(millis).unwrap_or(i64::MAX)),
        }
    }
}

fn moment(text: &str) -> Result<Moment, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(Moment::At(time.as_millisecond()));
    }
    DurationText(text.to_owned())
        .millis()
        .map(Moment::Ago)
        .map_err(|_| {
            "write a time of RFC 3339 with an offset, such as 2026-01-01T00:00:00Z, or how long ago, such as 90m or 2d"
                .to_owned()
        })
}

/// A filter at a moment.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    filter: Filter,
    since: Option<i64>,
    until: Option<i64>,
}

impl Filter {
    /// `now` in milliseconds since the Unix epoch.
    pub(super) fn at(self, now: i64) -> Wanted {
        Wanted {
            since: self.since.map(|moment| moment.millis(now)),
            until: self.until.map(|moment| moment.millis(now)),
            filter: self,
        }
    }
}

impl Wanted {
    /// Nothing written before this is wanted.
    pub(super) fn since(&self) -> Option<i64> {
        self.since
    }

    /// Whether a dead letter is one of those meant. What a record does not say of itself fits no filter that asks for it.
    pub(super) fn fits(&self, origin: &Origin, time: Option<i64>) -> bool {
        let Filter {
            subscription,
            source_topic,
            source_partition,
            phase,
            error,
            since: _,
            until: _,
        } = &self.filter;
        let same = |asked: &Option<String>, found: &Option<String>| {
            asked.is_none() || asked.as_deref() == found.as_deref()
        };
        same(subscription, &origin.subscription)
            && same(source_topic, &origin.topic)
            && source_partition.is_none_or(|asked| origin.partition == Some(asked))
            && phase.is_none_or(|asked| origin.phase.as_deref() == Some(asked.phase().as_str()))
            && error.as_ref().is_none_or(|asked| {
                let found = origin.error.as_ref();
                found.is_some_and(|found| found.contains(asked))
            })
            && self
                .since
                .is_none_or(|since| time.is_some_and(|time| time >= since))
            && self
                .until
                .is_none_or(|until| time.is_some_and(|time| time < until))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn origin() -> Origin {
        Origin {
            topic: Some("in".to_owned()),
            partition: Some(3),
            offset: Some(42),
            phase: Some("deserialize".to_owned()),
            error: Some("the JSON is cut off after 20 bytes".to_owned()),
            subscription: Some("fraud".to_owned()),
            value_dropped: None,
        }
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[rstest]
    #[case(Filter::default(), true)]
    #[case(Filter { subscription: text("fraud"), ..Filter::default() }, true)]
    #[case(Filter { subscription: text("frau"), ..Filter::default() }, false)]
    #[case(Filter { source_topic: text("in"), ..Filter::default() }, true)]
    #[case(Filter { source_topic: text("out"), ..Filter::default() }, false)]
    #[case(Filter { source_partition: Some(3), ..Filter::default() }, true)]
    #[case(Filter { source_partition: Some(0), ..Filter::default() }, false)]
    #[case(Filter { phase: Some(PhaseName::Deserialize), ..Filter::default() }, true)]
    #[case(Filter { phase: Some(PhaseName::Processing), ..Filter::default() }, false)]
    #[case(Filter { error: text("cut off"), ..Filter::default() }, true)]
    #[case(Filter { error: text("overflow"), ..Filter::default() }, false)]
    #[case(Filter { since: Some(Moment::At(1_000)), ..Filter::default() }, true)]
    #[case(Filter { since: Some(Moment::At(1_001)), ..Filter::default() }, false)]
    #[case(Filter { until: Some(Moment::At(1_001)), ..Filter::default() }, true)]
    #[case(Filter { until: Some(Moment::At(1_000)), ..Filter::default() }, false)]
    #[case(Filter { since: Some(Moment::Ago(4_000)), ..Filter::default() }, true)]
    #[case(Filter { since: Some(Moment::Ago(3_999)), ..Filter::default() }, false)]
    #[case(Filter { source_topic: text("in"), error: text("overflow"), ..Filter::default() }, false)]
    fn every_filter_that_is_given_must_hold(#[case] filter: Filter, #[case] fits: bool) {
        let asks = filter.subscription.is_some()
            || filter.source_topic.is_some()
            || filter.source_partition.is_some()
            || filter.phase.is_some()
            || filter.error.is_some();
        let of_time = filter.since.is_some() || filter.until.is_some();
        let wanted = filter.at(5_000);
        assert_eq!(wanted.fits(&origin(), Some(1_000)), fits);
        // A record without our headers, and one without a time.
        assert_eq!(wanted.fits(&Origin::default(), Some(1_000)), fits && !asks);
        assert_eq!(wanted.fits(&origin(), None), fits && !of_time);
    }

    #[test]
    fn times_are_moments_or_how_long_ago() {
        assert_eq!(moment("1970-01-01T01:00:01+01:00"), Ok(Moment::At(1_000)));
        assert_eq!(moment("1h30m"), Ok(Moment::Ago(5_400_000)));
        for bad in ["yesterday", "2026-01-01T00:00:00", "2026-01-01", "5"] {
            assert!(moment(bad).unwrap_err().contains("90m"), "{bad}");
        }
    }
}
