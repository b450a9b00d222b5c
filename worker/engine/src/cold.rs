use std::ops::ControlFlow;

use thiserror::Error;

/// Shown a key and its value; says whether to go on.
pub type ShowPane<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// The store of checkpoints, as the engine reads panes that are not in memory. It answers as the
/// last checkpoint left it: a pane that changed since then is never cold.
pub trait ColdPanes {
    /// Why the store cannot be read. A pane that cannot be read is never taken for one that is
    /// not there.
    type Error;

    /// Looks up distinct keys, which ascend, and shows each value with the index of its key.
    /// What is not shown is not stored.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn get_many(
        &self,
        keys: &[&[u8]],
        show: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), Self::Error>;

    /// Shows keys and values from `from` on and below `to` (none: to the end), ascending, until
    /// `show` breaks.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn scan(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        show: &mut ShowPane<'_>,
    ) -> Result<(), Self::Error>;
}

/// Stands for the store where every pane is in memory: the pipeline was made by
/// [`crate::Pipeline::new`], and nothing was evicted.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllLive;

/// Something was to be read although every pane is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("panes are cold, but no store was given to read them from; this is a bug of the worker")]
pub struct NothingCold;

impl ColdPanes for AllLive {
    type Error = NothingCold;

    fn get_many(&self, _: &[&[u8]], _: &mut dyn FnMut(usize, &[u8])) -> Result<(), NothingCold> {
        Err(NothingCold)
    }

    fn scan(&self, _: &[u8], _: Option<&[u8]>, _: &mut ShowPane<'_>) -> Result<(), NothingCold> {
        Err(NothingCold)
    }
}
