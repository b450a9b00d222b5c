//! Names of apps and subscriptions, and the names made from them at the broker.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use turbine_keygroups::Partition;

/// Longest name of an app, a subscription or a hop, in characters.
pub const MAX_LABEL: usize = 40;
/// Longest name of a topic that Kafka takes, in characters.
pub const MAX_TOPIC: usize = 249;

/// A name that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// Not a DNS label, or too long.
    #[error(
        "{what} `{given}` is refused: use 1 to {MAX_LABEL} lower-case letters, digits and `-`, \
         beginning and ending with a letter or digit (it has {length} characters)"
    )]
    Label {
        /// What is named.
        what: &'static str,
        /// The name.
        given: String,
        /// Its length in characters.
        length: usize,
    },
    /// Not a topic name by Kafka's rule.
    #[error(
        "topic `{given}` is refused: use 1 to {MAX_TOPIC} letters, digits, `.`, `_` and `-`, \
         and not `.` or `..` (it has {length} characters)"
    )]
    Topic {
        /// The name.
        given: String,
        /// Its length in characters.
        length: usize,
    },
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= MAX_LABEL
        && bytes.first().is_some_and(|byte| inner(*byte))
        && bytes.last().is_some_and(|byte| inner(*byte))
        && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, |$text:ident| $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str($text: &str) -> Result<Self, NameError> {
                $check.map(|()| Self($text.to_owned()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

fn label(what: &'static str, text: &str) -> Result<(), NameError> {
    if is_label(text) {
        Ok(())
    } else {
        Err(NameError::Label {
            what,
            given: text.to_owned(),
            length: text.chars().count(),
        })
    }
}

fn topic(text: &str) -> Result<(), NameError> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if !text.is_empty()
        && text.len() <= MAX_TOPIC
        && text.bytes().all(legal)
        && !matches!(text, "." | "..")
    {
        Ok(())
    } else {
        Err(NameError::Topic {
            given: text.to_owned(),
            length: text.chars().count(),
        })
    }
}

text! {
    /// Identity of an app at the broker: a DNS label of at most 40 characters.
    AppId, |text| label("appId", text)
}

text! {
    /// Identity of a subscription within its app: a DNS label of at most 40 characters.
    SubscriptionName, |text| label("subscription", text)
}

text! {
    /// Name of a hop within its subscription: a DNS label of at most 40 characters.
    HopName, |text| label("hop", text)
}

text! {
    /// Name of a topic, by Kafka's own rule.
    TopicName, |text| topic(text)
}

macro_rules! derived {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

derived! {
    /// Name of the group that holds a subscription's offsets. Nobody is a member of it.
    GroupId
}

derived! {
    /// The transactional id of one task.
    TransactionalId
}

impl GroupId {
    /// `turbine.<appId>.<subscription>`. A label holds no `.`, so no two pairs share a group.
    #[must_use]
    pub fn of(app: &AppId, subscription: &SubscriptionName) -> Self {
        Self(format!("turbine.{app}.{subscription}"))
    }
}

impl TransactionalId {
    /// `turbine.<appId>.<subscription>.<partition>`.
    #[must_use]
    pub fn of(app: &AppId, subscription: &SubscriptionName, partition: Partition) -> Self {
        Self(format!("turbine.{app}.{subscription}.{}", partition.get()))
    }
}

impl TopicName {
    /// `turbine.<appId>.<subscription>.<hop>`: at most 130 characters, so within Kafka's limit.
    #[must_use]
    pub fn internal(app: &AppId, subscription: &SubscriptionName, hop: &HopName) -> Self {
        Self(format!("turbine.{app}.{subscription}.{hop}"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a")]
    #[case("fraud-2")]
    #[case("0123456789012345678901234567890123456789")]
    fn labels_of_up_to_40_characters_are_taken(#[case] text: &str) {
        assert_eq!(text.parse::<AppId>().unwrap().as_str(), text);
    }

    #[rstest]
    #[case("")]
    #[case("01234567890123456789012345678901234567890")]
    #[case("-a")]
    #[case("a-")]
    #[case("A")]
    #[case("a.b")]
    #[case("a/b")]
    #[case("a b")]
    #[case("..")]
    #[case("ä")]
    #[case("a\n")]
    fn what_is_no_label_is_refused_by_name(#[case] text: &str) {
        let refusal = text.parse::<SubscriptionName>().unwrap_err().to_string();
        assert!(
            refusal.contains(&format!("subscription `{text}`")),
            "{refusal}"
        );
    }

    #[rstest]
    #[case("..", false)]
    #[case(".", false)]
    #[case("...", true)]
    #[case("Events_v1.raw-2", true)]
    #[case("", false)]
    #[case("a b", false)]
    #[case("a/b", false)]
    #[case("é", false)]
    fn topics_follow_kafkas_rule(#[case] text: &str, #[case] legal: bool) {
        assert_eq!(text.parse::<TopicName>().is_ok(), legal);
    }

    #[test]
    fn a_topic_of_249_characters_is_the_longest() {
        assert!("t".repeat(249).parse::<TopicName>().is_ok());
        assert!("t".repeat(250).parse::<TopicName>().is_err());
    }

    #[test]
    fn names_at_the_broker_have_the_documented_form() {
        let app: AppId = "fraud".parse().unwrap();
        let subscription: SubscriptionName = "per-tenant".parse().unwrap();
        assert_eq!(
            GroupId::of(&app, &subscription).as_str(),
            "turbine.fraud.per-tenant"
        );
        let partition = Partition::try_from(11).unwrap();
        assert_eq!(
            TransactionalId::of(&app, &subscription, partition).as_str(),
            "turbine.fraud.per-tenant.11"
        );
        assert_eq!(
            TopicName::internal(&app, &subscription, &"by-user".parse().unwrap()).as_str(),
            "turbine.fraud.per-tenant.by-user"
        );
    }

    #[test]
    fn the_longest_internal_topic_fits_kafkas_limit() {
        let label = "x".repeat(MAX_LABEL);
        let name = TopicName::internal(
            &label.parse().unwrap(),
            &label.parse().unwrap(),
            &label.parse().unwrap(),
        );
        assert!(name.as_str().parse::<TopicName>().is_ok());
    }

    #[test]
    fn a_name_read_from_json_is_checked_as_well() {
        assert!(serde_json::from_str::<AppId>("\"a_b\"").is_err());
        assert!(serde_json::from_str::<TopicName>("\"a_b\"").is_ok());
    }
}
