//! Result tables to JSON records.

mod encode;
mod results;

pub use encode::{EncodeError, ResultEncoder, ResultTable};
