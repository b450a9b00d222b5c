//! What makes a checkpoint real: one document, written last, that names every file with its size and checksum.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use turbine_protocol::{EntryChecksum, EntryNumber, Frontier, Position, StoreIdentity};

use super::refusal::Refusal;

/// Version of the manifest's form that this program writes. It reads no newer one.
pub const MANIFEST_VERSION: u64 = 1;
/// Without this file `RocksDB` sees no store.
const CURRENT: &str = "CURRENT";

/// Number of a checkpoint of one store, one more than the highest that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sequence(pub u64);

impl Sequence {
    /// As a number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    /// The number after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The name of the manifest with this number. Names sort as the numbers do.
    #[must_use]
    pub fn manifest_name(self) -> String {
        format!("{:020}.json", self.0)
    }

    /// The number in a manifest's name; none if it is no such name.
    #[must_use]
    pub fn of_manifest(name: &str) -> Option<Self> {
        let digits = name.strip_suffix(".json")?;
        let number = digits.parse().ok().map(Self)?;
        (number.manifest_name() == name).then_some(number)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// SHA-256 of a file's content, in hexadecimal as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Checksum([u8; 32]);

impl Checksum {
    /// The checksum of bytes at hand.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub(crate) fn finish(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    bytes_of_hex(text)?.try_into().ok()
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let lower = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    if !digits.len().is_multiple_of(2) || !digits.iter().all(lower) {
        return None;
    }
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

impl FromStr for Checksum {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        hex(text)
            .map(Self)
            .ok_or_else(|| format!("`{text}` is no SHA-256 in hexadecimal"))
    }
}

impl TryFrom<String> for Checksum {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Checksum> for String {
    fn from(checksum: Checksum) -> Self {
        checksum.to_string()
    }
}

/// The name of a file in a store's folder. It never leads out of the folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileName(String);

impl FileName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for FileName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if text.is_empty() || text.starts_with('.') || text.len() > 128 || !text.bytes().all(legal)
        {
            return Err(format!("`{text}` is no name of a store's file"));
        }
        Ok(Self(text))
    }
}

impl From<FileName> for String {
    fn from(name: FileName) -> Self {
        name.0
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Table files hold keys, and are never written again.
pub(crate) fn is_table(file: &Path) -> bool {
    file.extension().is_some_and(|kind| kind == "sst")
}

/// The first and last key of a file, in hexadecimal as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRange {
    /// The smallest key.
    #[serde(with = "hex_bytes")]
    pub smallest: Vec<u8>,
    /// The largest key.
    #[serde(with = "hex_bytes")]
    pub largest: Vec<u8>,
}

mod hex_bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        super::bytes_of_hex(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not hexadecimal")))
    }
}

/// One file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManifestFile {
    /// Its name in the store's folder.
    pub name: FileName,
    /// Its length in bytes.
    pub size: u64,
    /// Of its content.
    pub sha256: Checksum,
    /// Its keys, if the store could tell; only of table files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeyRange>,
}

impl ManifestFile {
    /// Under which name the content is kept. Files of the same name and content are kept once.
    #[must_use]
    pub fn object_name(&self) -> String {
        format!("{}-{}", self.name, self.sha256)
    }
}

/// What a checkpoint holds and how far the state in it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// Its number among the checkpoints of the store.
    pub sequence: Sequence,
    /// Whose state it is.
    pub identity: StoreIdentity,
    /// Number of the last commit in it; 0 if there was none.
    pub entry: EntryNumber,
    /// Checksum of that commit.
    pub entry_checksum: EntryChecksum,
    /// The positions of all cursors.
    pub positions: Vec<Position>,
    /// How far event time had closed.
    pub frontier: Frontier,
    /// That commit counted once the broker had its receipt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_transaction: bool,
    /// When it was made, in milliseconds since the Unix epoch.
    pub made_at_ms: i64,
    /// All its files.
    pub files: Vec<ManifestFile>,
}

/// The form on disk: the version before all else, and a checksum over the rest.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    format_version: u64,
    sha256: Checksum,
    checkpoint: &'a Value,
}

fn checksum(version: u64, checkpoint: &Value) -> Checksum {
    Checksum::of(format!("{version}\n{checkpoint}").as_bytes())
}

fn damaged(detail: impl ToString) -> Refusal {
    Refusal::Damaged {
        detail: detail.to_string(),
    }
}

impl Manifest {
    /// Bytes of all files together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// The document that is stored.
    ///
    /// # Errors
    /// Never for what this program can build; the text of the JSON library otherwise.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let checkpoint = serde_json::to_value(self)?;
        serde_json::to_vec_pretty(&Document {
            format_version: MANIFEST_VERSION,
            sha256: checksum(MANIFEST_VERSION, &checkpoint),
            checkpoint: &checkpoint,
        })
    }

    /// Reads a document that is stored under the name of `sequence`.
    ///
    /// # Errors
    /// [`Refusal::NewerFormat`] if a newer program wrote it, [`Refusal::Damaged`] if it is not what was written.
    pub fn from_json(sequence: Sequence, stored: &[u8]) -> Result<Self, Refusal> {
        let document: Value = serde_json::from_slice(stored).map_err(damaged)?;
        let version = document.get("formatVersion").and_then(Value::as_u64);
        let version = version.ok_or_else(|| damaged("it has no format version"))?;
        let checkpoint = document
            .get("checkpoint")
            .ok_or_else(|| damaged("it has no checkpoint"))?;
        let said = document.get("sha256").and_then(Value::as_str);
        // The same for all versions, so that a flipped bit in the version is not taken for a newer program.
        if said != Some(checksum(version, checkpoint).to_string().as_str()) {
            return Err(damaged("its checksum does not fit"));
        }
        if version > MANIFEST_VERSION {
            return Err(Refusal::NewerFormat {
                found: version,
                known: MANIFEST_VERSION,
            });
        }
        let manifest: Self = serde_json::from_value(checkpoint.clone()).map_err(damaged)?;
        if manifest.sequence != sequence {
            return Err(damaged(format!(
                "it says it is number {}",
                manifest.sequence
            )));
        }
        manifest.checked()
    }

    fn checked(self) -> Result<Self, Refusal> {
        let mut names = BTreeSet::new();
        if let Some(twice) = self.files.iter().find(|file| !names.insert(&file.name)) {
            return Err(damaged(format!("it names `{}` twice", twice.name)));
        }
        if !names.iter().any(|name| name.as_str() == CURRENT) {
            return Err(damaged(format!("it has no file `{CURRENT}`")));
        }
        let total = self
            .files
            .iter()
            .try_fold(0_u64, |sum, file| sum.checked_add(file.size));
        if total.is_none() {
            return Err(damaged("its sizes are beyond every volume"));
        }
        Ok(self)
    }
}
