//! What a running task shows of itself.

use turbine_kafka::KafkaError;
use turbine_protocol::Offset;

use super::error::TaskError;
use super::life::{LINK_PATIENCE, Life};

impl Life<'_> {
    /// Shows where the task stands; once per batch.
    pub(super) fn publish(&mut self) {
        self.rates
            .publish(self.metrics, self.bad_records, self.setup.clock.monotonic());
        self.metrics
            .active_windows
            .set(i64::try_from(self.pipeline.open_windows()).unwrap_or(i64::MAX));
        // Before its first fetch the client does not know the end, or takes the log for empty.
        let end = self.reader.high_watermark().max(Some(self.log_end));
        let frontier = self.pipeline.clocks().frontier;
        let committed = match self.open {
            None => Some(self.position),
            Some(_) => self
                .store
                .progress()
                .positions
                .iter()
                .find(|position| position.partition == self.setup.plan.task.partition)
                .map(|position| position.next),
        };
        if let Some(end) = end {
            let lag = end.since(self.position);
            self.metrics.lag.set(i64::try_from(lag).unwrap_or(i64::MAX));
        }
        self.metrics
            .live_bytes
            .set(i64::try_from(self.pipeline.live_bytes()).unwrap_or(i64::MAX));
        self.metrics
            .open_panes
            .set(i64::try_from(self.pipeline.open_panes()).unwrap_or(i64::MAX));
        if let Some(frontier) = frontier {
            self.metrics.frontier.set(frontier);
            self.metrics
                .frontier_lag
                .set(self.setup.clock.wall_ms().saturating_sub(frontier));
        }
        let trouble = self
            .link_lost
            .filter(|since| since.elapsed() >= LINK_PATIENCE)
            .and_then(|_| self.reader.link())
            .map(|link| {
                TaskError::from(KafkaError::Unreachable {
                    bootstrap: self.setup.kafka.bootstrap_servers().to_owned(),
                    detail: link.detail,
                })
                .halt()
            });
        self.publish_checkpoint();
        self.publish_blocked();
        let placement = self.pipeline.verdict();
        self.metrics.placement.set(placement.number().into());
        self.cell.update(|status| {
            status.placement = placement;
            if status.misplaced_first.as_ref() != self.pipeline.first_misplaced() {
                status.misplaced_first = self.pipeline.first_misplaced().cloned();
            }
            status.position = committed.map(Offset::get);
            status.end_offset = end.map(Offset::get);
            status.frontier_ms = frontier;
            status.halt = trouble;
        });
    }
}
