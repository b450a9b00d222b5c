//! Running values of aggregates, one column of them per aggregate and window.

mod accumulator;
mod cells;
mod stored;

pub(crate) use accumulator::{Accumulator, Refusal};
