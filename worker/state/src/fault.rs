//! Places at which a test build can be made to die, to stand still, or to find its disk full.
//!
//! Without the feature `fault-points`, which no released program has, all calls of this module are nothing.

use std::io;

use strum::IntoEnumIterator as _;

/// A place in the life of a task.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    strum::Display,
    strum::EnumString,
    strum::EnumIter,
    strum::EnumMessage,
)]
#[strum(serialize_all = "kebab-case")]
pub enum FaultPoint {
    /// Results of the interval are with the broker, or handed to the client in the open transaction; the journal has nothing
    AfterProduce,
    /// The interval's entry is in the journal's file and not synced
    AfterJournalWrite,
    /// The entry is durable, and the broker knows nothing of it
    AfterSync,
    /// At least once the group's offset is committed; exactly once it is in the transaction, with the receipt
    AfterOffsetsSent,
    /// The broker has said that all is committed, and nothing was done about it
    AfterCommit,
    /// Exactly once: the transaction is committed, and the prepared entry is about to be marked done
    BeforeMarkingDone,
    /// Exactly once: the prepared entry was marked done
    AfterMarkingDone,
    /// A start has decided what becomes of a prepared entry, and has not done it
    InRecovery,
    /// Rows of a save are on their way into the store, and it does not say how far they reach
    InSave,
    /// A save is durable, and the journal still has what it holds
    AfterSave,
    /// All files of a checkpoint are in its place, and there is no manifest
    InCheckpoint,
    /// One more file of a checkpoint is in its place
    InUpload,
    /// Manifests of old checkpoints are removed, and their files are there
    InPrune,
    /// One more file of a checkpoint is back on the volume
    InRestore,
    /// One more file of an old task is there for a change of the partition count
    InPull,
    /// What one new task takes of one old task is cut out of a copy, and the new store is not there
    InCut,
    /// A new store is whole, and has not its place yet
    BeforeMovedStore,
    /// A new store has its place
    AfterMovedStore,
    /// RocksDB has taken one more row in a compaction
    InCompaction,
    /// From here on a write to the journal leaves half of a record and says that no space is left; the process goes on
    DiskFull,
    /// Half of a record is written to the journal
    TornWrite,
}

impl FaultPoint {
    /// All points.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::iter()
    }
}

#[cfg(any(test, feature = "fault-points"))]
pub use armed::{ArmError, arm, table};

/// Passes a point.
#[inline]
pub fn pass(point: FaultPoint) {
    #[cfg(any(test, feature = "fault-points"))]
    armed::pass(point);
    #[cfg(not(any(test, feature = "fault-points")))]
    let _ = point;
}

/// Writes a record by `append`.
#[inline]
pub(crate) fn write(record: &[u8], append: impl Fn(&[u8]) -> io::Result<()>) -> io::Result<()> {
    #[cfg(any(test, feature = "fault-points"))]
    armed::before_write(record, &append)?;
    append(record)
}

#[cfg(any(test, feature = "fault-points"))]
mod armed {
    use std::fmt::Write as _;
    use std::fs::File;
    use std::io::{self, Write as _};
    use std::path::{Path, PathBuf};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use strum::EnumMessage as _;
    use thiserror::Error;

    use super::FaultPoint;

    static ARMED: OnceLock<Armed> = OnceLock::new();

    /// Between two looks for the file that ends a fault.
    const LOOK: Duration = Duration::from_millis(10);

    #[derive(Debug)]
    struct Armed {
        point: FaultPoint,
        /// The pass that is the last one.
        at: u64,
        passes: AtomicU64,
        log: Option<File>,
        /// The file that ends the fault: the process does not die then.
        until: Option<PathBuf>,
    }

    /// Why no point could be armed.
    #[derive(Debug, Error)]
    pub enum ArmError {
        /// The setting names no point and pass.
        #[error("`{0}` is no fault: write POINT:PASS, passes count from 1. Points:\n{points}", points = table())]
        Setting(String),
        /// The log cannot be written.
        #[error("the log of passes cannot be written: {0}")]
        Log(#[from] io::Error),
        /// The fault has no end.
        #[error(
            "a process that dies at `{0}` is in the middle of a write: it cannot stand still there"
        )]
        Endless(FaultPoint),
        /// Something is armed in this process.
        #[error("a process dies once")]
        Twice,
    }

    /// All points with what they mean, one a line.
    #[must_use]
    pub fn table() -> String {
        FaultPoint::all().fold(String::new(), |mut table, point| {
            let means = point.get_documentation().unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = writeln!(table, "  {:<20} {means}", point.to_string());
            table
        })
    }

    /// Arms a point, written `POINT:PASS`. Each pass of it is a line `POINT PASS` in the file `log`, written before anything
    /// happens. With `until` nobody dies: the thread that passes the point stands still, or the disk is full, until there is
    /// such a file.
    ///
    /// # Errors
    /// If the setting means nothing, or the log cannot be written.
    pub fn arm(setting: &str, log: Option<&Path>, until: Option<&Path>) -> Result<(), ArmError> {
        let parsed = setting
            .split_once(':')
            .and_then(|(point, pass)| Some((point.parse().ok()?, pass.parse().ok()?)))
            .filter(|(_, pass)| *pass > 0);
        let (point, at) = parsed.ok_or_else(|| ArmError::Setting(setting.to_owned()))?;
        if until.is_some() && point == FaultPoint::TornWrite {
            return Err(ArmError::Endless(point));
        }
        let log = log
            .map(|path| File::options().create(true).append(true).open(path))
            .transpose()?;
        let passes = AtomicU64::new(0);
        ARMED
            .set(Armed {
                point,
                at,
                passes,
                log,
                until: until.map(Path::to_owned),
            })
            .map_err(|_| ArmError::Twice)
    }

    impl Armed {
        /// The number of this pass.
        fn count(&self) -> u64 {
            let pass = self.passes.fetch_add(1, Ordering::SeqCst) + 1;
            if let Some(mut log) = self.log.as_ref() {
                // Without the line the test that waits for it fails.
                let _ = log.write_all(format!("{} {pass}\n", self.point).as_bytes());
            }
            pass
        }

        fn is_over(&self) -> bool {
            self.until.as_ref().is_some_and(|file| file.exists())
        }

        /// What happens at the point.
        fn strike(&self) {
            if self.until.is_none() {
                die();
            }
            while !self.is_over() {
                std::thread::sleep(LOOK);
            }
        }
    }

    fn armed(point: FaultPoint) -> Option<&'static Armed> {
        ARMED.get().filter(|armed| armed.point == point)
    }

    /// As by `kill -9`: nothing of the process gets to clean up.
    fn die() -> ! {
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        // Nothing behind the point happens until the signal is here.
        loop {
            std::thread::park();
        }
    }

    pub(super) fn pass(point: FaultPoint) {
        if let Some(armed) = armed(point)
            && armed.count() == armed.at
        {
            armed.strike();
        }
    }

    pub(super) fn before_write(
        record: &[u8],
        append: &impl Fn(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let half = record.get(..record.len() / 2).unwrap_or_default();
        if let Some(armed) = armed(FaultPoint::DiskFull)
            && armed.count() >= armed.at
            && !armed.is_over()
        {
            append(half)?;
            return Err(rustix::io::Errno::NOSPC.into());
        }
        if let Some(armed) = armed(FaultPoint::TornWrite)
            && armed.count() == armed.at
        {
            append(half)?;
            die();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_found_by_its_name() {
        for point in FaultPoint::all() {
            assert_eq!(point.to_string().parse(), Ok(point));
        }
        assert_eq!(FaultPoint::InSave.to_string(), "in-save");
    }
}
