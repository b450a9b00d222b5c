use std::collections::BTreeMap;

use thiserror::Error;
use turbine_crds::assignment::{AssignedTask, AssignmentDocument};
use turbine_keygroups::RawPartitionCount;
use uuid::Uuid;

/// Name of the one pod of a laptop.
pub const LOCAL_POD: &str = "local";

/// A kept layout that the app no longer fits.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The kept state belongs to another app.
    #[error(
        "the state folder belongs to app `{found}`, the file names `{expected}`: give each app a folder of its own"
    )]
    OtherApp {
        /// App of the folder.
        found: String,
        /// App of the file.
        expected: String,
    },
    /// A partition count changed under kept state.
    #[error(
        "the input of subscription `{subscription}` has {found} partitions, its state was made \
         with {kept}: state does not follow a change of the count yet; start with an empty state \
         folder and another `appId`"
    )]
    Rescaled {
        /// The subscription.
        subscription: String,
        /// Count of the kept layout.
        kept: i32,
        /// Count at the broker.
        found: u32,
    },
    /// A count beyond what the document can say.
    #[error("subscription `{subscription}` has {found} partitions, which is too many")]
    TooMany {
        /// The subscription.
        subscription: String,
        /// Count at the broker.
        found: u32,
    },
}

/// The assignment of everything to the one pod. Kept stores keep their epochs; a change of the set
/// of tasks makes a new layout, and what is new in it has stores of that layout.
///
/// # Errors
/// If the kept layout is of another app or of other counts.
pub fn next_document(
    app_id: &str,
    counts: &BTreeMap<String, RawPartitionCount>,
    kept: Option<AssignmentDocument>,
    fresh_lineage: impl FnOnce() -> Uuid,
) -> Result<AssignmentDocument, LayoutError> {
    if let Some(kept) = &kept
        && kept.app_id != app_id
    {
        return Err(LayoutError::OtherApp {
            found: kept.app_id.clone(),
            expected: app_id.to_owned(),
        });
    }
    let epoch = kept.as_ref().map_or(1, |kept| kept.epoch + 1);
    let mut tasks = Vec::new();
    for (subscription, count) in counts {
        let partitions = i32::try_from(count.get()).map_err(|_| LayoutError::TooMany {
            subscription: subscription.clone(),
            found: count.get(),
        })?;
        let kept = kept
            .iter()
            .flat_map(|kept| &kept.tasks)
            .find(|task| task.subscription == *subscription);
        if let Some(kept) = kept
            && kept.partitions != partitions
        {
            return Err(LayoutError::Rescaled {
                subscription: subscription.clone(),
                kept: kept.partitions,
                found: count.get(),
            });
        }
        let store_epoch = kept.map_or(epoch, |kept| kept.store_epoch);
        tasks.extend((0..partitions).map(|partition| AssignedTask {
            subscription: subscription.clone(),
            partition,
            partitions,
            store_epoch,
            pod: LOCAL_POD.to_owned(),
        }));
    }
    Ok(match kept {
        Some(kept) if kept.tasks == tasks => kept,
        Some(kept) => AssignmentDocument {
            epoch,
            tasks,
            ..kept
        },
        None => AssignmentDocument {
            app_id: app_id.to_owned(),
            lineage: fresh_lineage().hyphenated().to_string(),
            epoch,
            tasks,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, u32)]) -> BTreeMap<String, RawPartitionCount> {
        of.iter()
            .map(|(name, count)| ((*name).to_owned(), (*count).try_into().unwrap()))
            .collect()
    }

    fn next(
        of: &[(&str, u32)],
        kept: Option<AssignmentDocument>,
    ) -> Result<AssignmentDocument, LayoutError> {
        next_document("a", &counts(of), kept, || Uuid::from_u128(7))
    }

    #[test]
    fn the_same_app_again_is_the_same_layout() {
        let first = next(&[("s", 12)], None).unwrap();
        assert_eq!((first.epoch, first.tasks.len()), (1, 12));
        assert_eq!(next(&[("s", 12)], Some(first.clone())), Ok(first));
    }

    #[test]
    fn a_new_subscription_is_a_new_layout_and_leaves_the_others_stores() {
        let first = next(&[("s", 2)], None).unwrap();
        let second = next(&[("r", 1), ("s", 2)], Some(first.clone())).unwrap();
        assert_eq!((second.epoch, &second.lineage), (2, &first.lineage));
        let epochs: Vec<_> = second
            .tasks
            .iter()
            .map(|task| (&*task.subscription, task.store_epoch))
            .collect();
        assert_eq!(epochs, [("r", 2), ("s", 1), ("s", 1)]);
    }

    #[test]
    fn other_counts_and_other_apps_are_refused() {
        let first = next(&[("s", 2)], None).unwrap();
        assert!(matches!(
            next(&[("s", 4)], Some(first.clone())),
            Err(LayoutError::Rescaled {
                kept: 2,
                found: 4,
                ..
            })
        ));
        assert!(matches!(
            next_document("b", &counts(&[("s", 2)]), Some(first), || Uuid::from_u128(
                7
            )),
            Err(LayoutError::OtherApp { .. })
        ));
    }
}
