//! What a task does at its start.

use super::inputs::Gap;
use crate::entry::EntryChecksum;
use crate::epochs::EntryNumber;
use crate::offset::Offset;
use crate::receipt::CommittedReceipt;
use crate::refusal::{NotRecovered, StartRefusal};

/// Where the offset of a fresh start comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreshOrigin {
    /// The input's `startFrom`.
    StartFrom,
    /// An earlier start committed it and got no further.
    EarlierStart,
    /// Somebody committed it for this group, without a receipt.
    CommittedOffset,
}

/// Something worth telling about a resumed task; it does not stop it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The store lies behind the receipt: an older copy of the volume. State is rebuilt from the
    /// log; results between the two offsets are written a second time.
    OlderStore {
        /// Where the store stands.
        store: Offset,
        /// Where the receipt stands.
        receipt: Offset,
    },
    /// Store and receipt have the same number and another content: an older copy of the volume has gone on, and a crash fell
    /// between its entry and the receipt. The store counts; results between the two offsets are written a second time.
    OtherHistory {
        /// Where the store stands.
        store: Offset,
        /// Where the receipt stands.
        receipt: Offset,
    },
    /// Somebody set the group's offset, and the store stands elsewhere. The store counts: the next commit overwrites it.
    OffsetOverwritten {
        /// Where the store stands.
        store: Offset,
        /// What was set.
        group: Offset,
    },
    /// The store has an entry whose receipt was never committed: a crash fell between the two. It is committed before anything
    /// else, since where nothing more comes to read the group would show a lag that is not there.
    ReceiptLags {
        /// Where the store stands.
        store: Offset,
        /// Where the receipt stands.
        receipt: Offset,
    },
    /// The group's offset is gone, as after a suspension longer than it is kept. The store was stopped cleanly, so
    /// nothing of it is in doubt. Its receipt is committed anew before anything else.
    ReceiptExpired,
}

/// A store that is older than what was committed exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OlderStore {
    /// Last commit of the store.
    pub number: EntryNumber,
    /// Where it stands.
    pub position: Offset,
    /// The last commit, and where it stands: its number, checksum and frontier.
    pub committed: CommittedReceipt,
}

impl OlderStore {
    /// The offsets between.
    #[must_use]
    pub fn gap(&self) -> u64 {
        self.committed.offset.since(self.position)
    }

    /// What the store says of itself once it is recovered, with the state that belongs to it: from then on it agrees with
    /// the broker.
    #[must_use]
    pub fn settled(&self) -> Settled {
        Settled {
            number: self.committed.receipt.number,
            checksum: self.committed.receipt.checksum,
            position: self.committed.offset,
            by_transaction: true,
        }
    }

    /// Why a task stops in front of it.
    #[must_use]
    pub fn refusal(&self, why: NotRecovered) -> StartRefusal {
        StartRefusal::StoreBehind {
            store: self.number,
            store_offset: self.position,
            receipt: self.committed.receipt.number,
            receipt_offset: self.committed.offset,
            why,
        }
    }
}

/// Where a store stands that was recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// Number of its last commit.
    pub number: EntryNumber,
    /// Checksum of its last commit.
    pub checksum: EntryChecksum,
    /// The offset of the own partition that it reads next.
    pub position: Offset,
    /// The broker has the receipt of it.
    pub by_transaction: bool,
}

/// What becomes of a prepared entry before the task reads on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreparedFate {
    /// There is none.
    None,
    /// Its receipt was committed: it counts.
    Apply,
    /// Its receipt was not: it never counted, and its number is given anew. Cancel it durably
    /// before that.
    Cancel,
}

/// What a task does at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartDecision {
    /// Goes on with its store.
    Resume {
        /// Reads on from here.
        offset: Offset,
        /// What to do with a prepared entry first.
        prepared: PreparedFate,
        /// What to tell.
        notice: Option<Notice>,
        /// What the state lacks from here on. The store says so with the next commit: until then it stands in front of the
        /// gap, as the receipt does. What is committed behind it is of another history.
        gap: Option<Gap>,
    },
    /// Reads from the store's position up to the committed offset without any output, takes frontier and closed-to from
    /// the receipt, and drops without a word what they close. Then the store takes the receipt's number and checksum as
    /// one with that state, durably, before anything else is committed: it agrees with the broker again. Until then
    /// nothing is written to the broker, and a crash begins it anew. What an older copy of the store has in the journal, a
    /// prepared entry among it, is passed over from then on. Where the same records do not give what was committed it stops.
    Replay(OlderStore),
    /// Goes on from the committed offset with the state as it is, and says what is missing. The store takes the
    /// receipt's number and checksum as after a replay.
    Accept(OlderStore),
    /// Makes a new store.
    Fresh {
        /// Reads from here.
        offset: Offset,
        /// Why from here.
        origin: FreshOrigin,
        /// A store of another lineage lies in the place and is removed first.
        discard_store: bool,
        /// What the state lacks from the beginning.
        gap: Option<Gap>,
    },
    /// Does not start.
    Refuse(StartRefusal),
}
