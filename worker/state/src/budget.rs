//! Memory for all stores of a process: one cache, one limit for write buffers.

use std::fmt;

use rocksdb::{Cache, WriteBufferManager};
use thiserror::Error;

/// What a store needs to take writes at all: a small write buffer per column family.
const PER_STORE: usize = 2 << 20;
/// Room for blocks that are being read.
const LEAST_CACHE: usize = 8 << 20;
const LARGEST_WRITE_BUFFER: usize = 64 << 20;

/// Memory that all stores of a process share. Write buffers count against the cache, so one number
/// bounds both, however many stores there are. The bound is soft: reads never fail for memory.
#[derive(Clone)]
pub struct StateBudget {
    bytes: usize,
    stores: usize,
    pub(crate) cache: Cache,
    pub(crate) write_buffers: WriteBufferManager,
}

/// The memory given cannot hold the stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "{given} bytes of memory for state cannot hold {stores} stores: at least {needed} bytes are \
     needed; raise the container's memory limit or run more replicas"
)]
pub struct BudgetTooSmall {
    /// Bytes given.
    pub given: usize,
    /// How many stores were to share them.
    pub stores: usize,
    /// Bytes needed.
    pub needed: usize,
}

impl fmt::Debug for StateBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateBudget")
            .field("bytes", &self.bytes)
            .field("stores", &self.stores)
            .finish_non_exhaustive()
    }
}

impl StateBudget {
    /// `bytes` of memory for `stores` stores that will be open at a time.
    ///
    /// # Errors
    /// If that is too little, with the amount that would do.
    pub fn new(bytes: usize, stores: usize) -> Result<Self, BudgetTooSmall> {
        let needed = LEAST_CACHE + stores * PER_STORE;
        if bytes < needed {
            return Err(BudgetTooSmall {
                given: bytes,
                stores,
                needed,
            });
        }
        let cache = Cache::new_lru_cache(bytes);
        let write_buffers = WriteBufferManager::new_write_buffer_manager_with_cache(
            bytes / 2,
            // Writers are not stopped when the buffers are full: they are flushed.
            false,
            cache.clone(),
        );
        Ok(Self {
            bytes,
            stores: stores.max(1),
            cache,
            write_buffers,
        })
    }

    /// Bytes given.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes in use now, by blocks and write buffers.
    #[must_use]
    pub fn used(&self) -> usize {
        self.cache.get_usage()
    }

    pub(crate) fn write_buffer(&self) -> usize {
        (self.bytes / 2 / self.stores).clamp(PER_STORE / 2, LARGEST_WRITE_BUFFER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_refused_with_what_would_do() {
        let refusal = StateBudget::new(16 << 20, 36).unwrap_err();
        assert!(StateBudget::new(refusal.needed, 36).is_ok());
        assert!(StateBudget::new(refusal.needed - 1, 36).is_err());
        assert!(refusal.to_string().contains(&refusal.needed.to_string()));
    }

    #[test]
    fn write_buffers_of_all_stores_fit_half_of_the_budget() {
        let budget = StateBudget::new(512 << 20, 36).unwrap();
        assert!(budget.write_buffer() * 36 <= 256 << 20);
    }
}
