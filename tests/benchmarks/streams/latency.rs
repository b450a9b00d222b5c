//! How long a commit takes while nothing else happens.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;
use turbine_tests::bed::Bed;
use turbine_tests::cluster::unique;
use turbine_tests::events::{EventPlan, START_MS};
use turbine_tests::kafka::{Record, partition_of};
use turbine_tests::process::{Running, free_port, tail};
use turbine_tests::scenario::Topics;

use super::answer::WINDOW_MS;
use super::leg::Leg;
use super::{Guarantee, Options, System, ours};
use crate::machine::say;

const WITHIN: Duration = Duration::from_mins(5);
/// Seldom enough that asking takes no time from the worker.
const LOOK: Duration = Duration::from_millis(20);

/// The worker's own count of commits and the time they took, over all tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Commits {
    count: f64,
    seconds: f64,
    running: f64,
}

fn read(metrics: &str) -> Result<Commits> {
    let sum = |name: &str| -> Result<f64> {
        metrics
            .lines()
            .filter(|line| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with('{'))
            })
            .map(|line| {
                let (_, value) = line.rsplit_once(' ').context("a metric without a value")?;
                Ok(value.parse::<f64>()?)
            })
            .sum()
    };
    Ok(Commits {
        count: sum("turbine_commit_seconds_count")?,
        seconds: sum("turbine_commit_seconds_sum")?,
        running: sum("turbine_worker_running")?,
    })
}

/// One record at a time, each closing the window of the one before: every commit has one result, one changed key and one offset.
pub(super) async fn measure(bed: &Bed, options: &Options, guarantee: Guarantee) -> Result<()> {
    let topics = Topics::new(bed, "bench");
    let input = topics.create("single", options.partitions).await?;
    let output = topics.create("single-results", options.partitions).await?;
    let leg = Leg {
        system: System::Ours,
        guarantee,
        commit_interval_ms: options.interval(guarantee),
    };
    let app = ours::app(
        &unique("bench"),
        &bed.bootstrap,
        &input,
        &output,
        leg,
        options,
    );
    let folder = TempDir::new()?;
    let address = format!("127.0.0.1:{}", free_port()?);
    let plan = ours::plan(bed, &app, folder.path(), options)?
        .argument("--listen")
        .argument(&address);
    let mut worker = plan.start()?;
    let gauge = Gauge {
        url: format!("http://{address}/metrics"),
        token: plan.state().join("control.token"),
    };
    let tasks = f64::from(options.partitions);
    let mut before = gauge
        .until(&mut worker, |commits| commits.running >= tasks)
        .await?;
    let tenant = (0..1_000_000)
        .find(|number| {
            partition_of(
                &EventPlan::closing_event(*number, 0).key,
                options.partitions,
            ) == 0
        })
        .context("no tenant of partition 0")?;
    let mut times = Vec::new();
    let mut merged = 0;
    for number in 0..options.commits {
        let event = EventPlan::closing_event(tenant, START_MS + i64::from(number) * WINDOW_MS);
        topics
            .kafka()
            .produce(&input, [Record::from(event)], None)?;
        let after = gauge
            .until(&mut worker, |commits| commits.count > before.count)
            .await?;
        // the first opens files and connections
        if after.count - before.count > 1.0 {
            merged += 1;
        } else if number > 0 {
            times.push((after.seconds - before.seconds) * 1_000.0);
        }
        before = after;
    }
    worker.terminate()?;
    let _status = worker.ended(WITHIN).await?;
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times.get(times.len() * share / 100).copied();
    let (Some(median), Some(ninth)) = (at(50), at(90)) else {
        bail!("no commit was seen by itself");
    };
    say(&format!(
        "{leg}: {} commits of one record on an idle broker took {median:.2} ms at the median ({:.2} to {:.2}, {ninth:.2} at the 90th percentile){}",
        times.len(),
        times.first().copied().unwrap_or_default(),
        times.last().copied().unwrap_or_default(),
        if merged > 0 {
            format!("; {merged} more were not seen by themselves")
        } else {
            String::new()
        },
    ))
}

/// Where the worker tells its numbers.
struct Gauge {
    url: String,
    token: PathBuf,
}

impl Gauge {
    async fn read(&self) -> Result<Commits> {
        let token = std::fs::read_to_string(&self.token)?;
        let request = turbine_tests::http::client()
            .get(&self.url)
            .bearer_auth(token.trim());
        read(&request.send().await?.error_for_status()?.text().await?)
    }

    async fn until(
        &self,
        worker: &mut Running,
        reached: impl Fn(&Commits) -> bool,
    ) -> Result<Commits> {
        let deadline = Instant::now() + WITHIN;
        loop {
            // refused while the worker starts
            let refusal = match self.read().await {
                Ok(commits) if reached(&commits) => return Ok(commits),
                Ok(commits) => format!("{commits:?}"),
                Err(error) => format!("{error:#}"),
            };
            if !worker.is_alive()? || Instant::now() > deadline {
                bail!(
                    "no commit in time; last {refusal}:\n{}",
                    tail(&worker.output(), 40)
                );
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_of_all_tasks_are_added_up() {
        let text = "# TYPE turbine_commit_seconds histogram\n\
            turbine_commit_seconds_sum{app=\"a\",subscription=\"s\",partition=\"0\"} 0.25\n\
            turbine_commit_seconds_count{app=\"a\",subscription=\"s\",partition=\"0\"} 2\n\
            turbine_commit_seconds_sum{app=\"a\",subscription=\"s\",partition=\"1\"} 0.5\n\
            turbine_commit_seconds_count{app=\"a\",subscription=\"s\",partition=\"1\"} 3\n\
            turbine_worker_running{app=\"a\",subscription=\"s\",partition=\"1\"} 1\n";
        let wanted = Commits {
            count: 5.0,
            seconds: 0.75,
            running: 1.0,
        };
        assert_eq!(read(text).unwrap(), wanted);
    }
}
