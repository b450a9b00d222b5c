//! How far windows had closed for the keys that came from a partition of an older count.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use turbine_keygroups::{Partition, RawPartitionCount};

use super::growth::RecordKey;
use crate::entry::Frontier;

/// What closed before this task had the keys: per older count, per partition of it. A task's frontier begins at the lowest of
/// its sources, so a window that closed in another of them would open again for a late row, and its result come twice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClosedTo(Vec<Layer>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Layer {
    count: RawPartitionCount,
    to: BTreeMap<Partition, Frontier>,
}

impl ClosedTo {
    /// Remembers that the keys which `count` put into `partition` had closed so far.
    pub fn remember(&mut self, count: RawPartitionCount, partition: Partition, to: Frontier) {
        if to.0.is_none() {
            return;
        }
        let at = match self.0.iter().position(|layer| layer.count == count) {
            Some(at) => at,
            None => {
                self.0.push(Layer {
                    count,
                    to: BTreeMap::new(),
                });
                self.0.len() - 1
            }
        };
        let closed = self.0[at].to.entry(partition).or_default();
        *closed = to.max(*closed);
    }

    /// Takes over what another task remembers.
    pub fn inherit(&mut self, other: &Self) {
        for layer in &other.0 {
            for (partition, to) in &layer.to {
                self.remember(layer.count, *partition, *to);
            }
        }
    }

    /// How far windows of this key had closed. A null key's never moved: they are those of `own`, the task's partition.
    #[must_use]
    pub fn of(&self, key: RecordKey, own: Partition) -> Frontier {
        let layers = self.0.iter();
        layers
            .filter_map(|layer| layer.to.get(&key.placed_by(layer.count).unwrap_or(own)))
            .max()
            .copied()
            .unwrap_or_default()
    }

    /// Forgets what the frontier has passed, which says the same from now on.
    pub fn forget_passed(&mut self, frontier: Frontier) {
        for layer in &mut self.0 {
            layer.to.retain(|_, to| *to > frontier);
        }
        self.0.retain(|layer| !layer.to.is_empty());
    }

    /// Whether the frontier has passed everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rescale::growth::tests::partition;

    fn count(count: u32) -> RawPartitionCount {
        count.try_into().unwrap()
    }

    #[test]
    fn a_key_is_looked_up_by_each_older_count_until_the_frontier_has_passed() {
        let mut closed = ClosedTo::default();
        closed.remember(count(2), partition(1), Frontier(Some(50)));
        closed.remember(count(4), partition(3), Frontier(Some(70)));
        closed.remember(count(4), partition(1), Frontier(None));
        let own = partition(3);
        let of = |closed: &ClosedTo, key| closed.of(key, own).0;
        // 7 is 1 of 2 and 3 of 4; 5 is 1 of 2 and 1 of 4; 4 is 0 of both.
        assert_eq!(of(&closed, RecordKey::Hash(7)), Some(70));
        assert_eq!(of(&closed, RecordKey::Hash(5)), Some(50));
        assert_eq!(of(&closed, RecordKey::Hash(4)), None);
        assert_eq!(of(&closed, RecordKey::Null), Some(70));
        closed.forget_passed(Frontier(Some(50)));
        assert_eq!(of(&closed, RecordKey::Hash(5)), None);
        assert_eq!(of(&closed, RecordKey::Hash(7)), Some(70));
        closed.forget_passed(Frontier(Some(70)));
        assert!(closed.is_empty());
    }

    #[test]
    fn the_higher_word_counts() {
        let mut closed = ClosedTo::default();
        closed.remember(count(2), partition(0), Frontier(Some(9)));
        let mut other = ClosedTo::default();
        other.remember(count(2), partition(0), Frontier(Some(5)));
        closed.inherit(&other);
        assert_eq!(
            closed.of(RecordKey::Hash(0), partition(0)),
            Frontier(Some(9))
        );
    }
}
