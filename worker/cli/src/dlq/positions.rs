//! Offsets by partition, as they are printed and given back.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use turbine_keygroups::Partition;
use turbine_protocol::{LogBounds, Offset};

/// Where to begin in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Positions {
    /// In every partition at this offset.
    Everywhere(Offset),
    /// Partition by partition; in one that is not named, at its beginning: the topic may have grown since.
    By(BTreeMap<Partition, Offset>),
}

const FORM: &str = "write PARTITION:OFFSET, separated by commas, such as 0:120,1:98, or one OFFSET for all partitions";

impl FromStr for Positions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| -> Option<Offset> {
            let number: i64 = text.trim().parse().ok()?;
            Offset::try_from(number).ok()
        };
        if let Some(offset) = number(text) {
            return Ok(Self::Everywhere(offset));
        }
        let mut by = BTreeMap::new();
        for part in text.split(',') {
            let read = part.split_once(':').and_then(|(partition, offset)| {
                let partition: i32 = partition.trim().parse().ok()?;
                Some((Partition::try_from(partition).ok()?, number(offset)?))
            });
            let (partition, offset) = read.ok_or_else(|| FORM.to_owned())?;
            if by.insert(partition, offset).is_some() {
                return Err(format!("partition {} is named twice", partition.get()));
            }
        }
        Ok(Self::By(by))
    }
}

impl fmt::Display for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everywhere(offset) => offset.fmt(f),
            Self::By(by) => {
                for (at, (partition, offset)) in by.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}{}:{offset}", partition.get())?;
                }
                Ok(())
            }
        }
    }
}

impl Positions {
    fn of(&self, partition: Partition) -> Option<Offset> {
        match self {
            Self::Everywhere(offset) => Some(*offset),
            Self::By(by) => by.get(&partition).copied(),
        }
    }

    /// A partition that is named and not there.
    pub(super) fn unknown(&self, logs: &BTreeMap<Partition, LogBounds>) -> Option<Partition> {
        match self {
            Self::Everywhere(_) => None,
            Self::By(by) => by
                .keys()
                .find(|partition| !logs.contains_key(partition))
                .copied(),
        }
    }

    /// What of a log lies behind the position, and how many records that were to be read are gone from it.
    pub(super) fn rest(&self, partition: Partition, log: LogBounds) -> (LogBounds, u64) {
        let Some(from) = self.of(partition) else {
            return (log, 0);
        };
        let start = from.clamp(log.start(), log.end());
        let rest = LogBounds::new(start, log.end()).unwrap_or(log);
        (rest, log.start().since(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(number: i64) -> Offset {
        number.try_into().unwrap()
    }

    fn log(start: i64, end: i64) -> LogBounds {
        LogBounds::new(offset(start), offset(end)).unwrap()
    }

    fn partition(number: i32) -> Partition {
        number.try_into().unwrap()
    }

    #[test]
    fn what_is_printed_is_read_again() {
        for text in ["0:120,1:98", "7:0", "120"] {
            let positions: Positions = text.parse().unwrap();
            assert_eq!(positions.to_string(), text);
        }
        for bad in ["", "a", "-1", "0:-1", "1:2,", "0:1;1:2", "-1:5"] {
            assert!(bad.parse::<Positions>().is_err(), "{bad}");
        }
        assert!(
            "1:2,1:3"
                .parse::<Positions>()
                .unwrap_err()
                .contains("twice")
        );
    }

    #[test]
    fn what_is_behind_a_position_is_read_and_what_is_gone_is_counted() {
        let by: Positions = "0:5,1:50".parse().unwrap();
        assert_eq!(by.rest(partition(0), log(0, 10)), (log(5, 10), 0));
        assert_eq!(by.rest(partition(0), log(8, 10)), (log(8, 10), 3));
        assert_eq!(by.rest(partition(1), log(0, 10)), (log(10, 10), 0));
        assert_eq!(by.rest(partition(2), log(3, 10)), (log(3, 10), 0));
        let everywhere: Positions = "5".parse().unwrap();
        assert_eq!(everywhere.rest(partition(9), log(0, 10)), (log(5, 10), 0));
        let logs = BTreeMap::from([(partition(0), log(0, 10))]);
        assert_eq!(by.unknown(&logs), Some(partition(1)));
        assert_eq!(everywhere.unknown(&logs), None);
    }
}
