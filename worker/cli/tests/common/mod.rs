//! The program as a process.
#![allow(dead_code, reason = "each test program uses its part")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

pub(crate) fn cli(arguments: &[&str], stdin: impl AsRef<[u8]>) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_turbine-cli"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // A program that refuses its arguments reads nothing, and the pipe breaks.
    let _written = input.write_all(stdin.as_ref());
    drop(input);
    child.wait_with_output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
