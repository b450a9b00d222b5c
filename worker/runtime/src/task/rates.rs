//! What a task shows per second and per hour.

use std::time::Duration;

use crate::control::metrics::TaskMetrics;
use crate::control::recent::Recent;

const RATES_OVER: [Duration; 2] = [Duration::from_secs(10), Duration::from_mins(1)];
const HOUR: Duration = Duration::from_hours(1);

/// Counts of the last minute and the last hour.
#[derive(Debug)]
pub(super) struct Rates {
    records: Recent,
    state_ops: Recent,
    bad: Recent,
}

impl Rates {
    pub(super) fn new() -> Self {
        let minute = || Recent::new(RATES_OVER[1], Duration::from_millis(500));
        Self {
            records: minute(),
            state_ops: minute(),
            bad: Recent::new(HOUR, Duration::from_secs(30)),
        }
    }

    pub(super) fn publish(&mut self, metrics: &TaskMetrics, bad_records: u64, now: Duration) {
        let (records, state_ops) = (metrics.messages.get(), metrics.state_ops.get());
        self.records.observe(now, records);
        self.state_ops.observe(now, state_ops);
        self.bad.observe(now, bad_records);
        let rates = [
            (
                &self.records,
                records,
                &metrics.throughput_10s,
                &metrics.throughput_60s,
            ),
            (
                &self.state_ops,
                state_ops,
                &metrics.state_ops_10s,
                &metrics.state_ops_60s,
            ),
        ];
        for (recent, count, short, long) in rates {
            short.set(recent.per_second(now, count, RATES_OVER[0]));
            long.set(recent.per_second(now, count, RATES_OVER[1]));
        }
        let bad = self.bad.risen(now, bad_records, HOUR);
        metrics.bad_60m.set(i64::try_from(bad).unwrap_or(i64::MAX));
    }
}
