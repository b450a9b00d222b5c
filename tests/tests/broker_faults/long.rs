//! What takes minutes: time-outs of a minute run out, and many kills follow each other.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rstest::rstest;
use tempfile::TempDir;
use turbine_state::fault::FaultPoint;
use turbine_tests::bed::{Bed, Needs, skip};
use turbine_tests::brokers::{Brokers, Cut};
use turbine_tests::diagnostics::say;
use turbine_tests::kafka::Record;
use turbine_tests::{manifest::AppManifest, wait};

use super::{Case, PER_SECOND, Producing, WITHIN, begin, begin_with, events, kill_leaders};

/// The broker waits for a transaction for a minute, and looks for those that are over every second.
const OVER: Duration = Duration::from_secs(70);

/// More than ten intervals of either guarantee.
const STILL: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn leaders_killed_many_times_cost_no_record_and_no_result() -> Result<()> {
    let times = std::env::var("TURBINE_FAULTS").context("TURBINE_FAULTS: how many kills")?;
    kill_leaders(times.parse()?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stood_still_for_longer_than_its_transactions_goes_on_from_its_last_commit()
-> Result<()> {
    let Some(case) = begin("broker_faults::stands_still").await? else {
        return Ok(());
    };
    let producing = Producing::start(case.kafka(), &case.input);
    case.wait_for_all().await?;
    for side in &case.sides {
        side.signal("-STOP")?;
    }
    // The length of the fault is the test.
    tokio::time::sleep(OVER).await;
    for side in &case.sides {
        side.signal("-CONT")?;
    }
    case.wait_for_progress().await?;
    let side = case.exactly_once();
    // Which of the two notices first, the client that its records are too old or the broker, is up to their clocks.
    ensure!(
        side.said("TransactionTimedOut") + side.said("OutputNotAcknowledged") > 0,
        "no transaction was over"
    );
    ensure!(side.said("Fenced") == 0, "nobody has fenced it");
    case.finish(producing).await
}

/// One task stands still in the worker, with what it has written acknowledged: nothing is too old for the client, so that the
/// broker alone can say that the transaction is over. Once with results in it and no offset, once with the offset and in front
/// of its commit.
#[rstest]
#[case::with_its_results_written(FaultPoint::AfterProduce, 20)]
#[case::in_front_of_its_commit(FaultPoint::AfterOffsetsSent, 300)]
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_the_broker_gave_up_is_told_and_its_interval_is_done_again(
    #[case] point: FaultPoint,
    #[case] pass: u64,
) -> Result<()> {
    let folder = TempDir::new()?;
    let (passes, end) = (folder.path().join("passes"), folder.path().join("end"));
    let case = begin_with("broker_faults::gave_up", |bed, guarantee, plan| {
        if guarantee != "exactlyOnce" {
            return plan;
        }
        plan.program(bed.program("turbine-worker-faults"))
            .environment("TURBINE_FAULT", &format!("{point}:{pass}"))
            .environment("TURBINE_FAULT_LOG", &passes.to_string_lossy())
            .environment("TURBINE_FAULT_UNTIL", &end.to_string_lossy())
    });
    let Some(case) = case.await? else {
        return Ok(());
    };
    let producing = Producing::start(case.kafka(), &case.input);
    case.wait_for_all().await?;
    let side = case.exactly_once();
    let stood = format!("{point} {pass}");
    wait::until("a task that stands still", WITHIN, || async {
        let passed = std::fs::read_to_string(&passes)?;
        Ok(passed.lines().any(|line| line == stood).then_some(()))
    })
    .await?;
    ensure!(
        !case.brokers.has_aborted(&side.group())?,
        "something was aborted before"
    );
    wait::until("the broker to give its transaction up", WITHIN, || async {
        Ok(case.brokers.has_aborted(&side.group())?.then_some(()))
    })
    .await?;
    ensure!(side.said("TransactionTimedOut") == 0);
    std::fs::write(&end, "")?;
    wait::until("the worker to say so", WITHIN, || async {
        Ok((side.said("TransactionTimedOut") > 0).then_some(()))
    })
    .await?;
    ensure!(
        side.said("OutputNotAcknowledged") == 0,
        "what it had written was not acknowledged"
    );
    ensure!(side.said("Fenced") == 0, "nobody has fenced it");
    case.wait_for_progress().await?;
    case.finish(producing).await
}

/// The offsets of both sides, each summed, without those of transactions that are open.
fn stable_offsets(case: &Case) -> Result<Vec<i64>> {
    let sides = case.sides.iter();
    sides
        .map(|side| {
            let committed = case
                .kafka()
                .committed_beside_open(&side.group(), &case.input)?;
            Ok(committed.values().sum())
        })
        .collect()
}

/// The offsets of both sides, once neither has moved for as long as several commits take: what had reached a broker before it
/// was cut off may still be committed.
async fn standing_still(case: &Case) -> Result<Vec<i64>> {
    let mut last = (Vec::new(), Instant::now());
    wait::until("offsets that stand still", STILL * 4, || {
        let settled = stable_offsets(case).map(|now| {
            if now != last.0 {
                last = (now, Instant::now());
            }
            (last.1.elapsed() >= STILL).then(|| last.0.clone())
        });
        async move { settled }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_cut_off_for_longer_than_its_transactions_goes_on_from_its_last_commit()
-> Result<()> {
    if !Cut::can_be_made() {
        let reason = "this machine has no packet filter (nft)";
        return skip("broker_faults::cut_off", reason);
    }
    let Some(case) = begin("broker_faults::cut_off").await? else {
        return Ok(());
    };
    let producing = Producing::start(case.kafka(), &case.input);
    case.wait_for_all().await?;
    let side = case.exactly_once();
    let restarts = side.said("the task starts again");
    let began = Instant::now();
    let cut = Cut::begin(&case.bed)?;
    let offsets = standing_still(&case).await?;
    let what = "the offsets of workers that reach no broker";
    wait::holds(what, OVER.saturating_sub(began.elapsed()), || async {
        let now = stable_offsets(&case)?;
        ensure!(now == offsets, "{offsets:?} became {now:?}");
        Ok(true)
    })
    .await?;
    drop(cut);
    case.wait_for_progress().await?;
    // What was open was aborted, so a task has begun again behind its last commit.
    ensure!(
        side.said("the task starts again") > restarts,
        "no task began anew: {restarts} had before the cut, and as many have now"
    );
    ensure!(side.said("Fenced") == 0, "nobody has fenced it");
    case.finish(producing).await
}

/// The bed's brokers forget an id after 40 s (`transactional.id.expiration.ms`).
#[tokio::test(flavor = "multi_thread")]
async fn a_record_after_the_broker_forgot_an_idle_transactional_id_is_counted_once() -> Result<()> {
    let Some(case) = begin("broker_faults::forgets").await? else {
        return Ok(());
    };
    let written = {
        let producing = Producing::start(case.kafka(), &case.input);
        case.wait_for_all().await?;
        producing.end()?
    };
    let side = case.exactly_once();
    wait::until("the broker forgets", WITHIN, || async {
        Ok((!case.brokers.knows_id(&side.group())?).then_some(()))
    })
    .await?;
    let late = events();
    let next = Record::from(late.event(written + PER_SECOND));
    case.kafka().produce(&case.input, [next], None)?;
    case.kafka()
        .produce_closing(&case.input, late.end_ms() + 3_600_000)?;
    for side in &case.sides {
        let report = AppManifest::query(&case.bed.bootstrap, &case.input, &side.output)
            .compare(&case.bed.kafka_libs, WITHIN)?;
        report.check().context(side.guarantee)?;
        ensure!(report.repeated == 0, "{report:?}");
        ensure!(side.said("the task halts") == 0);
        let restarts = side.said("the task starts again");
        ensure!(restarts <= 12, "{restarts} restarts for 6 tasks");
        say(&format!("{}: {restarts} restarts of tasks", side.guarantee));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_timeout_above_the_brokers_limit_is_named_until_the_limit_is_raised()
-> Result<()> {
    let Some(bed) = Bed::for_test("broker_faults::limit", Needs::Broker)? else {
        return Ok(());
    };
    let brokers = Brokers::new(&bed)?;
    brokers.set("transaction.max.timeout.ms=30000")?;
    brokers.restart_all()?;
    let refused = async {
        let case = begin("broker_faults::limit").await?.context("a bed")?;
        let side = case.exactly_once();
        wait::until("the refusal", WITHIN, || async {
            let reason = side.said("TransactionTimeoutRefused") > 0;
            let limit = side.said("transaction.max.timeout.ms") > 0;
            Ok((reason && limit).then_some(()))
        })
        .await?;
        Ok::<_, anyhow::Error>(case)
    }
    .await;
    brokers.set("transaction.max.timeout.ms=900000")?;
    brokers.restart_all()?;
    let case = refused?;
    let producing = Producing::start(case.kafka(), &case.input);
    case.wait_for_all().await?;
    case.wait_for_progress().await?;
    case.finish(producing).await
}
