//! Events by a seed: the same numbers give the same records, in any process and in any order of asking.

use serde_json::{Map, Value, json};

/// How events are made.
#[derive(Debug, Clone)]
pub struct EventPlan {
    /// How many.
    pub records: u64,
    /// How many different tenants.
    pub keys: u64,
    pub seed: u64,
    /// Event time of the first, epoch milliseconds.
    pub start_ms: i64,
    /// Event time from the first to the last.
    pub span_ms: i64,
    /// Each event lies up to this long before its place.
    pub disorder_ms: i64,
    /// Letters added to each record.
    pub padding: usize,
    /// Bits of the largest `bytes`.
    pub magnitude: u32,
}

/// One event and the key that it is placed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// Epoch milliseconds.
    pub time_ms: i64,
}

/// Default start: a Thursday, not at the edge of a day.
pub const START_MS: i64 = 1_767_261_612_345;

impl Default for EventPlan {
    fn default() -> Self {
        Self {
            records: 200_000,
            keys: 1_000,
            seed: 1,
            start_ms: START_MS,
            span_ms: 600_000,
            disorder_ms: 20_000,
            padding: 0,
            magnitude: 56,
        }
    }
}

/// A well-mixed number of a place in the sequence (splitmix64).
pub fn mix(seed: u64, index: u64, lane: u64) -> u64 {
    let mut z = seed.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(
        index
            .wrapping_mul(4)
            .wrapping_add(lane)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15),
    );
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl EventPlan {
    /// Event time of the last place.
    pub fn end_ms(&self) -> i64 {
        self.start_ms + self.span_ms
    }

    /// The event at a place, 0 to `records - 1`.
    ///
    /// `cpu` is a multiple of 1/64, so that sums are exact in any order; `bytes` goes beyond 2^53 by default, so that a
    /// sum that passes through a float is seen; one event in 64 has no `cpu`, one in 64 has `bytes: null`.
    pub fn event(&self, index: u64) -> Event {
        let tenant = mix(self.seed, index, 0) % self.keys.max(1);
        let jitter = mix(self.seed, index, 1) % (self.disorder_ms.max(0).unsigned_abs() + 1);
        let place = i128::from(self.span_ms) * i128::from(index) / i128::from(self.records.max(1));
        let time_ms =
            self.start_ms + i64::try_from(place).unwrap_or(self.span_ms) - jitter.cast_signed();
        let cpu = mix(self.seed, index, 2);
        let bytes = mix(self.seed, index, 3);
        let key = format!("tenant-{tenant:06}");
        let mut fields = Map::new();
        fields.insert("tenant_id".into(), json!(key));
        if cpu % 64 != 63 {
            #[expect(clippy::cast_precision_loss, reason = "below 2^13")]
            fields.insert("cpu".into(), json!((cpu >> 6 & 0x18FF) as f64 / 64.0));
        }
        let bytes = if bytes % 64 == 63 {
            Value::Null
        } else {
            json!(bytes >> 6 & ((1 << self.magnitude.min(58)) - 1))
        };
        fields.insert("bytes".into(), bytes);
        fields.insert("ts".into(), json!(time_ms));
        if self.padding > 0 {
            fields.insert("note".into(), json!("x".repeat(self.padding)));
        }
        Event {
            key: key.into_bytes(),
            value: Value::Object(fields).to_string().into_bytes(),
            time_ms,
        }
    }

    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        (0..self.records).map(|index| self.event(index))
    }

    /// One of `parts` equal parts of the events, in order; numbers count from 0.
    pub fn part(&self, number: u64, parts: u64) -> impl Iterator<Item = Event> + use<> {
        let at = |part: u64| self.records * part / parts.max(1);
        let (from, to, plan) = (at(number), at(number + 1), self.clone());
        (from..to).map(move |index| plan.event(index))
    }

    /// An event of a tenant of no other event, at a given time: what moves the frontier past all others.
    pub fn closing_event(number: u64, time_ms: i64) -> Event {
        let key = format!("closing-{number:06}");
        let value = json!({"tenant_id": key, "cpu": 0.0, "bytes": 0, "ts": time_ms});
        Event {
            key: key.into_bytes(),
            value: value.to_string().into_bytes(),
            time_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_records_and_another_seed_others() {
        let plan = EventPlan {
            records: 500,
            ..EventPlan::default()
        };
        let again = EventPlan {
            records: 500,
            ..EventPlan::default()
        };
        let other = EventPlan {
            records: 500,
            seed: 2,
            ..EventPlan::default()
        };
        assert!(plan.events().eq(again.events()));
        assert!(!plan.events().eq(other.events()));
    }

    #[test]
    fn records_are_out_of_order_within_the_given_bound() {
        let plan = EventPlan {
            records: 5_000,
            disorder_ms: 20_000,
            ..EventPlan::default()
        };
        let mut highest = i64::MIN;
        let mut furthest_back = 0;
        for event in plan.events() {
            furthest_back = furthest_back.max(highest.saturating_sub(event.time_ms));
            highest = highest.max(event.time_ms);
        }
        assert!(
            furthest_back > 15_000 && furthest_back <= 20_000,
            "{furthest_back}"
        );
    }

    #[test]
    fn integers_go_beyond_what_a_float_holds_and_nulls_occur() {
        let rows: Vec<Value> = EventPlan {
            records: 2_000,
            ..EventPlan::default()
        }
        .events()
        .map(|event| serde_json::from_slice(&event.value).unwrap())
        .collect();
        assert!(
            rows.iter()
                .any(|row| row["bytes"].as_i64().is_some_and(|bytes| bytes > 1 << 53))
        );
        assert!(rows.iter().any(|row| row["bytes"].is_null()));
        assert!(rows.iter().any(|row| row.get("cpu").is_none()));
    }
}
