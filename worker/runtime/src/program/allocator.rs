//! How the C library's allocator treats the worker's memory: one allocator for Rust, the Kafka client and the stores, since
//! much is allocated by one thread and freed by another.
#![allow(unsafe_code)]

use std::thread::available_parallelism;

/// The largest that the allocator takes. Batches and tables of some megabytes come and go all the time; each of them given
/// back to the system costs its page faults again (a tenth of all processor time with a million keys).
const GIVEN_BACK_FROM: libc::c_int = 32 << 20;
/// Free memory at the end of a heap that is kept for the next batch.
const KEPT_AT_END: libc::c_int = 64 << 20;
/// Arenas per core. By default it is eight: a worker has a dozen threads per task, and what is freed in one arena is no use
/// to another (a tenth more memory with twelve tasks on two cores).
const ARENAS_PER_CORE: usize = 4;

/// Call it before any other thread is started. What it asks for is an advice: an allocator that does not know it goes on as
/// it was.
pub(super) fn tune() {
    let cores = available_parallelism().map_or(1, usize::from);
    let arenas = libc::c_int::try_from(cores * ARENAS_PER_CORE).unwrap_or(libc::c_int::MAX);
    for (option, value) in [
        (libc::M_MMAP_THRESHOLD, GIVEN_BACK_FROM),
        (libc::M_TRIM_THRESHOLD, KEPT_AT_END),
        (libc::M_ARENA_MAX, arenas),
    ] {
        // SAFETY: it takes two numbers and changes settings of the allocator alone; no other thread runs yet.
        let _known = unsafe { libc::mallopt(option, value) };
    }
}
