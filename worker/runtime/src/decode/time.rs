use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, Int64Array};
use turbine_crds::app::TimeUnit;

/// Epoch milliseconds of a time text, rounded down; none if it is no time or has no offset.
pub(super) fn parse(text: &str) -> Option<i64> {
    // The parser also takes a zone's name in brackets and then ignores it if an offset is there.
    if text.contains('[') {
        return None;
    }
    let time: jiff::Timestamp = text.parse().ok()?;
    i64::try_from(time.as_nanosecond().div_euclid(1_000_000)).ok()
}

/// Event times in epoch milliseconds, rounded down, null where the column is. What leaves the
/// 64-bit range stands at its end, which is outside every range of accepted times.
pub(super) fn event_times(column: &dyn Array, unit: TimeUnit) -> Option<Int64Array> {
    if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
        return Some(match unit {
            TimeUnit::S => numbers.unary(|s| s.saturating_mul(1_000)),
            TimeUnit::Ms => numbers.clone(),
            TimeUnit::Us => numbers.unary(|us| us.div_euclid(1_000)),
            TimeUnit::Ns => numbers.unary(|ns| ns.div_euclid(1_000_000)),
        });
    }
    let numbers = column.as_primitive_opt::<Float64Type>()?;
    let micros = match unit {
        TimeUnit::S => 1e6,
        TimeUnit::Ms => 1e3,
        TimeUnit::Us => 1.0,
        TimeUnit::Ns => 1e-3,
    };
    // Through whole microseconds: 1700000000.123 s is no binary fraction, and rounding its
    // milliseconds down at once would lose one.
    #[allow(clippy::cast_possible_truncation)]
    Some(numbers.unary(|time| ((time * micros).round() as i64).div_euclid(1_000)))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int64Array};
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("2026-01-01T05:00:00+05:00", Some(1_767_225_600_000))]
    #[case("2026-01-01T00:00:00Z", Some(1_767_225_600_000))]
    #[case("2026-01-01T00:00:00+0100", Some(1_767_222_000_000))]
    #[case("20260101T000000Z", Some(1_767_225_600_000))]
    #[case("2026-01-01 00:00:00z", Some(1_767_225_600_000))]
    #[case("1969-12-31T23:59:59.9999Z", Some(-1))]
    #[case("2026-01-01T00:00:00", None)]
    #[case("2026-01-01 00:00:00", None)]
    #[case("2026-01-01", None)]
    #[case("2026-01-01T00:00:00[Europe/Berlin]", None)]
    #[case("2026-01-01T00:00:00+01:00[Europe/Berlin]", None)]
    #[case("2026-01-01T24:00:00Z", None)]
    #[case("10000-01-01T00:00:00Z", None)]
    #[case("+10000-01-01T00:00:00Z", None)]
    #[case("", None)]
    fn a_time_needs_an_offset_and_it_counts(#[case] text: &str, #[case] ms: Option<i64>) {
        assert_eq!(parse(text), ms);
    }

    /// The tests of this file once more, each time in a process that lives elsewhere: by the name of a zone, and by a rule that
    /// needs no list of zones.
    #[test]
    fn the_zone_of_the_process_never_matters() {
        const ZONES: [&str; 2] = ["America/New_York", "EST5EDT,M3.2.0,M11.1.0"];
        if let Ok(zone) = std::env::var("TZ")
            && ZONES.contains(&zone.as_str())
        {
            let winter = jiff::Timestamp::from_millisecond(1_767_225_600_000).unwrap();
            // A machine without a list of zones does not know the name.
            if !zone.contains('/') || jiff::tz::db().get(&zone).is_ok() {
                let here = jiff::tz::TimeZone::system().to_offset(winter);
                assert_eq!(here, jiff::tz::offset(-5), "TZ={zone}");
            }
            return;
        }
        let (_, tests) = module_path!().split_once("::").unwrap();
        for zone in ZONES {
            let ended = std::process::Command::new(std::env::current_exe().unwrap())
                .arg(tests)
                .env("TZ", zone)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&ended.stdout);
            assert!(ended.status.success(), "TZ={zone}: {said}");
            let with_texts = said.matches("a_time_needs_an_offset_and_it_counts").count();
            assert!(with_texts >= 15, "TZ={zone}: {said}");
        }
    }

    #[rstest]
    #[case(TimeUnit::S, 1_767_225_600, 1_767_225_600_000)]
    #[case(TimeUnit::S, i64::MAX, i64::MAX)]
    #[case(TimeUnit::S, i64::MIN, i64::MIN)]
    #[case(TimeUnit::Ms, -7, -7)]
    #[case(TimeUnit::Us, -1, -1)]
    #[case(TimeUnit::Us, 1_999, 1)]
    #[case(TimeUnit::Ns, -1, -1)]
    #[case(TimeUnit::Ns, 1_999_999, 1)]
    fn whole_numbers_are_rounded_down(#[case] unit: TimeUnit, #[case] n: i64, #[case] ms: i64) {
        let times = event_times(&Int64Array::from(vec![Some(n), None]), unit).unwrap();
        assert_eq!(times, Int64Array::from(vec![Some(ms), None]));
    }

    #[rstest]
    #[case(TimeUnit::S, 1_700_000_000.123, 1_700_000_000_123)]
    #[case(TimeUnit::S, -0.0005, -1)]
    #[case(TimeUnit::Ms, 1.9, 1)]
    #[case(TimeUnit::S, 1e300, i64::MAX / 1_000)]
    fn fractions_keep_their_millisecond(#[case] unit: TimeUnit, #[case] n: f64, #[case] ms: i64) {
        let times = event_times(&Float64Array::from(vec![n]), unit).unwrap();
        assert_eq!(times.value(0), ms);
    }
}
