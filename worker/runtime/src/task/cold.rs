//! Panes that are not in memory, read from the task's store.

use turbine_engine::{ColdPanes, ShowPane};
use turbine_state::{StateError, TaskState};

/// The store of a task, as its pipeline reads from it.
#[derive(Clone, Copy)]
pub(crate) struct Cold<'a>(pub(crate) &'a dyn TaskState);

impl ColdPanes for Cold<'_> {
    type Error = StateError;

    fn get_many(
        &self,
        keys: &[&[u8]],
        show: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), StateError> {
        self.0.get_many(keys, show)
    }

    fn scan(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        show: &mut ShowPane<'_>,
    ) -> Result<(), StateError> {
        self.0.scan(from, to, show)
    }
}
