//! The broker: one transactional id, the group's offset with its receipt, and what readers of committed records see.

use turbine_protocol::CommittedReceipt;

use crate::volume::Folded;

/// A transaction that is not decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Open {
    pub(crate) outputs: Folded,
    pub(crate) offset: Option<Sent>,
    /// The call to commit is on its way and may still arrive.
    pub(crate) on_its_way: bool,
}

/// An offset with its receipt, and who sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Sent {
    pub(crate) committed: CommittedReceipt,
    pub(crate) by: usize,
    pub(crate) position: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Broker {
    /// The producer epoch that may write.
    pub(crate) fence: u8,
    pub(crate) open: Option<Open>,
    /// A committed offset that readers of the group's offsets do not see yet.
    pub(crate) unsettled: Option<CommittedReceipt>,
    pub(crate) committed: Option<CommittedReceipt>,
    /// Exactly once: in the order of their transactions.
    pub(crate) outputs: Folded,
    /// At least once: the records whose outputs are there; how often does not matter.
    pub(crate) seen: u16,
    /// Up to where outputs and offsets were committed, whatever became of the group's offset since.
    pub(crate) truth: u8,
}

impl Broker {
    pub(crate) fn hears(&self, fence: u8) -> bool {
        fence == self.fence
    }

    pub(crate) fn transaction(&mut self) -> &mut Open {
        self.open.get_or_insert(Open {
            outputs: Folded::default(),
            offset: None,
            on_its_way: false,
        })
    }

    /// The transaction is committed, if there is one; a second call after that finds nothing to do.
    pub(crate) fn commit(&mut self) -> Option<Sent> {
        let open = self.open.take()?;
        self.outputs.extend(open.outputs);
        let sent = open.offset?;
        self.settle();
        self.unsettled = Some(sent.committed);
        self.truth = sent.position;
        Some(sent)
    }

    pub(crate) fn settle(&mut self) {
        self.committed = self.unsettled.take().or(self.committed);
    }

    /// A producer takes the id: what is open is aborted, and whoever had the id is fenced.
    pub(crate) fn take_over(&mut self) -> u8 {
        self.open = None;
        self.fence += 1;
        self.fence
    }

    /// Whether an asked-for offset has to wait for a transaction to end.
    pub(crate) fn pending(&self) -> bool {
        self.unsettled.is_some() || self.open.is_some_and(|open| open.offset.is_some())
    }
}
