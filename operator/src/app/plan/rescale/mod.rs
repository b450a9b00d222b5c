//! The plan of a change of the layout: what is known in, the next record or the next acts out.
//!
//! Two rules make it safe against a crash, a second operator and an old view. What follows from a
//! record is done only by a later pass that read the record, so [`Next`] holds a record or acts, never
//! both. And before anything follows from it, a record is on the volumes' claims, so that a status that was
//! emptied is made again from there, and a status or a view that is older than the claims is followed by nothing but the claims' record.

mod advance;
mod checks;
mod closing;
mod dry_run;
mod each;
mod growth;
mod journal;
mod movement;
mod moving;
mod next;
mod progress;
mod refusal;
mod release;
mod request;
mod step;
mod target;
#[cfg(test)]
mod tests;
mod wait;
mod world;

pub use checks::{refusals, warnings};
pub use closing::proposal_due;
pub use dry_run::{DryRun, dry_run};
pub use journal::{DamagedPlan, check};
pub use movement::{Move, moves};
pub use next::{Act, Journal, Next, decide, replicas};
pub use progress::{blocked, shown};
pub use refusal::{Refusal, Warning};
pub use step::{next as next_steps, table as step_table};
pub use target::{Target, target};
pub use wait::Wait;
pub use world::{
    BrokerFacts, ClaimFacts, CopyAhead, Hold, KafkaRights, Manifest, PodFacts, ReceiptFacts,
    SetFacts, StopWord, TaskWord, Wanted, WantedSubscription, WorkerWord, World,
};
