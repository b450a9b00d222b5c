use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use turbine_crds::app::{LogFormat, LogLevel};

/// Starts logging to standard error, so that standard output is free for results. `RUST_LOG`
/// overrides the app's level.
pub(super) fn start(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A reader of the log that went away must not end the tasks: the report of a failed write would be written to the
        // same place, and panic there.
        .log_internal_errors(false)
        // Colours are for eyes; in a file or a pod's log they are noise.
        .with_ansi(std::io::stderr().is_terminal());
    let started = match format {
        LogFormat::Text => logs.try_init(),
        LogFormat::Json => logs.json().try_init(),
    };
    if let Err(error) = started {
        tracing::debug!(%error, "logging was started before");
    }
}
