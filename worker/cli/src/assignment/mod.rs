//! `turbine-cli assignment`: who reads what, by Kafka's assignors and by Turbine.

use std::collections::BTreeSet;
use std::io::Write;

use clap::Subcommand;
use thiserror::Error;
use turbine_protocol::TopicName;

use crate::Verdict;
use crate::placement::{self, Output};

mod assignors;
mod simulate;

use assignors::Topic;

#[derive(Debug, Subcommand)]
pub(crate) enum AssignmentVerb {
    /// Compare how range, round-robin, sticky and Turbine share out partitions
    ///
    /// Range, round-robin and sticky are those of Kafka's Java client, with every member subscribed to every topic.
    /// Turbine assigns tasks, not partitions: topics of equal count are taken as inputs of one subscription, whose task N reads
    /// partition N of each, so equal indexes meet. Nothing is asked of a broker.
    ///
    /// It shows who reads what, how even that is, how many equal indexes of equally many partitions meet on one member, and
    /// what moves when a member leaves. Only what the member had has to move.
    #[command(after_help = "\
Examples:
  turbine-cli assignment simulate --topic orders:3 --topic payments:3 --members 2
  turbine-cli assignment simulate --topic orders:12 --topic payments:12 --members 5 --leave member-1
  turbine-cli assignment simulate --topic orders:12 --members anna,bert,carl --output json")]
    Simulate {
        /// A topic with its partition count; once for each
        #[arg(long = "topic", value_name = "NAME:COUNT", required = true, value_parser = topic)]
        topics: Vec<Topic>,
        /// How many members, or their names, separated by commas
        #[arg(long, value_name = "COUNT|NAMES")]
        members: String,
        /// Member that leaves; default: the last
        #[arg(long, value_name = "NAME")]
        leave: Option<String>,
        /// How the answer is printed
        #[arg(long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
}

#[derive(Debug, PartialEq, Eq, Error)]
enum SimulateError {
    #[error(
        "--members `{0}`: write a number from 1 to {MOST_MEMBERS}, or names separated by commas"
    )]
    Members(String),
    #[error("--members: `{0}` is there twice; members have names of their own")]
    MemberTwice(String),
    #[error("--topic: `{0}` is there twice; name each topic once")]
    TopicTwice(String),
    #[error("--leave `{leave}`: no such member; there are {members}")]
    NobodyToLeave { leave: String, members: String },
}

const MOST_MEMBERS: usize = 1000;

fn topic(text: &str) -> Result<Topic, String> {
    let (name, count) = text
        .rsplit_once(':')
        .ok_or("write NAME:COUNT, such as orders:12")?;
    let name: TopicName = name.parse().map_err(|error| format!("{error}"))?;
    Ok(Topic {
        name: name.into(),
        count: placement::count(count)?.get(),
    })
}

/// Names in the order in which Kafka's assignors see members: that of their ids.
fn members(text: &str) -> Result<Vec<String>, SimulateError> {
    let refused = || SimulateError::Members(text.to_owned());
    let mut names: Vec<String> = if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let count: usize = text.parse().map_err(|_| refused())?;
        if count > MOST_MEMBERS {
            return Err(refused());
        }
        let digits = count.saturating_sub(1).to_string().len();
        (0..count)
            .map(|at| format!("member-{at:0digits$}"))
            .collect()
    } else {
        text.split(',').map(|name| name.trim().to_owned()).collect()
    };
    if names.is_empty() || names.len() > MOST_MEMBERS || names.iter().any(String::is_empty) {
        return Err(refused());
    }
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(SimulateError::MemberTwice(pair[0].clone())),
        None => Ok(names),
    }
}

fn situation(
    mut topics: Vec<Topic>,
    member_names: &str,
    leave: Option<String>,
) -> Result<simulate::Situation, SimulateError> {
    topics.sort();
    let mut names = BTreeSet::new();
    if let Some(twice) = topics.iter().find(|topic| !names.insert(&topic.name)) {
        return Err(SimulateError::TopicTwice(twice.name.clone()));
    }
    let members = members(member_names)?;
    let leaves = match leave {
        Some(leave) if !members.contains(&leave) => {
            let members = members.join(", ");
            return Err(SimulateError::NobodyToLeave { leave, members });
        }
        // Where nobody stays there is nothing to compare.
        _ if members.len() == 1 => None,
        Some(leave) => Some(leave),
        None => members.last().cloned(),
    };
    Ok(simulate::Situation {
        topics,
        members,
        leaves,
    })
}

pub(crate) fn run(verb: AssignmentVerb, out: &mut impl Write) -> anyhow::Result<Verdict> {
    let AssignmentVerb::Simulate {
        topics,
        members,
        leave,
        output,
    } = verb;
    let outcomes = simulate::run(&situation(topics, &members, leave)?)?;
    match output {
        Output::Text => outcomes.write_text(out)?,
        Output::Json => outcomes.write_json(out)?,
    }
    Ok(Verdict::Good)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics() -> Vec<Topic> {
        vec![topic("b:3").unwrap(), topic("a:2").unwrap()]
    }

    #[test]
    fn members_are_counted_or_named_and_sort_as_they_count() {
        assert_eq!(members("2").unwrap(), ["member-0", "member-1"]);
        let eleven = members("11").unwrap();
        assert_eq!(eleven[2], "member-02");
        assert!(eleven.is_sorted());
        assert_eq!(members("bert, anna").unwrap(), ["anna", "bert"]);
        for bad in ["0", "", "a,,b", "1001", "99999999999999999999999"] {
            assert!(
                matches!(members(bad), Err(SimulateError::Members(_))),
                "{bad}"
            );
        }
        assert!(matches!(members("a,a"), Err(SimulateError::MemberTwice(_))));
    }

    #[test]
    fn topics_have_a_name_and_a_count() {
        assert_eq!(
            topic("a.b_c-d:12").unwrap(),
            Topic {
                name: "a.b_c-d".to_owned(),
                count: 12
            }
        );
        for bad in ["a", "a:0", "a:x", ":3", "a b:3", "a:-1"] {
            assert!(topic(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_last_leaves_unless_another_is_named_and_one_alone_stays() {
        let leaves = |members: &str, leave: Option<&str>| {
            situation(topics(), members, leave.map(str::to_owned)).map(|s| s.leaves)
        };
        assert_eq!(leaves("3", None).unwrap().as_deref(), Some("member-2"));
        assert_eq!(
            leaves("3", Some("member-0")).unwrap().as_deref(),
            Some("member-0")
        );
        assert_eq!(leaves("1", None).unwrap(), None);
        assert!(matches!(
            leaves("3", Some("x")),
            Err(SimulateError::NobodyToLeave { .. })
        ));
        let twice = vec![topic("a:2").unwrap(), topic("a:3").unwrap()];
        assert!(matches!(
            situation(twice, "2", None),
            Err(SimulateError::TopicTwice(_))
        ));
    }
}
