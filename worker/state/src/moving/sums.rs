//! What a store holds, as numbers that do not depend on the order in which it is read.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use sha2::{Digest, Sha256};
use turbine_keygroups::Group;

use crate::error::StateError;
use crate::reader::StoreReader;

/// Keys after which progress is told.
const STRETCH: u64 = 65_536;

/// Keys of one group: how many, and a checksum over keys and values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupSum {
    /// How many keys.
    pub keys: u64,
    /// The sum of 128 bits of the SHA-256 of each key with its value, so that it is the same in whatever order they come.
    pub checksum: u128,
}

impl GroupSum {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut hasher = Sha256::new();
        // With the length, so that a byte cannot pass from the key to the value unseen.
        hasher.update(u64::try_from(key.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(key);
        hasher.update(value);
        let digest: [u8; 32] = hasher.finalize().into();
        let mut half = [0; 16];
        half.copy_from_slice(&digest[..16]);
        self.keys += 1;
        self.checksum = self.checksum.wrapping_add(u128::from_be_bytes(half));
    }

    fn merge(&mut self, other: Self) {
        self.keys += other.keys;
        self.checksum = self.checksum.wrapping_add(other.checksum);
    }
}

/// Keys of a store, by group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupSums {
    groups: BTreeMap<Group, GroupSum>,
    /// The first key that names no group, if there is one.
    stray: Option<Vec<u8>>,
}

impl GroupSums {
    /// Adds a stored key and its value.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let prefix = key.first_chunk::<2>().copied();
        match prefix.and_then(Group::from_prefix) {
            Some(group) => self.groups.entry(group).or_default().add(key, value),
            None => {
                self.stray.get_or_insert_with(|| key.to_vec());
            }
        }
    }

    /// Reads a store through. `progress` is told how many keys it has read, from time to time.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(store: &StoreReader, mut progress: impl FnMut(u64)) -> Result<Self, StateError> {
        let mut sums = Self::default();
        let mut keys = 0_u64;
        store.scan(&[], &mut |key, value| {
            sums.add(key, value);
            keys += 1;
            if keys.is_multiple_of(STRETCH) {
                progress(keys);
            }
            ControlFlow::Continue(())
        })?;
        Ok(sums)
    }

    /// Adds those of another store.
    pub fn merge(&mut self, other: &Self, takes: impl Fn(Group) -> bool) {
        for (group, sum) in &other.groups {
            if takes(*group) {
                self.groups.entry(*group).or_default().merge(*sum);
            }
        }
    }

    /// By group; groups without keys are not there.
    pub fn iter(&self) -> impl Iterator<Item = (Group, GroupSum)> {
        self.groups.iter().map(|(group, sum)| (*group, *sum))
    }

    /// All keys of groups.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.groups.values().map(|sum| sum.keys).sum()
    }

    /// The first key that names no group, if there is one.
    #[must_use]
    pub fn stray(&self) -> Option<&[u8]> {
        self.stray.as_deref()
    }

    /// The groups in which the two differ, with the sum of each side.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<(Group, GroupSum, GroupSum)> {
        let mut all: BTreeMap<Group, (GroupSum, GroupSum)> = BTreeMap::new();
        for (group, sum) in self.iter() {
            all.entry(group).or_default().0 = sum;
        }
        for (group, sum) in other.iter() {
            all.entry(group).or_default().1 = sum;
        }
        all.into_iter()
            .filter(|(_, (own, others))| own != others)
            .map(|(group, (own, others))| (group, own, others))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use turbine_keygroups::KeyGroup;

    use super::*;

    fn sums<'a>(rows: impl Iterator<Item = &'a (Vec<u8>, Vec<u8>)>) -> GroupSums {
        let mut sums = GroupSums::default();
        for (key, value) in rows {
            sums.add(key, value);
        }
        sums
    }

    fn rows() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
        let row =
            (0_u16..960, any::<[u8; 3]>(), any::<[u8; 2]>()).prop_map(|(group, key, value)| {
                let group = Group::Keyed(KeyGroup::try_from(group).unwrap());
                ([&group.prefix()[..], &key].concat(), value.to_vec())
            });
        prop::collection::vec(row, 1..40)
    }

    proptest! {
        #[test]
        fn order_does_not_matter_and_every_byte_does(rows in rows(), at in any::<prop::sample::Index>(), bit in 0_u8..8) {
            let whole = sums(rows.iter());
            prop_assert_eq!(&sums(rows.iter().rev()), &whole);
            let mut changed = rows.clone();
            changed[at.index(rows.len())].1[0] ^= 1 << bit;
            prop_assert_eq!(sums(changed.iter()).differences(&whole).len(), 1);
            let fewer = sums(rows.iter().skip(1));
            prop_assert_eq!(fewer.differences(&whole).len(), 1);
            prop_assert_eq!(fewer.keys() + 1, whole.keys());
        }
    }

    #[test]
    fn a_byte_cannot_pass_from_the_key_to_the_value() {
        let sum = |key: &[u8], value: &[u8]| sums([(key.to_vec(), value.to_vec())].iter());
        assert_ne!(sum(&[0, 0, 1, 2], &[3]), sum(&[0, 0, 1], &[2, 3]));
    }

    #[test]
    fn a_key_of_no_group_is_told() {
        let mut sums = GroupSums::default();
        sums.add(&[0, 1, 7], &[]);
        assert_eq!(sums.stray(), Some(&[0, 1, 7][..]));
        assert_eq!(sums.keys(), 0);
    }
}
