//! A look through a task's store: which keys in it belong to other partitions.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use thiserror::Error;
use turbine_crds::control::{ForeignKey, MOST_FOREIGN_KEYS, TaskPlacement, Verdict};
use turbine_engine::{PaneOwner, PaneOwners};
use turbine_protocol::Task;
use turbine_state::{StateError, TaskState};

/// A store that cannot be looked through.
#[derive(Debug, Error)]
pub enum LookError {
    /// It cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// It holds something that is no pane.
    #[error(transparent)]
    Pane(#[from] turbine_engine::StateError),
}

/// The answer of a task that cannot be looked through.
#[must_use]
pub fn refused(subscription: &str, partition: i32, why: String) -> TaskPlacement {
    TaskPlacement {
        refused: Some(why),
        ..nothing(subscription, partition)
    }
}

fn nothing(subscription: &str, partition: i32) -> TaskPlacement {
    TaskPlacement {
        subscription: subscription.to_owned(),
        partition,
        refused: None,
        verdict: Verdict::Unknown,
        misplaced_first: None,
        cleared: false,
        panes: 0,
        foreign_panes: 0,
        unknown_panes: 0,
        foreign: Vec::new(),
        more_foreign: false,
    }
}

/// A key as people can read it.
fn readable(key: Vec<u8>) -> String {
    String::from_utf8(key).unwrap_or_else(|error| {
        let digits: String = error
            .as_bytes()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        format!("0x{digits}")
    })
}

/// Panes after which a look says that it goes on.
const STRETCH: u64 = 65_536;

/// Looks through everything that a store has committed, and says now and then how many panes were
/// looked at. The verdict is left as it is.
///
/// # Errors
/// If the store cannot be read, or is damaged.
pub fn look(
    store: &dyn TaskState,
    owners: &PaneOwners,
    went_on: &mut dyn FnMut(u64),
) -> Result<TaskPlacement, LookError> {
    let task: Task = store.identity().task();
    let mut found = nothing(task.subscription.as_str(), task.partition.get());
    let mut foreign: BTreeMap<(u16, Option<Vec<u8>>, i32), u64> = BTreeMap::new();
    let mut damaged = None;
    store.scan(&[], None, &mut |key, _| {
        found.panes += 1;
        if found.panes.is_multiple_of(STRETCH) {
            went_on(found.panes);
        }
        match owners.owner(key) {
            Ok(PaneOwner::Own) => {}
            Ok(PaneOwner::Unknown) => found.unknown_panes += 1,
            Ok(PaneOwner::Foreign { group, key, owner }) => {
                found.foreign_panes += 1;
                let named = foreign.len();
                let key = (group.number(), key, owner.get());
                if let Some(panes) = foreign.get_mut(&key) {
                    *panes += 1;
                } else if named < MOST_FOREIGN_KEYS {
                    foreign.insert(key, 1);
                } else {
                    found.more_foreign = true;
                }
            }
            Err(error) => {
                damaged = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    if let Some(error) = damaged {
        return Err(error.into());
    }
    found.foreign = foreign
        .into_iter()
        .map(|((key_group, key, belongs_to), panes)| ForeignKey {
            key_group,
            key: key.map(readable),
            belongs_to,
            panes,
        })
        .collect();
    Ok(found)
}
