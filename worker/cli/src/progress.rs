//! How far a long step is, on one line of a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const BAR: u64 = 30;
const BETWEEN: Duration = Duration::from_millis(100);

/// A line that is drawn over and over; nothing is drawn where nobody would see it move.
#[derive(Debug)]
pub(crate) struct Progress<W: Write> {
    what: String,
    total: u64,
    began: Instant,
    drawn: Option<Instant>,
    to: Option<W>,
}

impl<W: Write + IsTerminal> Progress<W> {
    pub(crate) fn of(what: String, total: u64, to: W) -> Self {
        Self {
            what,
            total,
            began: Instant::now(),
            drawn: None,
            to: to.is_terminal().then_some(to),
        }
    }
}

impl<W: Write> Progress<W> {
    pub(crate) fn reached(&mut self, done: u64) {
        let now = Instant::now();
        let due = self
            .drawn
            .is_none_or(|drawn| now.saturating_duration_since(drawn) >= BETWEEN);
        let Some(to) = self.to.as_mut().filter(|_| due || done >= self.total) else {
            return;
        };
        self.drawn = Some(now);
        let line = line(&self.what, done, self.total, now - self.began);
        // A terminal that is gone takes no answer either: the answer's error is the one that counts.
        if write!(to, "\r{line}\u{1b}[K")
            .and_then(|()| to.flush())
            .is_err()
        {
            self.to = None;
        }
    }
}

impl<W: Write> Drop for Progress<W> {
    fn drop(&mut self) {
        if let (Some(to), Some(_)) = (self.to.as_mut(), self.drawn) {
            // Nothing is left to do about a terminal that is gone.
            let _ = write!(to, "\r\u{1b}[K");
        }
    }
}

fn line(what: &str, done: u64, total: u64, taken: Duration) -> String {
    let done = done.min(total);
    let share = |of: u64| {
        u64::try_from(u128::from(done) * u128::from(of) / u128::from(total.max(1))).unwrap_or(of)
    };
    let full = usize::try_from(share(BAR)).unwrap_or(0);
    let empty = usize::try_from(BAR).unwrap_or(0).saturating_sub(full);
    format!(
        "{what} [{}{}] {:>3} %  {done} of {total}  {} s",
        "#".repeat(full),
        ".".repeat(empty),
        share(100),
        taken.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_as_long_as_the_share() {
        assert_eq!(
            line("reading t", 500, 2000, Duration::from_secs(3)),
            "reading t [#######.......................]  25 %  500 of 2000  3 s"
        );
        assert!(line("t", 0, 0, Duration::ZERO).contains("[..............................]   0 %"));
        assert!(line("t", 9, 5, Duration::ZERO).contains("100 %  5 of 5"));
    }
}
