//! Producers: each learns of a growth at its own time, some write in transactions whose markers land one by one.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng;
use rand::rngs::StdRng;
use turbine_protocol::rescale::RecordKey;

use crate::log::{Log, Record};
use crate::scenario::{DELIVERY, OUT_OF_ORDERNESS, Scenario, WAITS};

#[derive(Debug)]
struct Open {
    id: u64,
    touched: BTreeSet<usize>,
    ends_at: i64,
    commits: bool,
}

#[derive(Debug)]
pub(crate) struct Producer {
    number: usize,
    count: u32,
    refreshes: Vec<(i64, u32)>,
    skew: i64,
    is_transactional: bool,
    open: Option<Open>,
    markers: Vec<(i64, usize, u64, bool)>,
    flying: Vec<(i64, usize, Record)>,
    sequences: BTreeMap<RecordKey, u64>,
    asleep_until: i64,
}

/// What all producers together have sent.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    next_id: usize,
    next_transaction: u64,
    max_event_time: Option<i64>,
}

impl Producer {
    pub(crate) fn new(number: usize, count: u32, rng: &mut StdRng) -> Self {
        Self {
            number,
            count,
            refreshes: Vec::new(),
            skew: rng.random_range(0..=OUT_OF_ORDERNESS / 2),
            is_transactional: rng.random_bool(0.4),
            open: None,
            markers: Vec::new(),
            flying: Vec::new(),
            sequences: BTreeMap::new(),
            asleep_until: 0,
        }
    }

    /// The topic has grown: it will be noticed within the refresh, or by a straggler long after.
    pub(crate) fn grown(&mut self, now: i64, count: u32, straggles: bool, rng: &mut StdRng) {
        let refresh = i64::try_from(WAITS.producer_refresh.0).unwrap();
        let after = match rng.random_range(0..4) {
            _ if straggles => refresh * 4,
            0 => 0,
            1 => refresh,
            _ => rng.random_range(0..=refresh),
        };
        self.refreshes.push((now + after, count));
    }

    pub(crate) fn use_count(&mut self, count: u32) {
        self.count = count;
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.open.is_none() && self.markers.is_empty() && self.flying.is_empty()
    }

    pub(crate) fn tick(
        &mut self,
        now: i64,
        sends: bool,
        scenario: &Scenario,
        logs: &mut [Log],
        sent: &mut Sent,
        rng: &mut StdRng,
    ) {
        for (_, count) in self.refreshes.extract_if(.., |(at, _)| *at <= now) {
            self.count = self.count.max(count);
        }
        for (_, partition, transaction, commits) in
            self.markers.extract_if(.., |(at, ..)| *at <= now)
        {
            logs[partition].mark(transaction, commits);
        }
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.ends_at <= now || !sends)
        {
            let open = self.open.take().unwrap();
            for partition in open.touched {
                let lands = now + rng.random_range(0..12);
                self.markers.push((lands, partition, open.id, open.commits));
            }
        }
        if sends && now >= self.asleep_until {
            if rng.random_bool(0.005) {
                self.asleep_until = now + rng.random_range(10..50);
            }
            // The next transaction begins once all markers of the one before have landed.
            let may_send = !self.is_transactional || self.open.is_some() || self.markers.is_empty();
            if may_send && rng.random_bool(scenario.pace) {
                self.send(now, scenario, sent, rng);
            }
        }
        self.flying.sort_by_key(|(at, ..)| *at);
        for (_, partition, record) in self.flying.extract_if(.., |(at, ..)| *at <= now) {
            logs[partition].append(record);
        }
    }

    fn send(&mut self, now: i64, scenario: &Scenario, sent: &mut Sent, rng: &mut StdRng) {
        let key = match rng.random_range(0..20) {
            0 => RecordKey::Null,
            1..6 => RecordKey::Hash(0),
            _ => RecordKey::Hash(rng.random_range(0..scenario.keys) * 7919 % 960_000),
        };
        let placed =
            key.placed_by(turbine_keygroups::RawPartitionCount::try_from(self.count).unwrap());
        let partition = placed.map_or_else(
            || rng.random_range(0..self.count),
            turbine_keygroups::Partition::index,
        );
        let partition = partition as usize;
        let lateness = if rng.random_bool(scenario.late) {
            rng.random_range(10..50)
        } else {
            rng.random_range(0..=OUT_OF_ORDERNESS / 2)
        };
        let sequence = self.sequences.entry(key).or_default();
        *sequence += 1;
        let mut record = Record {
            id: sent.next_id,
            key,
            producer: self.number,
            sequence: *sequence,
            event_time: now - self.skew - lateness,
            sent_before: sent.max_event_time,
            transaction: None,
        };
        sent.next_id += 1;
        sent.max_event_time = sent.max_event_time.max(Some(record.event_time));
        if self.is_transactional {
            let open = self.open.get_or_insert_with(|| {
                sent.next_transaction += 1;
                Open {
                    id: sent.next_transaction,
                    touched: BTreeSet::new(),
                    ends_at: now + rng.random_range(1..30),
                    commits: rng.random_bool(0.8),
                }
            });
            open.touched.insert(partition);
            record.transaction = Some(open.id);
            self.flying.push((now, partition, record));
            return;
        }
        let delay = if rng.random_bool(0.2) {
            rng.random_range(0..=DELIVERY)
        } else {
            0
        };
        // Idempotent: within a partition nothing overtakes. Between partitions everything does.
        let before = self
            .flying
            .iter()
            .filter(|(_, other, _)| *other == partition);
        let earliest = before.map(|(at, ..)| *at).max().unwrap_or(0);
        self.flying
            .push(((now + delay).max(earliest), partition, record));
    }
}
