//! Conditions: one builder that keeps times, so that a pass that finds nothing new writes nothing.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The conditions of a `TurbineApp`, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::EnumIter)]
pub(crate) enum ConditionType {
    Ready,
    Reconciling,
    Stalled,
    SpecValid,
    TopicsReady,
    Degraded,
    RescaleBlocked,
    /// There since the first change of the layout; its reason is the step.
    Rescaling,
    /// Whether records lie where murmur2 puts their keys, by what the workers saw.
    PlacementVerified,
    /// There only while keyed state runs on such a count knowingly.
    NonDivisorPartitions,
}

/// The three values of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub(crate) enum Is {
    True,
    False,
    Unknown,
}

/// Longest message that the API server takes is 32 KiB; this is what people read.
const LONGEST_MESSAGE: usize = 2_048;

/// Conditions on their way from the stored status to the next one.
#[derive(Debug)]
pub(crate) struct Conditions {
    now: Timestamp,
    generation: i64,
    list: Vec<Condition>,
}

impl Conditions {
    /// Starts from what is stored.
    pub(crate) fn from(stored: &[Condition], generation: i64, now: Timestamp) -> Self {
        Self {
            now,
            generation,
            list: stored.to_vec(),
        }
    }

    /// Says what a condition is now. Its time moves only if its value flips.
    pub(crate) fn set(
        &mut self,
        type_: ConditionType,
        is: Is,
        reason: &str,
        message: impl Into<String>,
    ) {
        let type_ = type_.to_string();
        let status = is.to_string();
        let message = cut(message.into(), LONGEST_MESSAGE);
        let since = self
            .list
            .iter()
            .find(|of| of.type_ == type_ && of.status == status)
            .map(|of| of.last_transition_time.clone())
            .unwrap_or_else(|| Time(whole_seconds(self.now)));
        let next = Condition {
            type_,
            status,
            reason: reason.to_owned(),
            message,
            last_transition_time: since,
            observed_generation: Some(self.generation),
        };
        match self.list.iter_mut().find(|of| of.type_ == next.type_) {
            Some(of) => *of = next,
            None => self.list.push(next),
        }
    }

    /// Whether a condition stands.
    pub(crate) fn stands(&self, type_: ConditionType) -> bool {
        let type_ = type_.to_string();
        self.list.iter().any(|of| of.type_ == type_)
    }

    /// Takes a condition away that means something only while it is there.
    pub(crate) fn take_away(&mut self, type_: ConditionType) {
        let type_ = type_.to_string();
        self.list.retain(|of| of.type_ != type_);
    }

    /// The list, in a fixed order.
    pub(crate) fn into_list(mut self) -> Vec<Condition> {
        let place = |of: &Condition| {
            <ConditionType as strum::IntoEnumIterator>::iter()
                .position(|type_| type_.to_string() == of.type_)
        };
        self.list.sort_by_key(|of| place(of).unwrap_or(usize::MAX));
        self.list
    }
}

/// The server stores whole seconds; anything finer would differ from what comes back.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Shortens a text to `most` bytes without cutting a character in two.
pub fn cut(mut text: String, most: usize) -> String {
    const MARK: &str = "...";
    if text.len() > most {
        let mut end = most.saturating_sub(MARK.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(MARK);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_time_is_kept_until_the_value_flips() {
        let step = |stored: &[Condition], second, is, message: &str| {
            let mut conditions = Conditions::from(stored, 1, at(second));
            conditions.set(ConditionType::Ready, is, "R", message);
            conditions.into_list()
        };
        let first = step(&[], 10, Is::False, "a");
        let reworded = step(&first, 20, Is::False, "b");
        assert_eq!(reworded[0].last_transition_time.0, at(10));
        assert_eq!(reworded[0].message, "b");
        let flipped = step(&reworded, 30, Is::True, "b");
        assert_eq!(flipped[0].last_transition_time.0, at(30));
        assert_eq!(flipped.len(), 1);
    }

    proptest! {
        #[test]
        fn a_cut_text_is_short_and_whole_characters(text in ".{0,400}", most in 3_usize..300) {
            let short = cut(text.clone(), most);
            if text.len() > most {
                prop_assert!(short.len() <= most);
                prop_assert!(text.starts_with(short.strip_suffix("...").unwrap()));
            } else {
                prop_assert_eq!(short, text);
            }
        }
    }
}
