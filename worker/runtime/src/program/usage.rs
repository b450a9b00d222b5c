//! What the process used, as the kernel counted it.

use std::time::Duration;

/// Ticks per second in `/proc`: a constant of Linux's interface, whatever the kernel's own rate.
const TICKS_PER_SECOND: u64 = 100;

/// What the process used since it was started.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    /// Processor time of all threads.
    pub(super) cpu: Duration,
    /// Most memory resident at a time, in bytes.
    pub(super) peak_bytes: u64,
}

impl Usage {
    /// What was used so far; nothing where the system does not say.
    pub(super) fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self {
            cpu: cpu(&stat).unwrap_or_default(),
            peak_bytes: peak(&status).unwrap_or_default(),
        }
    }
}

fn cpu(stat: &str) -> Option<Duration> {
    // The name in parentheses may hold blanks; the numbers begin behind it.
    let numbers: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 =
        numbers.get(11)?.parse::<u64>().ok()? + numbers.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

fn peak(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace()
        .next()?
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024)
}

/// The memory this process may use, in bytes: the container's limit, else the machine's memory.
pub(super) fn memory_limit() -> u64 {
    let container = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]
    .iter()
    .find_map(|path| {
        std::fs::read_to_string(path)
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
    });
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("MemTotal:"))?;
            line.split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()
                .map(|kib| kib * 1024)
        });
    match (container, machine) {
        (Some(container), Some(machine)) => container.min(machine),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => 1 << 30,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_shift_the_numbers() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 9 0 77";
        assert_eq!(cpu(stat), Some(Duration::from_secs(3)));
    }

    #[test]
    fn work_shows_as_processor_time_and_memory() {
        let before = Usage::now();
        let mut filler = vec![0_u64; 1 << 20];
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_millis(100) {
            for (at, value) in filler.iter_mut().enumerate() {
                *value = value.wrapping_add(at as u64);
            }
        }
        let after = Usage::now();
        assert!(after.cpu > before.cpu);
        assert!(after.peak_bytes >= 8 << 20);
    }
}
