//! `turbine-operator`: see `--help`.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser as _;
use kube::Client;
use turbine_operator::settings::{Command, LogFormat, Settings};

#[tokio::main]
async fn main() -> ExitCode {
    let settings = Settings::parse();
    if let Some(Command::Phases) = settings.command {
        print(&turbine_operator::app::plan::phase_table());
        return ExitCode::SUCCESS;
    }
    if let Some(Command::RescaleSteps) = settings.command {
        print(&turbine_operator::app::plan::rescale::step_table());
        return ExitCode::SUCCESS;
    }
    if let Err(error) = log(&settings) {
        complain(&format!("--log-level: {error}"));
        return ExitCode::from(2);
    }
    let client = match Client::try_default().await {
        Ok(client) => client,
        Err(error) => {
            complain(&format!(
                "no way to a cluster: {error}\nset KUBECONFIG, or run inside a cluster with a service account"
            ));
            return ExitCode::FAILURE;
        }
    };
    match turbine_operator::run(client, settings).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn log(settings: &Settings) -> Result<(), tracing_subscriber::filter::ParseError> {
    let filter = tracing_subscriber::EnvFilter::try_new(&settings.log_level)?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // A reader of the log that went away must not end the operator.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match settings.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
fn print(text: &str) {
    print!("{text}");
}

#[expect(clippy::print_stderr, reason = "there is no log yet")]
fn complain(text: &str) {
    eprintln!("{text}");
}
