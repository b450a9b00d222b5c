//! How the memory of a process is shared out.

use std::ops::RangeInclusive;

use thiserror::Error;
use turbine_kafka::QueueBudget;

/// A dirty pane while its commit is written: its key and value among the changes and in the entry,
/// with what each of these adds, measured with seven aggregates.
const DIRTY_PANE_BYTES: usize = 400;
/// Below this a task would wait for its disk more than it works.
const LEAST_COMMIT: usize = 10_000;
const MOST_COMMIT: usize = 1_000_000;
/// As much comes with one fetch.
const LEAST_COMMIT_BYTES: usize = 1 << 20;
/// What many tasks on little memory take all the same, so that a batch or a part of a close is worth its fixed cost; and what
/// brings nothing more.
const BATCH_BYTES: RangeInclusive<usize> = (256 << 10)..=(16 << 20);
const RESULT_BYTES: RangeInclusive<usize> = (256 << 10)..=(8 << 20);
/// A store's bounds: less does not hold the buffers of a few tasks, more brings nothing.
const STORES: RangeInclusive<usize> = (80 << 20)..=(2 << 30);

/// What a worker without tasks takes.
const PROGRAM: usize = 64 << 20;
/// What a task takes before it has read a record: the least queues of its clients, the least buffers of its store, threads.
const TASK: usize = 5 << 20;

/// A process with fewer bytes is killed again and again, sooner or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "{tasks} tasks do not fit into {} MiB of memory: they need {} MiB at the least; raise \
     `worker.resources.limits.memory`, or run more replicas",
    given >> 20, needed.div_ceil(1 << 20)
)]
pub struct MemoryTooSmall {
    given: usize,
    needed: usize,
    tasks: usize,
}

/// The memory that a process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    bytes: usize,
}

impl Memory {
    /// `bytes` in all: the container's limit.
    #[must_use]
    pub fn of(bytes: u64) -> Self {
        Self {
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        }
    }

    /// Whether `tasks` tasks can run at all.
    ///
    /// # Errors
    /// If not, with what they need.
    pub fn holds(self, tasks: usize) -> Result<(), MemoryTooSmall> {
        let needed = PROGRAM.saturating_add(tasks.saturating_mul(TASK));
        if self.bytes < needed {
            return Err(MemoryTooSmall {
                given: self.bytes,
                needed,
                tasks,
            });
        }
        Ok(())
    }

    /// Bytes of the stores' caches and buffers.
    #[must_use]
    pub fn stores(self) -> usize {
        (self.bytes / 5).clamp(*STORES.start(), *STORES.end())
    }

    /// The queues of one of `tasks` tasks.
    #[must_use]
    pub fn queues(self, tasks: usize) -> QueueBudget {
        QueueBudget::divided(self.bytes / 20 * 3, tasks)
    }

    /// Panes that one of `tasks` tasks keeps in memory. Tables that grow leave their old room behind, and what the allocator
    /// makes of it again is not theirs alone: half as much again goes there.
    #[must_use]
    pub fn live_bytes(self, tasks: usize) -> usize {
        self.bytes / 4 / tasks.max(1)
    }

    /// Records after which one of `tasks` tasks commits before its interval is over, so that what it
    /// has dirtied in `windows` windows can be written without a second limit's worth of copies.
    #[must_use]
    pub fn commit_records(self, tasks: usize, windows: usize) -> u64 {
        let panes = self.bytes / 8 / tasks.max(1) / DIRTY_PANE_BYTES;
        (panes / windows.max(1)).clamp(LEAST_COMMIT, MOST_COMMIT) as u64
    }

    /// As [`Self::commit_records`], in bytes of records: a key may be nearly all of its record, and a commit has it twice for
    /// each window, among the changes and in the entry.
    /// With twice as much, keys of 20 kB ended a worker of 12 tasks in a container of 256 MiB.
    #[must_use]
    pub fn commit_bytes(self, tasks: usize, windows: usize) -> usize {
        (self.bytes / 32 / tasks.max(1) / windows.max(1)).max(LEAST_COMMIT_BYTES)
    }

    /// Bytes of records that one of `tasks` tasks takes at once. They are in memory as they came, as columns, and as keys.
    #[must_use]
    pub fn batch_bytes(self, tasks: usize) -> usize {
        (self.bytes / 64 / tasks.max(1)).clamp(*BATCH_BYTES.start(), *BATCH_BYTES.end())
    }

    /// Bytes of keys and values that one of `tasks` tasks hands out at once when windows close. They are in memory as panes, as
    /// a table, as parts of it, and as what is written.
    #[must_use]
    pub fn result_bytes(self, tasks: usize) -> usize {
        (self.bytes / 64 / tasks.max(1)).clamp(*RESULT_BYTES.start(), *RESULT_BYTES.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_container_is_shared_out_within_itself() {
        let memory = Memory::of(1 << 30);
        let (tasks, windows) = (12, 2);
        let queues = memory.queues(tasks);
        let queued = (queues.read_bytes() + queues.write_bytes()) * tasks;
        let records = usize::try_from(memory.commit_records(tasks, windows)).unwrap();
        let dirty = records * windows * tasks * DIRTY_PANE_BYTES;
        assert!(queued <= 161 << 20, "{queued}");
        assert!(dirty <= 128 << 20, "{dirty}");
        assert_eq!(memory.stores(), 214_748_364);
        let live = memory.live_bytes(tasks) * tasks;
        let all = queued + dirty + live + memory.stores();
        // program, threads and clients take 90 MiB, what the allocator cannot use again about as much
        assert!(
            all <= (1 << 30) / 100 * 75,
            "{all} leaves too little for the rest"
        );
    }

    #[test]
    fn three_subscriptions_of_twelve_partitions_fit_half_a_gibibyte() {
        let memory = Memory::of(512 << 20);
        assert_eq!(memory.holds(36), Ok(()));
        let queues = memory.queues(36);
        let queued = (queues.read_bytes() + queues.write_bytes()) * 36;
        let shared = queued + memory.live_bytes(36) * 36 + memory.stores();
        assert!(shared <= (512 << 20) / 100 * 62, "{shared} of 512 MiB");
    }

    #[test]
    fn tasks_that_cannot_fit_are_refused_with_what_they_need() {
        let gib = Memory::of(1 << 30);
        assert_eq!(gib.holds(12), Ok(()));
        assert_eq!(gib.holds(192), Ok(()));
        let refusal = gib.holds(480).unwrap_err().to_string();
        assert!(
            refusal.starts_with("480 tasks do not fit into 1024 MiB of memory: they need 2464 MiB"),
            "{refusal}"
        );
        // what is shared out among them at the least is no more than what is called needed
        let queues = gib.queues(480);
        assert!(queues.read_bytes() + queues.write_bytes() < TASK);
    }

    #[test]
    fn no_amount_of_memory_or_tasks_leaves_the_bounds() {
        for (bytes, tasks, windows) in [(0, 0, 0), (1 << 20, 960, 8), (u64::MAX, 1, 1)] {
            let memory = Memory::of(bytes);
            assert!(STORES.contains(&memory.stores()));
            let records = memory.commit_records(tasks, windows);
            assert!((10_000..=1_000_000).contains(&records), "{records}");
        }
    }
}
