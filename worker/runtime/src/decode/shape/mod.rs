//! A guess at the next message: records of one topic are mostly alike but for their values.
//!
//! What stands between the values is compared as a whole, so no byte of it is parsed again. A guess
//! that fails costs little and leaves nothing; the general parser then decides. A guess never
//! accepts what that one refuses and never yields another value.

mod learn;
mod scan;
mod skeleton;

use skeleton::Skeleton;

use super::columns::{self, Column};

/// Most skeletons that are tried for one message.
const KNOWN: usize = 8;
/// Most skeletons that wait for a second message of their kind.
const SEEN_ONCE: usize = 8;
/// Misses are counted over so many messages.
const WINDOW: u32 = 1_000;
/// More misses than this in a window, and guessing costs more than it saves.
const MISSES: u32 = 300;
/// How many messages pass before the next try.
const REST: u32 = 20_000;

/// The skeletons of one input.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    /// The last hit first.
    known: Vec<Skeleton>,
    /// Candidates, the newest last.
    seen_once: Vec<Skeleton>,
    tried: u32,
    missed: u32,
    /// Messages that go to the general parser unseen.
    resting: u32,
}

impl Shapes {
    /// Reads the message as row `row`, if it has one of the known skeletons; else nothing of it is
    /// taken.
    pub(super) fn read(&mut self, message: &[u8], columns: &mut [Column], row: usize) -> bool {
        if self.resting > 0 {
            self.resting -= 1;
            return false;
        }
        self.tried += 1;
        if self.tried > WINDOW {
            (self.tried, self.missed) = (1, 0);
        }
        for at in 0..self.known.len() {
            if self.known[at].read(message, columns).is_some() {
                if at > 0 {
                    self.known[..=at].rotate_right(1);
                }
                return true;
            }
            columns::truncate(columns, row);
        }
        self.missed += 1;
        if self.missed > MISSES {
            (self.tried, self.missed, self.resting) = (0, 0, REST);
        }
        false
    }

    /// Looks at a message that was missed and that the general parser has accepted. Its skeleton is
    /// known from the second message on.
    pub(super) fn learn(&mut self, message: &[u8], columns: &[Column]) {
        if self.resting > 0 {
            return;
        }
        let Some(skeleton) = learn::skeleton(message, columns) else {
            return;
        };
        if let Some(at) = self.seen_once.iter().position(|one| *one == skeleton) {
            let skeleton = self.seen_once.remove(at);
            self.known.truncate(KNOWN - 1);
            self.known.insert(0, skeleton);
        } else {
            if self.seen_once.len() == SEEN_ONCE {
                self.seen_once.remove(0);
            }
            self.seen_once.push(skeleton);
        }
    }
}

#[cfg(test)]
mod tests;
