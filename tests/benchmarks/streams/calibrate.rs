//! A fixed piece of work whose time tells how fast the machine is at the moment.

use std::hint::black_box;
use std::time::Instant;

const STEPS: usize = 20_000_000;
/// 32 MiB: beyond the caches of one core.
const WORDS: usize = 1 << 22;
const TURNS: usize = 3;

/// The finalizer of splitmix64.
pub(super) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Seconds of the fastest of three turns, of arithmetic and of scattered reads of memory.
pub(super) fn seconds() -> f64 {
    let memory: Vec<u64> = (0..WORDS as u64).map(mix).collect();
    (0..TURNS)
        .map(|_| {
            let began = Instant::now();
            black_box((0..STEPS).fold(1, |value, _| mix(value)));
            black_box((0..STEPS / 8).fold(1_usize, |place, _| {
                usize::try_from(memory[place % WORDS]).unwrap_or(1) ^ (place >> 3)
            }));
            began.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}
