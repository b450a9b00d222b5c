//! The program: arguments, logs, signals, exit codes.

mod logs;
mod run;
mod serve;
mod signals;
mod usage;
mod watch;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use turbine_crds::assignment::{ASSIGNMENT_DIR, ASSIGNMENT_FILE};
use turbine_crds::compiled::{
    CHECKPOINT_SECRET_DIR, COMPILED_APP_DIR, COMPILED_APP_FILE, CONTROL_PORT, CONTROL_TOKEN_DIR,
    KAFKA_SECRET_DIR, STATE_DIR,
};
use turbine_crds::quantity::Quantity;

/// Less does not hold a store and its clients.
const LEAST_MEMORY: u64 = turbine_crds::rules::limits::MEMORY;

/// Runs the tasks of a Turbine app: in a pod as its operator says, or by hand with `run`.
#[derive(Debug, Parser)]
#[command(
    name = "turbine-worker",
    version,
    args_conflicts_with_subcommands = true
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run in a pod: app, assignment and secrets from files. The default.
    Serve(ServeArguments),
    /// Run a whole app in this process, from its TurbineApp file, without Kubernetes.
    Run(RunArguments),
}

/// Paths and addresses of a worker pod.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServeArguments {
    /// The compiled app.
    #[arg(long, env = "TURBINE_APP_FILE", default_value_os_t = PathBuf::from(format!("{COMPILED_APP_DIR}/{COMPILED_APP_FILE}")))]
    pub(crate) app_file: PathBuf,
    /// The assignment; read again whenever it changes.
    #[arg(long, env = "TURBINE_ASSIGNMENT_FILE", default_value_os_t = PathBuf::from(format!("{ASSIGNMENT_DIR}/{ASSIGNMENT_FILE}")))]
    pub(crate) assignment_file: PathBuf,
    /// Folder of the Kafka secrets.
    #[arg(long, env = "TURBINE_KAFKA_SECRETS", default_value = KAFKA_SECRET_DIR)]
    pub(crate) kafka_secrets: PathBuf,
    /// Folder of the credentials of the checkpoints' store, with the file names that pods have.
    #[arg(long, env = "TURBINE_CHECKPOINT_SECRETS", default_value = CHECKPOINT_SECRET_DIR)]
    pub(crate) checkpoint_secrets: PathBuf,
    /// The control API's token.
    #[arg(long, env = "TURBINE_TOKEN_FILE", default_value_os_t = PathBuf::from(format!("{CONTROL_TOKEN_DIR}/token")))]
    pub(crate) token_file: PathBuf,
    /// Where state lies.
    #[arg(long, env = "TURBINE_STATE_DIR", default_value = STATE_DIR)]
    pub(crate) state_dir: PathBuf,
    /// Name of this pod in the assignment.
    #[arg(long, env = "POD_NAME", default_value = "local")]
    pub(crate) pod: String,
    /// Address of the control API.
    #[arg(long, env = "TURBINE_LISTEN", default_value_t = SocketAddr::from(([0, 0, 0, 0], CONTROL_PORT)))]
    pub(crate) listen: SocketAddr,
    /// Seconds that tasks may take to stop before outputs that no broker acknowledges are given
    /// up. Keep it below the pod's grace period.
    #[arg(long, env = "TURBINE_STOP_PATIENCE", default_value_t = 20)]
    pub(crate) stop_patience: u64,
    /// Most records that are decoded and folded at once.
    #[arg(long, env = "TURBINE_BATCH_RECORDS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_records: u32,
}

/// What `run` takes.
#[derive(Debug, Clone, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch on the command line"
)]
pub(crate) struct RunArguments {
    /// The TurbineApp, as YAML or JSON.
    #[arg(long)]
    pub(crate) app: PathBuf,
    /// Where state, assignment and token are kept.
    #[arg(long)]
    pub(crate) state_dir: PathBuf,
    /// Kafka instead of the one in the file.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "embedded_broker")]
    pub(crate) bootstrap: Option<String>,
    /// Bring a broker of its own, within this process. It forgets everything at the end.
    #[arg(long)]
    pub(crate) embedded_broker: bool,
    /// Partitions of the inputs that the embedded broker makes, where the file names no count.
    #[arg(long, default_value_t = 12, requires = "embedded_broker", value_parser = clap::value_parser!(u32).range(1..=960))]
    pub(crate) input_partitions: u32,
    /// Run keyed state also on inputs whose partition count does not divide 960, as
    /// `spec.allowNonDivisorPartitions` does.
    #[arg(
        long,
        env = "TURBINE_ALLOW_NON_DIVISOR_PARTITIONS",
        value_parser = clap::builder::FalseyValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    pub(crate) allow_non_divisor_partitions: bool,
    /// Write this many sample records a second into every input.
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) generate: Option<u32>,
    /// Print results as they come out.
    #[arg(long)]
    pub(crate) print_results: bool,
    /// End as soon as everything that lies in the inputs was read and committed.
    #[arg(long)]
    pub(crate) until_caught_up: bool,
    /// Folder of the Kafka secrets, with the file names that pods have.
    #[arg(long, default_value = KAFKA_SECRET_DIR)]
    pub(crate) kafka_secrets: PathBuf,
    /// Folder of the credentials of the checkpoints' store, with the file names that pods have.
    #[arg(long, default_value = CHECKPOINT_SECRET_DIR)]
    pub(crate) checkpoint_secrets: PathBuf,
    /// Address of the control API; by default a free local port.
    #[arg(long, default_value_t = SocketAddr::from(([127, 0, 0, 1], 0)))]
    pub(crate) listen: SocketAddr,
    /// Most records that are decoded and folded at once.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_records: u32,
    /// Size caches, queues and commits for this much memory, as a pod does for its limit; for
    /// example 1Gi. By default the limit of the container, else the machine's memory.
    #[arg(long, value_name = "QUANTITY", value_parser = bytes)]
    pub(crate) memory: Option<u64>,
}

fn bytes(text: &str) -> Result<u64, String> {
    let quantity = Quantity::parse(text).map_err(|error| error.to_string())?;
    quantity
        .ceil()
        .filter(|bytes| *bytes >= LEAST_MEMORY)
        .ok_or_else(|| format!("`{text}` is too little: give 128Mi or more"))
}

/// Runs the program to its end.
#[must_use]
pub fn run(arguments: Arguments) -> ExitCode {
    let ended = match arguments.command {
        None => serve::serve(&arguments.serve),
        Some(Command::Serve(serve)) => serve::serve(&serve),
        Some(Command::Run(run)) => run::run(&run),
    };
    match ended {
        Ok(code) => code,
        Err(error) => {
            report(&*error);
            ExitCode::FAILURE
        }
    }
}

/// Told on standard error as well: the fault may be that there is no log yet.
#[allow(clippy::print_stderr)]
fn report(error: &dyn std::error::Error) {
    eprintln!("turbine-worker: {error}");
}

pub(crate) type Fatal = Box<dyn std::error::Error + Send + Sync>;
