//! Output whose reader may go away.

use std::io::{self, ErrorKind, Write};

/// Goes on without its reader once that has seen enough, so that the exit code says what was found and not that somebody
/// closed a pipe.
#[derive(Debug)]
pub(crate) struct Patient<W> {
    to: W,
    alone: bool,
}

impl<W> Patient<W> {
    pub(crate) fn new(to: W) -> Self {
        Self { to, alone: false }
    }

    fn pass<T>(&mut self, done: io::Result<T>, otherwise: T) -> io::Result<T> {
        match done {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.alone = true;
                Ok(otherwise)
            }
            other => other,
        }
    }
}

impl<W: Write> Write for Patient<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.alone {
            return Ok(bytes.len());
        }
        let done = self.to.write(bytes);
        self.pass(done, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.alone {
            return Ok(());
        }
        let done = self.to.flush();
        self.pass(done, ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `left` bytes, then its reader is gone.
    struct Pipe {
        left: usize,
        otherwise: ErrorKind,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.left < bytes.len() {
                return Err(self.otherwise.into());
            }
            self.left -= bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_a_reader_that_went_away_is_done_without() {
        let pipe = |otherwise| Patient::new(Pipe { left: 4, otherwise });
        let mut gone = pipe(ErrorKind::BrokenPipe);
        for _ in 0..3 {
            gone.write_all(b"abc").unwrap();
        }
        assert_eq!(gone.to.left, 1);
        let mut full = pipe(ErrorKind::StorageFull);
        full.write_all(b"abc").unwrap();
        assert!(full.write_all(b"abc").is_err());
    }
}
