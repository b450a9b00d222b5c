//! The program as pods run it: files in, signals, exit codes, the control API.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::type_complexity
)]

mod common;
#[path = "process/local.rs"]
mod local;
#[path = "process/volume.rs"]
mod volume;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Bed, app, eventually};
use serde_json::{Value, json};
use turbine_crds::control::{TaskState, WorkerStatus};
use turbine_kafka::Refusal;

const MINUTE: i64 = 60_000;
const TOKEN: &str = "s3cret";

struct Worker {
    child: Child,
    port: u16,
}

fn client() -> reqwest::Client {
    // The library comes without a choice of cryptography, and each program makes it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A test that failed leaves no process behind. One that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Worker {
    fn start(bed: &Bed, app: &Value) -> Self {
        let app = serde_json::to_string(&bed.compiled(app)).unwrap();
        Self::start_with(bed, &bed.write("app.json", &app))
    }

    fn start_with(bed: &Bed, app_file: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let child = Command::new(env!("CARGO_BIN_EXE_turbine-worker"))
            .env("TURBINE_APP_FILE", app_file)
            .env("TURBINE_ASSIGNMENT_FILE", bed.path("assignment.json"))
            .env("TURBINE_TOKEN_FILE", bed.write("token", TOKEN))
            .env("TURBINE_STATE_DIR", bed.path("state"))
            .env("TURBINE_LISTEN", format!("127.0.0.1:{port}"))
            .env("POD_NAME", "a-0")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, port }
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    fn exit(mut self) -> (Option<i32>, Duration) {
        let started = Instant::now();
        let status = eventually("the process ends", || {
            self.child
                .try_wait()
                .unwrap()
                .ok_or_else(|| "runs".to_owned())
        });
        (status.code(), started.elapsed())
    }

    fn call(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Option<&str>,
    ) -> (u16, String) {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        eventually("the control API answers", || {
            runtime.block_on(async {
                let mut request = client().request(method.parse().unwrap(), &url);
                if let Some(token) = token {
                    request = request.bearer_auth(token);
                }
                if let Some(body) = body {
                    request = request
                        .header("content-type", "application/json")
                        .body(body.to_owned());
                }
                let answer = request.send().await.map_err(|error| error.to_string())?;
                let code = answer.status().as_u16();
                Ok((
                    code,
                    answer.text().await.map_err(|error| error.to_string())?,
                ))
            })
        })
    }

    fn status(&self) -> WorkerStatus {
        let (code, body) = self.call("GET", "/status", Some(TOKEN), None);
        assert_eq!(code, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    fn until(&self, what: &str, holds: impl Fn(&WorkerStatus) -> bool) {
        eventually(what, || {
            let status = self.status();
            if holds(&status) {
                Ok(())
            } else {
                Err(format!("{status:#?}"))
            }
        });
    }
}

fn assign(bed: &Bed, epoch: i64) {
    bed.write(
        "assignment.json",
        &serde_json::to_string(&bed.document(epoch, "a-0")).unwrap(),
    );
}

fn caught_up(status: &WorkerStatus) -> bool {
    !status.tasks.is_empty()
        && status.tasks.iter().all(|task| {
            task.state == TaskState::Running
                && task.end_offset.is_some()
                && task.position >= task.end_offset
        })
}

#[test]
fn the_control_api_asks_for_the_token_and_says_whether_it_is_ready() {
    let bed = Bed::new(2);
    let worker = Worker::start(&bed, &app());
    let (code, body) = worker.call("GET", "/healthz", None, None);
    assert_eq!((code, body.as_str()), (200, "alive\n"));
    let (code, body) = worker.call("GET", "/readyz", None, None);
    assert_eq!((code, body.as_str()), (503, "no assignment yet\n"));

    for (method, path) in [
        ("GET", "/metrics"),
        ("GET", "/status"),
        ("PUT", "/assignment"),
        ("POST", "/placement/clear"),
    ] {
        for token in [None, Some("wrong")] {
            let (code, body) = worker.call(method, path, token, Some("{}"));
            assert_eq!(code, 401, "{method} {path}: {body}");
        }
    }
    let (_, metrics) = worker.call("GET", "/metrics", Some(TOKEN), None);
    assert!(
        metrics.contains("turbine_api_unauthorized_total{app=\"a\"} 8"),
        "{metrics}"
    );

    let put = |epoch: i64, pod: &str| {
        let body = serde_json::to_string(&bed.document(epoch, pod)).unwrap();
        worker
            .call("PUT", "/assignment", Some(TOKEN), Some(&body))
            .0
    };
    assert_eq!(
        worker.call("PUT", "/assignment", Some(TOKEN), Some("{}")).0,
        400
    );
    assert_eq!(put(5, "a-0"), 202);
    assert_eq!(put(5, "a-0"), 200);
    assert_eq!(put(4, "a-0"), 409);
    assert_eq!(put(5, "a-1"), 409);
    worker.until("both tasks run", |status| {
        status.epoch == Some(5) && caught_up(status)
    });
    assert_eq!(
        worker.call("GET", "/readyz", None, None),
        (200, "ready\n".to_owned())
    );

    let clear = |body| worker.call("POST", "/placement/clear", Some(TOKEN), Some(body));
    let (code, body) = clear(r#"{"partition": 1}"#);
    assert_eq!(code, 200, "{body}");
    let report: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(report["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(report["tasks"][0]["partition"], 1);
    assert_eq!(report["tasks"][0]["cleared"], true);
    assert_eq!(clear(r#"{"partitions": 1}"#).0, 400);
    assert_eq!(clear("[").0, 400);
    // The API server's proxy passes every header on but `Authorization`.
    for (token, expected) in [(TOKEN, 200), ("wrong", 401)] {
        let url = format!("http://127.0.0.1:{}/status", worker.port);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let asked = client().get(url).header("turbine-control-token", token);
        let answer = runtime.block_on(asked.send()).unwrap();
        assert_eq!(answer.status().as_u16(), expected);
    }

    // A file with an older assignment is not run; one without tasks for this pod stops them all.
    assign(&bed, 3);
    assert_eq!(put(6, "a-1"), 202);
    worker.until("no task is left", |status| {
        status.epoch == Some(6) && status.tasks.is_empty()
    });
    assign(&bed, 7);
    worker.until("the file is read again", |status| {
        status.epoch == Some(7) && caught_up(status)
    });
    worker.signal("-TERM");
    assert_eq!(worker.exit().0, Some(0));
}

/// Whether the process has a handler of its own for SIGTERM (`proc_pid_status(5)`).
fn catches_sigterm(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    mask & (1 << (15 - 1)) != 0
}

#[test]
fn a_term_that_comes_before_the_worker_has_started_ends_the_process() {
    let bed = Bed::new(1);
    // Nobody writes into it, so the start waits for its first file.
    let never = bed.path("never");
    assert!(
        Command::new("mkfifo")
            .arg(&never)
            .status()
            .unwrap()
            .success()
    );
    let worker = Worker::start_with(&bed, &never);
    eventually("the signal is caught", || {
        catches_sigterm(worker.child.id())
            .then_some(())
            .ok_or_else(|| "not caught".to_owned())
    });
    worker.signal("-TERM");
    let (code, _) = worker.exit();
    assert_eq!(code, Some(143));
}

#[test]
fn a_halted_task_makes_the_worker_unready_and_no_less_alive() {
    let bed = Bed::new(1);
    bed.produce([(None, Some(&b"{"[..]))]);
    assign(&bed, 1);
    let worker = Worker::start(&bed, &app());
    let body = eventually("it is not ready", || {
        let (code, body) = worker.call("GET", "/readyz", None, None);
        if code == 503 && body.contains("BadRecord") {
            Ok(body)
        } else {
            Err(body)
        }
    });
    assert!(body.contains("task s/0 is halted"), "{body}");
    assert_eq!(worker.call("GET", "/healthz", None, None).0, 200);
    worker.signal("-TERM");
    assert_eq!(worker.exit().0, Some(0));
}

/// Exit code 0 says that all that was done is committed.
#[test]
fn a_stop_that_gives_outputs_up_ends_with_another_exit_code() {
    let bed = Bed::new(1);
    let now = jiff::Timestamp::now().as_millisecond();
    let t0 = now - now % MINUTE - 50 * MINUTE;
    bed.produce_events(&[("u", 1, t0), ("later", 1, t0 + 3 * MINUTE)]);
    bed.broker.refuse(Refusal::RecordNotWritten, 10_000);
    assign(&bed, 1);
    let worker = Worker::start(&bed, &app());
    worker.until("its result is not written", |status| {
        status.tasks.iter().any(|task| {
            let halt = task.halt.as_ref();
            halt.is_some_and(|halt| halt.reason == "OutputNotAcknowledged")
        })
    });
    worker.signal("-TERM");
    assert_eq!(worker.exit().0, Some(1));
}

fn sums(results: &[Value]) -> BTreeMap<(String, i64), i64> {
    results
        .iter()
        .map(|row| {
            let key = row["user"].as_str().unwrap().to_owned();
            (
                (key, row["window_start_ms"].as_i64().unwrap()),
                row["total"].as_i64().unwrap(),
            )
        })
        .collect()
}

#[test]
fn killed_at_any_moment_every_last_result_is_right_and_a_term_ends_it_clean() {
    let bed = Bed::new(4);
    let now = jiff::Timestamp::now().as_millisecond();
    let start = now - now % MINUTE - 50 * MINUTE;
    let mut app = app();
    app["subscriptions"][0]["outOfOrdernessMs"] = json!(60_000);
    app["subscriptions"][0]["commitIntervalMs"] = json!(20);
    assign(&bed, 1);

    let mut expected: BTreeMap<(String, i64), i64> = BTreeMap::new();
    let mut produced = 0;
    for round in 0..6_i64 {
        let worker = Worker::start(&bed, &app);
        for piece in 0..20_i64 {
            let events: Vec<(String, i64, i64)> = (0..500)
                .map(|at| {
                    let n = (round * 20 + piece) * 500 + at;
                    // Ahead by 40 ms a record, out of order by up to half a minute: windows
                    // close all the time.
                    let ts = start + n * 40 - (n * 7_919) % 30_000;
                    (format!("user-{}", n % 101), n % 13 - 3, ts)
                })
                .collect();
            for (user, amount, ts) in &events {
                *expected
                    .entry((user.clone(), ts.div_euclid(MINUTE) * MINUTE))
                    .or_default() += amount;
            }
            let borrowed: Vec<(&str, i64, i64)> = events
                .iter()
                .map(|(user, amount, ts)| (user.as_str(), *amount, *ts))
                .collect();
            bed.produce_events(&borrowed);
            produced += events.len();
        }
        // Not at rest: commits come every 20 ms while records are still being read.
        worker.until("it has committed something of this round", |status| {
            status.tasks.iter().map(|task| task.records).sum::<u64>() > 500
        });
        worker.signal("-KILL");
        assert_eq!(worker.exit().0, None, "killed");
    }

    let worker = Worker::start(&bed, &app);
    for user in 0..64 {
        bed.produce_events(&[(&*format!("end-{user}"), 0, now)]);
    }
    worker.until(
        "all is read and every window of the test has closed",
        |status| {
            caught_up(status)
                && status
                    .tasks
                    .iter()
                    .all(|task| task.frontier_ms == Some(now - 60_000))
        },
    );
    let whole = i64::try_from(produced).unwrap() + 64;
    worker.until("all of it is committed", |status| {
        let positions = status.tasks.iter().map(|task| task.position);
        positions.map(Option::unwrap_or_default).sum::<i64>() == whole
    });
    worker.signal("-TERM");
    let (code, took) = worker.exit();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(10), "{took:?}");

    let mut got = sums(&bed.results());
    got.retain(|(user, _), _| !user.starts_with("end-"));
    assert_eq!(got.len(), expected.len());
    assert_eq!(got, expected);
}
