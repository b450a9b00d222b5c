//! How fast a counter rose lately.

use std::collections::VecDeque;
use std::time::Duration;

/// Samples of a counter over a span that ends now.
#[derive(Debug)]
pub(crate) struct Recent {
    span: Duration,
    step: Duration,
    samples: VecDeque<(Duration, u64)>,
}

impl Recent {
    /// Keeps a sample per `step`, as far back as `span`.
    pub(crate) fn new(span: Duration, step: Duration) -> Self {
        Self {
            span,
            step,
            samples: VecDeque::new(),
        }
    }

    /// The counter stands at `count`, at `now` by a clock that never goes back.
    pub(crate) fn observe(&mut self, now: Duration, count: u64) {
        if self
            .samples
            .back()
            .is_none_or(|(last, _)| now >= *last + self.step)
        {
            self.samples.push_back((now, count));
        }
        // The first one may be older than the span: a rise is counted from it.
        while self
            .samples
            .get(1)
            .is_some_and(|(second, _)| *second + self.span <= now)
        {
            self.samples.pop_front();
        }
    }

    /// How far the counter rose in the last `window`, and in what time; from the first sample on if that is younger.
    fn since(&self, now: Duration, count: u64, window: Duration) -> (u64, Duration) {
        let begin = now.saturating_sub(window);
        let sample = self
            .samples
            .iter()
            .rev()
            .find(|(at, _)| *at <= begin)
            .or(self.samples.front());
        sample.map_or((0, Duration::ZERO), |(at, before)| {
            (count.saturating_sub(*before), now.saturating_sub(*at))
        })
    }

    /// How far the counter rose in the last `window`.
    pub(crate) fn risen(&self, now: Duration, count: u64, window: Duration) -> u64 {
        self.since(now, count, window).0
    }

    /// The same per second.
    pub(crate) fn per_second(&self, now: Duration, count: u64, window: Duration) -> f64 {
        let (risen, took) = self.since(now, count, window);
        if took.is_zero() {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate is for people")]
        let risen = risen as f64;
        risen / took.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn minute() -> Recent {
        Recent::new(s(60), Duration::from_millis(500))
    }

    #[test]
    fn a_steady_counter_has_its_rate_over_every_window_and_a_still_one_none() {
        let mut recent = minute();
        let mut count = 0;
        let mut now = s(1_000);
        for _ in 0..1_000 {
            recent.observe(now, count);
            now += Duration::from_millis(200);
            count += 20;
        }
        for window in [10, 60] {
            let rate = recent.per_second(now, count, s(window));
            assert!((rate - 100.0).abs() < 1e-6, "{rate}");
        }
        assert!(recent.samples.len() < 130, "{}", recent.samples.len());
        for _ in 0..400 {
            recent.observe(now, count);
            now += Duration::from_millis(200);
        }
        assert!(recent.per_second(now, count, s(60)).abs() < 1e-9);
        assert_eq!(recent.risen(now, count, s(60)), 0);
    }

    #[test]
    fn the_short_window_follows_a_change_first() {
        let mut recent = minute();
        for second in 0..100 {
            recent.observe(s(second), 0);
        }
        let mut count = 0;
        for second in 100..=110 {
            recent.observe(s(second), count);
            count += 1_000;
        }
        let (short, long) = (
            recent.per_second(s(110), 10_000, s(10)),
            recent.per_second(s(110), 10_000, s(60)),
        );
        assert!((short - 1_000.0).abs() < 1e-6, "{short}");
        assert!((long - 10_000.0 / 60.0).abs() < 1e-6, "{long}");
    }

    #[test]
    fn a_young_counter_is_measured_from_its_beginning() {
        let mut recent = minute();
        assert!(recent.per_second(s(5), 7, s(10)).abs() < 1e-9);
        recent.observe(s(5), 0);
        assert!(recent.per_second(s(5), 7, s(10)).abs() < 1e-9);
        assert!((recent.per_second(s(7), 10, s(60)) - 5.0).abs() < 1e-9);
        assert_eq!(recent.risen(s(7), 10, s(60)), 10);
    }
}
