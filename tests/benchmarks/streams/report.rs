//! Ratios of legs, and a table of them.

use std::fmt;

use anyhow::Result;

use super::Options;
use super::leg::{Figures, Leg};
use crate::machine::say;

/// Median and span of the legs of one kind that were steady, as a row of a Markdown table.
pub(super) fn table(legs: &[(u64, Leg, Figures)], options: &Options) -> Result<()> {
    say(
        "\n| keys | guarantee, commits | system | events per CPU-second | past warming up | events per second | broker CPU | peak memory | legs |",
    )?;
    say("|---|---|---|---|---|---|---|---|---|")?;
    let mut told: Vec<(u64, Leg)> = Vec::new();
    for (keys, leg, _) in legs {
        if told.contains(&(*keys, *leg)) {
            continue;
        }
        told.push((*keys, *leg));
        let alike: Vec<&Figures> = legs
            .iter()
            .filter(|(other, kind, _)| other == keys && kind == leg)
            .map(|(_, _, figures)| figures)
            .filter(|figures| options.counts(figures))
            .collect();
        let spread =
            |of: fn(&Figures) -> f64| Spread::of(alike.iter().map(|each| of(each)).collect());
        // a leg may be too short for one
        let slopes: Vec<f64> = alike.iter().filter_map(|each| each.warm).collect();
        let warm = if slopes.is_empty() {
            "-".to_owned()
        } else {
            format!("{:.0}", Spread::of(slopes))
        };
        say(&format!(
            "| {keys} | {}, {} ms | {} | {:.0} | {warm} | {:.0} | {:.1} s | {:.0} MiB | {} |",
            leg.guarantee,
            leg.commit_interval_ms,
            leg.system,
            spread(Figures::per_cpu_second),
            spread(Figures::per_second),
            spread(|figures| figures.broker_cpu_seconds),
            spread(|figures| figures.used.peak_mib),
            alike.len(),
        ))?;
    }
    Ok(())
}

/// First with second, third with fourth; `first` names the side that comes first in a pair.
pub(super) fn in_pairs(figures: &[(Leg, Figures)], first: Leg) -> Vec<(Figures, Figures)> {
    figures
        .chunks_exact(2)
        .filter_map(|pair| match pair {
            [(leg, a), (other, b)] if leg != other && *leg == first => Some((a.clone(), b.clone())),
            [(leg, b), (other, a)] if leg != other => Some((a.clone(), b.clone())),
            _ => None,
        })
        .collect()
}

/// Median and span of the quotients of pairs in which both legs were steady.
pub(super) fn compare(what: &str, pairs: &[(Figures, Figures)], options: &Options) -> Result<()> {
    if pairs.is_empty() {
        // one system alone
        return Ok(());
    }
    let steady: Vec<_> = pairs
        .iter()
        .filter(|(a, b)| options.counts(a) && options.counts(b))
        .collect();
    if steady.is_empty() {
        return say(&format!("{what}: no pair of steady legs, so no ratio"));
    }
    let ratio = |of: fn(&Figures) -> f64| {
        let quotients = steady.iter().map(|(a, b)| of(a) / of(b)).collect();
        Spread::of(quotients)
    };
    say(&format!(
        "{what}, {} of {} pairs: events per CPU-second {}, events per second {}, peak memory {}{}",
        steady.len(),
        pairs.len(),
        ratio(Figures::per_cpu_second),
        ratio(Figures::per_second),
        ratio(|figures| figures.used.peak_mib),
        if options.quick {
            " (a quick run: no claim about speed)"
        } else {
            ""
        },
    ))
}

struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    fn of(mut all: Vec<f64>) -> Self {
        all.sort_by(f64::total_cmp);
        let at = |place: usize| all.get(place).copied().unwrap_or(f64::NAN);
        let last = all.len().saturating_sub(1);
        Self {
            low: at(0),
            median: f64::midpoint(at(last / 2), at(last.div_ceil(2))),
            high: at(last),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(3);
        let Self { low, median, high } = self;
        write!(f, "{median:.digits$} ({low:.digits$} to {high:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_median_of_an_even_and_an_odd_number_of_values() {
        assert!((Spread::of(vec![4.0, 1.0, 2.0]).median - 2.0).abs() < 1e-9);
        assert!((Spread::of(vec![4.0, 1.0, 3.0, 2.0]).median - 2.5).abs() < 1e-9);
    }
}
