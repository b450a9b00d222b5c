//! How a task hears of a growth: by a plan, or by finding it.

use thiserror::Error;

use super::{Growth, Hold, Layout, LayoutEpoch, Offset, RawPartitionCount, Reading};

/// A task's layout cannot take this step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotNow {
    /// An order of a plan that is not the one known.
    #[error("the task holds for {holds:?} and was told of plan {epoch}: ask for the plan anew")]
    OtherPlan {
        /// What it holds for, if it does.
        holds: Option<Hold>,
        /// The epoch of the order.
        epoch: LayoutEpoch,
    },
    /// A growth from another count than the one known.
    #[error(
        "the task reads a topic of {known} partitions and was told of one that had {from}: ask for the count anew"
    )]
    OtherCount {
        /// The count known.
        known: u32,
        /// The count before the growth.
        from: u32,
    },
    /// The growth before is not settled.
    #[error(
        "the task still reads both placements of the last growth: wait until its tails have ended"
    )]
    Unsettled,
}

impl Reading {
    /// Holds the frontier for a plan, and leaves what the growth moves elsewhere. The hold counts once an entry with it is durable.
    ///
    /// # Errors
    /// If the task is not on the plan's old count, or knows of a later plan.
    pub fn announce(&mut self, epoch: LayoutEpoch, growth: Growth) -> Result<(), NotNow> {
        let (known, left, older) = match self.stored.layout {
            Layout::Steady { count, grown_from } => (count, None, grown_from),
            Layout::Ahead {
                growth: known,
                hold,
                left_from,
                grown_from,
            } => {
                if let Hold::Plan(other) = hold
                    && other > epoch
                {
                    return Err(self.other_plan(epoch));
                }
                (known.from(), left_from, grown_from)
            }
            Layout::Through { .. } => return Err(NotNow::Unsettled),
        };
        if known != growth.from() {
            return Err(other_count(known, growth));
        }
        self.hold(growth, Hold::Plan(epoch), left, older);
        Ok(())
    }

    /// The plan was given up before the topic grew: the frontier moves again.
    ///
    /// # Errors
    /// If the task does not hold for this plan.
    pub fn undo(&mut self, epoch: LayoutEpoch) -> Result<(), NotNow> {
        match self.stored.layout {
            Layout::Ahead {
                growth,
                hold,
                left_from: None,
                grown_from,
            } if hold == Hold::Plan(epoch) => {
                self.stored.layout = Layout::Steady {
                    count: growth.from(),
                    grown_from,
                };
                Ok(())
            }
            Layout::Ahead { .. } | Layout::Steady { .. } | Layout::Through { .. } => {
                Err(self.other_plan(epoch))
            }
        }
    }

    /// The topic was found to have grown by another hand.
    ///
    /// # Errors
    /// If the growth is not one from the count known.
    pub fn found(&mut self, growth: Growth) -> Result<(), NotNow> {
        match self.stored.layout {
            Layout::Steady { count, grown_from } if count == growth.from() => {
                self.hold(growth, Hold::Found, None, grown_from);
                Ok(())
            }
            Layout::Ahead { growth: known, .. } if known == growth => Ok(()),
            Layout::Steady { count, .. } => Err(other_count(count, growth)),
            Layout::Ahead { growth: known, .. } => Err(other_count(known.from(), growth)),
            Layout::Through { .. } => Err(NotNow::Unsettled),
        }
    }

    fn hold(
        &mut self,
        growth: Growth,
        hold: Hold,
        left_from: Option<Offset>,
        grown_from: Option<RawPartitionCount>,
    ) {
        self.stored.layout = Layout::Ahead {
            growth,
            hold,
            left_from,
            grown_from,
        };
    }

    fn other_plan(&self, epoch: LayoutEpoch) -> NotNow {
        NotNow::OtherPlan {
            holds: self.stored.hold(),
            epoch,
        }
    }
}

fn other_count(known: RawPartitionCount, growth: Growth) -> NotNow {
    NotNow::OtherCount {
        known: known.get(),
        from: growth.from().get(),
    }
}
