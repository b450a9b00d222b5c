//! What a person needs to see when a test has failed.

use std::io::Write as _;

use crate::cluster::kubectl;
use crate::process::{self, tail};

/// Writes a line to the test's output.
pub fn say(text: &str) {
    // a closed standard error is no reason to fail
    let _written = writeln!(std::io::stderr(), "{text}");
}

fn show(title: &str, arguments: &[&str], lines: usize) {
    let text = match process::attempt(kubectl().args(arguments)) {
        Ok(outcome) => format!("{}{}", outcome.stdout, outcome.stderr),
        Err(error) => format!("{error:#}"),
    };
    if !text.trim().is_empty() {
        say(&format!("---- {title}\n{}", tail(&text, lines)));
    }
}

/// Apps, pods, events and logs of a namespace.
pub fn dump(namespace: &str) {
    say(&format!("==== namespace {namespace}"));
    show(
        "objects",
        &[
            "-n",
            namespace,
            "get",
            "tapp,sts,pods,pvc,cm,secrets,leases",
            "-o",
            "wide",
        ],
        60,
    );
    show("apps", &["-n", namespace, "get", "tapp", "-o", "yaml"], 250);
    show(
        "events",
        &["-n", namespace, "get", "events", "--sort-by=.lastTimestamp"],
        60,
    );
    let Ok(pods) = process::attempt(kubectl().args(["-n", namespace, "get", "pods", "-o", "name"]))
    else {
        return;
    };
    for pod in pods.stdout.lines() {
        show(
            &format!("log of {pod}"),
            &[
                "-n",
                namespace,
                "logs",
                pod,
                "--all-containers",
                "--tail=60",
            ],
            60,
        );
        show(
            &format!("log of {pod} before its last restart"),
            &["-n", namespace, "logs", pod, "--previous", "--tail=40"],
            40,
        );
    }
}
