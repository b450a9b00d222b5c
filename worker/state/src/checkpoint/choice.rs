//! Which checkpoint is taken: the newest one that is this store's and has all its files.

use std::collections::BTreeMap;

use turbine_protocol::{Differences, StoreIdentity};

use super::manifest::{Manifest, Sequence};
use super::refusal::{Refusal, Refused};

/// Names and sizes of the files that are there, under their names in the place of checkpoints.
pub type Objects = BTreeMap<String, u64>;

/// A manifest that is there, as far as it could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The number in its name.
    pub sequence: Sequence,
    /// What it says.
    pub read: Result<Manifest, Refusal>,
}

/// What can be taken, and what cannot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// Checkpoints that fit and whose files are all there with their sizes, newest first.
    pub intact: Vec<Manifest>,
    /// The others, newest first.
    pub refused: Vec<Refused>,
}

impl Choice {
    /// Nothing is there at all: no checkpoint was ever made here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.intact.is_empty() && self.refused.is_empty()
    }
}

/// Divides what was found into what can be taken and what cannot.
#[must_use]
pub fn choose(found: &[Found], objects: &Objects, expected: &StoreIdentity) -> Choice {
    let mut found: Vec<_> = found.iter().collect();
    found.sort_by_key(|one| std::cmp::Reverse(one.sequence));
    let mut choice = Choice::default();
    for Found { sequence, read } in found {
        let judged = read
            .clone()
            .and_then(|manifest| fits(&manifest, expected).map(|()| manifest))
            .and_then(|manifest| complete(&manifest, objects).map(|()| manifest));
        match judged {
            Ok(manifest) => choice.intact.push(manifest),
            Err(refusal) => choice.refused.push(Refused {
                name: sequence.manifest_name(),
                refusal,
            }),
        }
    }
    choice
}

/// Whether a manifest is of the store that is expected.
pub(crate) fn fits(manifest: &Manifest, expected: &StoreIdentity) -> Result<(), Refusal> {
    let found = &manifest.identity;
    if found.format > expected.format {
        return Err(Refusal::NewerFormat {
            found: u64::from(found.format),
            known: u64::from(expected.format),
        });
    }
    let differences = found.differences(expected);
    if differences.is_empty() {
        Ok(())
    } else {
        Err(Refusal::Foreign {
            differences: Differences(differences),
        })
    }
}

fn complete(manifest: &Manifest, objects: &Objects) -> Result<(), Refusal> {
    for file in &manifest.files {
        let name = file.object_name();
        match objects.get(&name) {
            None => return Err(Refusal::MissingFile { file: name }),
            Some(found) if *found != file.size => {
                return Err(Refusal::WrongSize {
                    file: name,
                    found: *found,
                    expected: file.size,
                });
            }
            Some(_) => {}
        }
    }
    Ok(())
}
