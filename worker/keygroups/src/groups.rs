use std::fmt;

use serde::{Deserialize, Serialize};

use crate::murmur2::positive_hash;

/// How many key groups there are. Part of every stored format; not a setting.
pub const GROUP_COUNT: u16 = 960;

/// The mixed radix in which group numbers are reversed by [`rank`]; the digits' product is 960.
const RADIX: [u16; 8] = [2, 2, 2, 2, 2, 2, 3, 5];

/// Ranks are spread by this factor, so that the first byte of a prefix is used up as well.
pub(crate) const RANK_STRIDE: u16 = 64;

/// The prefix of the null group: the first one past rank 959.
const NULL_PREFIX: u16 = 0xF000;

/// One of the 960 key groups, `0..960`. The null group is not among them; see [`Group`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct KeyGroup(u16);

/// A number that is no key group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidKeyGroup(pub u16);

impl fmt::Display for InvalidKeyGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is no key group; key groups are 0 to 959", self.0)
    }
}

impl std::error::Error for InvalidKeyGroup {}

impl KeyGroup {
    /// The group's number, `0..960`.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// The group of a hash that already has its sign bit cleared.
    #[must_use]
    pub fn of_hash(positive_hash: u32) -> Self {
        // A remainder of 960 fits.
        #[allow(clippy::cast_possible_truncation)]
        Self((positive_hash % u32::from(GROUP_COUNT)) as u16)
    }

    /// The group at a rank; the inverse of [`rank`].
    pub fn at_rank(rank: u16) -> Result<Self, InvalidKeyGroup> {
        if rank >= GROUP_COUNT {
            return Err(InvalidKeyGroup(rank));
        }
        let mut rest = rank;
        let mut group = 0;
        for digit in RADIX.iter().rev() {
            group = group * digit + rest % digit;
            rest /= digit;
        }
        Ok(Self(group))
    }

    /// All 960, in order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..GROUP_COUNT).map(Self)
    }
}

impl TryFrom<u16> for KeyGroup {
    type Error = InvalidKeyGroup;

    fn try_from(number: u16) -> Result<Self, InvalidKeyGroup> {
        if number < GROUP_COUNT {
            Ok(Self(number))
        } else {
            Err(InvalidKeyGroup(number))
        }
    }
}

impl From<KeyGroup> for u16 {
    fn from(group: KeyGroup) -> u16 {
        group.0
    }
}

impl fmt::Display for KeyGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a record's state belongs to: a key group, or the null group, which every partition has
/// for itself and which never moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// The group of a key that is there, the empty key included.
    Keyed(KeyGroup),
    /// The group of records without a key.
    Null,
}

impl Group {
    /// The group of a key, or the null group for none.
    #[must_use]
    pub fn of(key: Option<&[u8]>) -> Self {
        key.map_or(Self::Null, |key| Self::Keyed(group_of(key)))
    }

    /// `0..960`, and 960 for the null group.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Keyed(group) => group.number(),
            Self::Null => GROUP_COUNT,
        }
    }

    /// The two bytes (big endian) that every stored key of this group begins with: the rank times
    /// 64, so that a group is one contiguous range and a doubling of the partition count moves
    /// one piece; `0xF000` for the null group.
    #[must_use]
    pub fn prefix(self) -> [u8; 2] {
        match self {
            Self::Keyed(group) => rank(group) * RANK_STRIDE,
            Self::Null => NULL_PREFIX,
        }
        .to_be_bytes()
    }

    /// The group that a stored key's first two bytes name; `None` if they name none.
    #[must_use]
    pub fn from_prefix(prefix: [u8; 2]) -> Option<Self> {
        match u16::from_be_bytes(prefix) {
            NULL_PREFIX => Some(Self::Null),
            other if other % RANK_STRIDE == 0 => {
                KeyGroup::at_rank(other / RANK_STRIDE).ok().map(Self::Keyed)
            }
            _ => None,
        }
    }
}

impl From<KeyGroup> for Group {
    fn from(group: KeyGroup) -> Self {
        Self::Keyed(group)
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyed(group) => group.fmt(f),
            Self::Null => f.write_str("null"),
        }
    }
}

/// The key group of a key's bytes.
#[must_use]
pub fn group_of(key: &[u8]) -> KeyGroup {
    KeyGroup::of_hash(positive_hash(key))
}

/// The group's place in stored order, `0..960`: its mixed-radix digits reversed, so that the
/// groups a partition owns lie together.
#[must_use]
pub fn rank(group: KeyGroup) -> u16 {
    let mut rest = group.number();
    let mut rank = 0;
    for digit in RADIX {
        rank = rank * digit + rest % digit;
        rest /= digit;
    }
    rank
}
