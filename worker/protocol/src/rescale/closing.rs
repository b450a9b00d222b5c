//! How the end of the tails of an old partition is agreed on: one value for all who read it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use turbine_keygroups::Partition;

use super::time::{Moment, Waits};
use crate::epochs::LayoutEpoch;
use crate::offset::Offset;

/// Where a reader of an old partition stands with its end. Stored in the entry: an agreement that a crash forgot would let the
/// task take a record which the others count as behind the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Closing {
    /// Records of the old placement are taken wherever they lie.
    #[default]
    Open,
    /// Has agreed to end here: in front of such a record behind it the reader waits until the end is journalled, or another one is
    /// proposed later.
    Agreed {
        /// The proposed end.
        end: Offset,
        /// Which proposal it was.
        asked_at: Moment,
    },
    /// The end, journalled: such a record behind it stops the task.
    Closed(Offset),
}

/// An end that is proposed to all readers of an old partition.
///
/// A proposal is journalled before it is sent, and takes the place of the one before. So whoever was deposed cannot propose any more,
/// and a reader may forget an agreement as soon as it hears of a later proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// The plan's epoch.
    pub epoch: LayoutEpoch,
    /// The old partition.
    pub partition: Partition,
    /// Its high watermark.
    pub end: Offset,
    /// When that was asked for.
    pub asked_at: Moment,
}

impl Proposal {
    /// Whether producers may be trusted to have stopped using the old count when this was asked, after the growth or after a
    /// record that showed one of them still did: it had `producerRefresh` to learn, and what it sent last had `orderGrace` to
    /// arrive.
    #[must_use]
    pub fn is_late_enough(&self, since: Moment, waits: Waits) -> bool {
        self.asked_at >= since.after(waits.producer_refresh).after(waits.order_grace)
    }
}

/// One round of agreement on the end of one old partition, as the operator keeps it.
///
/// The end may be journalled only once all readers have agreed, and another one proposed only while it is not journalled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    proposal: Proposal,
    missing: BTreeSet<Partition>,
}

impl Round {
    /// Begins one, unless it is too early after the growth. `readers` are the tasks that read the partition: its own, and all
    /// that its keys moved to.
    #[must_use]
    pub fn begin(
        proposal: Proposal,
        grown_at: Moment,
        readers: impl IntoIterator<Item = Partition>,
        waits: Waits,
    ) -> Option<Self> {
        proposal.is_late_enough(grown_at, waits).then(|| Self {
            proposal,
            missing: readers.into_iter().collect(),
        })
    }

    /// What is proposed.
    #[must_use]
    pub fn proposal(&self) -> Proposal {
        self.proposal
    }

    /// A reader says, in an entry that is durable, that it has agreed.
    pub fn answered(&mut self, reader: Partition, closing: Closing) {
        let Proposal { end, asked_at, .. } = self.proposal;
        if closing == (Closing::Agreed { end, asked_at }) {
            self.missing.remove(&reader);
        }
    }

    /// The end, once all have agreed to it.
    #[must_use]
    pub fn end(&self) -> Option<Offset> {
        self.missing.is_empty().then_some(self.proposal.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rescale::growth::tests::partition;
    use crate::rescale::time::Millis;

    const WAITS: Waits = Waits {
        order_grace: Millis(100),
        producer_refresh: Millis(1000),
        metadata_grace: Millis(10),
    };

    fn proposal(asked_at: i64) -> Proposal {
        Proposal {
            epoch: 4.try_into().unwrap(),
            partition: partition(0),
            end: 7.try_into().unwrap(),
            asked_at: Moment(asked_at),
        }
    }

    #[test]
    fn an_end_is_agreed_by_all_readers_or_not_at_all() {
        let readers = || [partition(0), partition(4)];
        assert_eq!(
            Round::begin(proposal(1599), Moment(500), readers(), WAITS),
            None
        );
        let mut round = Round::begin(proposal(1600), Moment(500), readers(), WAITS).unwrap();
        let agreed = |end: i64, asked_at| Closing::Agreed {
            end: end.try_into().unwrap(),
            asked_at: Moment(asked_at),
        };
        round.answered(partition(4), agreed(7, 1600));
        for other in [Closing::Open, agreed(6, 1600), agreed(7, 1599)] {
            round.answered(partition(0), other);
        }
        assert_eq!(round.end(), None);
        round.answered(partition(0), agreed(7, 1600));
        assert_eq!(round.end().map(Offset::get), Some(7));
    }
}
