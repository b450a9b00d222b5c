//! The assignment's file, looked at every second: a mounted ConfigMap is exchanged as a whole.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use turbine_crds::assignment::AssignmentDocument;

use crate::worker::Worker;

const INTERVAL: Duration = Duration::from_secs(1);

/// Offers every new content of the file to the worker, until the worker drains.
pub(super) fn watch(worker: &Arc<Worker>, file: &PathBuf) {
    let mut last: Option<Result<String, std::io::ErrorKind>> = None;
    while !worker.draining() {
        let read = std::fs::read_to_string(file).map_err(|error| error.kind());
        if last.as_ref() != Some(&read) {
            match &read {
                Ok(text) => offer(worker, text),
                Err(error) => {
                    tracing::warn!(file = %file.display(), %error, "no assignment can be read");
                }
            }
            last = Some(read);
        }
        std::thread::sleep(INTERVAL);
    }
}

fn offer(worker: &Worker, text: &str) {
    match serde_json::from_str::<AssignmentDocument>(text) {
        Ok(document) => match worker.offer(document) {
            Ok(_) => {}
            Err(refusal) => tracing::warn!(%refusal, "the assignment in the file is not run"),
        },
        Err(error) => tracing::error!(%error, "the assignment's file holds no assignment"),
    }
}
