//! Everything that needs the real parts. One program, since linking one per subject takes longer than running it.

#[path = "e2e/api.rs"]
mod api;
#[path = "e2e/bad_records.rs"]
mod bad_records;
#[path = "e2e/crash_points.rs"]
mod crash_points;
#[path = "e2e/crashes.rs"]
mod crashes;
#[path = "e2e/end_to_end.rs"]
mod end_to_end;
#[path = "e2e/exactly_once.rs"]
mod exactly_once;
#[path = "e2e/growth.rs"]
mod growth;
#[path = "e2e/helm.rs"]
mod helm;
#[path = "e2e/misplaced.rs"]
mod misplaced;
#[path = "e2e/obstacles.rs"]
mod obstacles;
#[path = "e2e/operator.rs"]
mod operator;
#[path = "e2e/placement.rs"]
mod placement;
#[path = "e2e/reference.rs"]
mod reference;
#[path = "e2e/topics.rs"]
mod topics;
#[path = "e2e/worker.rs"]
mod worker;
