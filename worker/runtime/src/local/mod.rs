//! What an operator and a cluster do for a worker, done by hand on one machine: the app from its
//! file, the topics, the assignment, and sample data.

mod app;
mod assignment;
mod generate;
mod patience;
mod print;
mod topics;

pub use app::{AppFileError, load};
pub use assignment::{LOCAL_POD, LayoutError, next_document};
pub use generate::Generator;
pub use patience::{Patience, waiting};
pub use print::print_results;
pub use topics::{TopicError, Topics};
