//! A worker process that dies at each named point of the protocol, and finds its disk full, with both guarantees. After it was
//! started again, what it wrote and what it holds must equal the independent computation.
//!
//! `turbine-worker-faults` is the worker with these points compiled in. A point that is not reached fails its test: the process
//! must have died by signal 9, with the pass in the log that it writes just before.

#[path = "crash_points/cases.rs"]
mod cases;
#[path = "crash_points/lives.rs"]
mod lives;

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use rstest::rstest;
use tokio::runtime::Handle;
use turbine_state::fault::FaultPoint;
use turbine_tests::bed::{Bed, Needs};
use turbine_tests::diagnostics::say;
use turbine_tests::process::tail;

use self::cases::{Case, Checkpoints, Fault, Guarantee, cases};
use self::lives::Lives;
use super::crashes::number;

/// They wait for the clock of checkpoints most of the time.
const AT_A_TIME: usize = 3;

async fn live(lives: &mut Lives, case: &Case) -> Result<()> {
    if let Some(before) = case.before {
        lives.die(before).await?;
    }
    match case.fault.point {
        FaultPoint::DiskFull => lives.fill_disk(case.fault).await?,
        FaultPoint::InRestore => {
            std::fs::remove_dir_all(lives.plan.state().join("per-tenant"))?;
            if case.checkpoints == Checkpoints::Bucket {
                // A volume that is lost has no journal either.
                std::fs::remove_dir_all(lives.plan.state().join("_journal"))?;
                std::fs::remove_file(lives.plan.state().join("turbine-volume.json"))?;
            }
            lives.die(case.fault).await?;
        }
        _ => lives.die(case.fault).await?,
    }
    lives.finish().await?;
    if case.fault.point == FaultPoint::InRestore {
        ensure!(
            lives.said().contains("brought back from a checkpoint"),
            "nothing was restored"
        );
    }
    lives.check(case.guarantee)
}

async fn run(bed: Bed, case: Case) -> Result<()> {
    let began = Instant::now();
    let mut lives = Lives::begin(&bed, &case).await?;
    let Err(error) = live(&mut lives, &case).await else {
        let took = began.elapsed().as_secs_f64();
        say(&format!(
            "{} {}, checkpoints in {:?}: right after {took:.1} s",
            case.guarantee, case.fault, case.checkpoints
        ));
        return Ok(());
    };
    let said = lives.said();
    let kept = lives.folder.keep();
    Err(error.context(format!(
        "{}, {}, checkpoints in {:?}; run it again by\n  {}\nstate and log are kept in {}\n{}",
        case.guarantee,
        case.fault,
        case.checkpoints,
        case.command(),
        kept.display(),
        tail(&said, 40)
    )))
}

#[rstest]
#[case::at_least_once(Guarantee::AtLeastOnce)]
#[case::exactly_once(Guarantee::ExactlyOnce)]
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_at_any_named_point_loses_and_doubles_nothing(
    #[case] guarantee: Guarantee,
) -> Result<()> {
    let points: Vec<FaultPoint> = FaultPoint::all().collect();
    die_at(guarantee, Checkpoints::Volume, &points).await
}

#[rstest]
#[case::at_least_once(Guarantee::AtLeastOnce)]
#[case::exactly_once(Guarantee::ExactlyOnce)]
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_with_its_checkpoints_in_a_bucket_loses_and_doubles_nothing(
    #[case] guarantee: Guarantee,
) -> Result<()> {
    die_at(guarantee, Checkpoints::Bucket, &Checkpoints::POINTS).await
}

#[rstest]
#[case::at_least_once(Guarantee::AtLeastOnce)]
#[case::exactly_once(Guarantee::ExactlyOnce)]
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_disk_was_full_commits_nothing_meanwhile_and_goes_on_once_there_is_room(
    #[case] guarantee: Guarantee,
) -> Result<()> {
    let Some(bed) = Bed::for_test("crash_points::full_disk", Needs::Broker)? else {
        return Ok(());
    };
    let case = Case {
        guarantee,
        checkpoints: Checkpoints::Volume,
        before: None,
        fault: Fault {
            point: FaultPoint::DiskFull,
            pass: 40,
        },
        seed: 1,
    };
    let mut lives = Lives::begin(&bed, &case).await?;
    let ended = lives.outlive_full_disk(case.fault).await;
    ended.with_context(|| tail(&lives.said(), 40))?;
    lives.check(guarantee)
}

/// Those of `all` that `TURBINE_FAULT_POINTS` names, or all.
fn wanted(all: &[FaultPoint]) -> Result<Vec<FaultPoint>> {
    let Ok(names) = std::env::var("TURBINE_FAULT_POINTS") else {
        return Ok(all.to_vec());
    };
    let named: Vec<FaultPoint> = names
        .split(',')
        .map(|name| name.parse().with_context(|| format!("no point: {name}")))
        .collect::<Result<_>>()?;
    Ok(all
        .iter()
        .copied()
        .filter(|point| named.contains(point))
        .collect())
}

async fn die_at(guarantee: Guarantee, checkpoints: Checkpoints, all: &[FaultPoint]) -> Result<()> {
    let points = wanted(all)?;
    let test = format!("crash_points::{guarantee}");
    let Some(bed) = Bed::for_test(&test, Needs::Broker)? else {
        return Ok(());
    };
    let rounds = match number("TURBINE_CRASHES", 0)? {
        0 => 1,
        kills => (kills / 50).max(2),
    };
    let now = std::time::UNIX_EPOCH.elapsed()?.as_secs();
    let seed = number("TURBINE_CRASH_SEED", now)?;
    let all = (seed..seed + rounds).flat_map(|seed| cases(guarantee, checkpoints, &points, seed));
    let failed: Vec<String> = futures::stream::iter(all)
        .map(|case| {
            let bed = bed.clone();
            // Clients block.
            tokio::task::spawn_blocking(move || Handle::current().block_on(run(bed, case)))
        })
        .buffer_unordered(AT_A_TIME)
        .filter_map(async |ended| match ended {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("{error:#}")),
            Err(error) => Some(format!("{error:#}")),
        })
        .collect()
        .await;
    ensure!(
        failed.is_empty(),
        "{}\n\n{} failed",
        failed.join("\n\n"),
        failed.len()
    );
    Ok(())
}
