//! `turbine-worker run` beside a broker that is not ready.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use turbine_kafka::EmbeddedBroker;

use super::common::{Bed, eventually};

const APP: &str = r#"
apiVersion: turbine.dev/v1alpha1
kind: TurbineApp
metadata: {name: a}
spec:
  kafka: {bootstrapServers: "localhost:9092"}
  subscriptions:
    - name: s
      input:
        topic: in
        format: json
        columns:
          - {name: user, type: string}
          - {name: amount, type: int64}
          - {name: ts, type: int64}
        eventTime: {field: ts, unit: ms}
      partitionKey: user
      windows:
        - name: minute
          tumbling: {size: 1m}
          keys: [user]
          aggregates:
            - {sum: amount, as: total}
      output: {topic: out, messageKey: user}
  state:
    volume: {size: 1Gi}
"#;

struct Run {
    child: Child,
}

impl Drop for Run {
    fn drop(&mut self) {
        // A test that failed leaves no process behind. One that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// With a broker that has no topics yet.
fn bed() -> Bed {
    Bed {
        broker: EmbeddedBroker::start().unwrap(),
        ..Bed::new(1)
    }
}

impl Run {
    fn start(bed: &Bed) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_turbine-worker"))
            .arg("run")
            .arg("--app")
            .arg(bed.write("app.yaml", APP))
            .arg("--state-dir")
            .arg(bed.path("state"))
            .args(["--bootstrap", bed.broker.bootstrap_servers()])
            .args(["--memory", "512Mi", "--until-caught-up"])
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stderr(File::create(bed.path("log")).unwrap())
            .spawn()
            .unwrap();
        Self { child }
    }

    fn says(&mut self, bed: &Bed, words: &str) {
        eventually(&format!("it says: {words}"), || {
            let log = std::fs::read_to_string(bed.path("log")).unwrap();
            assert_eq!(self.child.try_wait().unwrap(), None, "it has ended: {log}");
            log.contains(words).then_some(()).ok_or(log)
        });
    }

    fn code(&mut self) -> Option<i32> {
        let ended = eventually("the process ends", || {
            let ended = self.child.try_wait().unwrap();
            ended.ok_or_else(|| "runs".to_owned())
        });
        ended.code()
    }
}

fn create(bed: &Bed, topic: &str) {
    let count = bed.partitions.try_into().unwrap();
    bed.broker
        .create_topic(&topic.parse().unwrap(), count)
        .unwrap();
}

#[test]
fn a_start_says_what_it_waits_for_and_goes_on_once_it_is_there() {
    let bed = bed();
    let mut run = Run::start(&bed);
    run.says(&bed, "input topic `in` does not exist");
    create(&bed, "in");
    // The broker within this process cannot be asked to create a topic.
    run.says(&bed, "could not create");
    create(&bed, "out");
    assert_eq!(run.code(), Some(0));
}

#[test]
fn a_start_that_waits_ends_when_it_is_told_to_stop() {
    let bed = bed();
    let mut run = Run::start(&bed);
    run.says(&bed, "input topic `in` does not exist");
    let sent = Command::new("kill")
        .args(["-TERM", &run.child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    assert_eq!(run.code(), Some(143));
}
