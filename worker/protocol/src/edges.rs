//! What the machines of a commit have in common.

use std::fmt::Debug;

use thiserror::Error;

/// An event that cannot follow a step; only a fault in the caller can bring it about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a commit at {step:?} cannot be met by {event:?}; this is a fault of the worker")]
pub struct NoSuchEdge<S, E> {
    /// Where the commit stood.
    pub step: S,
    /// What was said to have happened.
    pub event: E,
}

/// The edges as a table, for documents.
pub(crate) fn table<S: Copy + Debug, E: Copy + Debug, A: Debug>(
    steps: &[S],
    events: &[E],
    act: impl Fn(S) -> A,
    after: impl Fn(S, E) -> Result<S, NoSuchEdge<S, E>>,
) -> String {
    let (act, after) = (&act, &after);
    let rows = steps.iter().flat_map(|step| {
        events.iter().filter_map(move |event| {
            let next = after(*step, *event).ok()?;
            let act = act(*step);
            Some(format!("| {step:?} | {act:?} | {event:?} | {next:?} |\n"))
        })
    });
    std::iter::once("| step | act | event | next |\n|---|---|---|---|\n".to_owned())
        .chain(rows)
        .collect()
}
