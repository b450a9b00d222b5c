//! JSON messages to Arrow batches.
//!
//! Strict on purpose: nothing is converted behind the user's back. Each message is checked whole,
//! the first fault names it, and a bad message leaves no half row, so the messages around it keep
//! their places.

mod columns;
mod fault;
mod json;
mod misplaced;
mod shape;
mod time;

pub use fault::RecordFault;
pub use json::{Decoded, JsonDecoder, MAX_NESTING};
pub use misplaced::Misplaced;
