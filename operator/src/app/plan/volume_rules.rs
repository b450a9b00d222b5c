//! What `Degraded` says of volumes that are almost full.

use std::collections::BTreeMap;

use turbine_crds::control::WorkerStatus;

use super::verdict::Standing;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The pods whose volume is almost full. The same words while its room changes a little.
pub(super) fn almost_full(reports: &BTreeMap<&str, &WorkerStatus>) -> Vec<String> {
    let told = reports.iter().filter_map(|(pod, report)| {
        let room = report.volume?;
        let below = room.almost_full_below()?;
        Some(format!(
            "{pod} has less than {} of {} free",
            rounded(below),
            rounded(room.size_bytes)
        ))
    });
    told.collect()
}

/// What is about to happen, where, and what to do.
pub(super) fn message(standing: &Standing) -> Option<String> {
    let full = &standing.workers.as_ref()?.almost_full;
    let remedy = if standing.growing.is_empty() {
        "raise `spec.state.volume.size`: volumes grow in place where their storage class allows it"
            .to_owned()
    } else {
        format!(
            "they were told to grow and have not yet: {}; if that lasts, the provisioner says why",
            standing.growing.join(", ")
        )
    };
    (!full.is_empty()).then(|| {
        format!(
            "volumes are almost full, and tasks stop on a full one (`StorageFull`) until it has room: {}; {remedy}",
            full.join(", ")
        )
    })
}

/// Whole GiB, below one whole MiB.
fn rounded(bytes: u64) -> String {
    let (unit, name) = if bytes >= GIB {
        (GIB, "GiB")
    } else {
        (MIB, "MiB")
    };
    format!("{} {name}", bytes.saturating_add(unit / 2) / unit)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(10_737_418_240, "10 GiB")]
    // What a file system leaves of a volume of 10 GiB.
    #[case(10_464_022_528, "10 GiB")]
    #[case(1_073_741_824, "1 GiB")]
    #[case(536_870_912, "512 MiB")]
    #[case(1_048_576, "1 MiB")]
    fn sizes_are_told_in_whole_units(#[case] bytes: u64, #[case] told: &str) {
        assert_eq!(rounded(bytes), told);
    }
}
