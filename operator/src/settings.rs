//! The command line.

use std::net::SocketAddr;

use clap::{Parser, Subcommand, ValueEnum};

/// Runs `TurbineApps`: turns each into topics, a StatefulSet of workers and an assignment.
///
/// Needs a kubeconfig, or the service account of its pod. Every option can be given as a variable.
#[derive(Debug, Clone, Parser)]
#[command(name = "turbine-operator", version, about, long_about)]
pub struct Settings {
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Image of the workers of apps that name none in spec.worker.image
    #[arg(long, env = "TURBINE_WORKER_IMAGE", value_name = "IMAGE")]
    pub worker_image: Option<String>,

    /// Namespaces to watch, separated by commas; none: the whole cluster
    #[arg(
        long,
        env = "TURBINE_NAMESPACES",
        value_name = "NAMESPACES",
        value_delimiter = ','
    )]
    pub namespaces: Vec<String>,

    /// Namespace of the lease
    #[arg(
        long,
        env = "TURBINE_LEASE_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "default"
    )]
    pub lease_namespace: String,

    /// Name of the lease; operators that may act on the same apps must share it
    #[arg(
        long,
        env = "TURBINE_LEASE_NAME",
        value_name = "NAME",
        default_value = "turbine-operator"
    )]
    pub lease_name: String,

    /// Act without a lease: for a single operator on a developer's machine
    #[arg(long, env = "TURBINE_NO_LEASE")]
    pub no_lease: bool,

    /// Address of /healthz, /readyz and /metrics
    #[arg(
        long,
        env = "TURBINE_METRICS_ADDR",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8080"
    )]
    pub metrics_addr: SocketAddr,

    /// What is logged: a level, or directives like info,kube=debug
    #[arg(
        long,
        env = "TURBINE_LOG_LEVEL",
        value_name = "FILTER",
        default_value = "info"
    )]
    pub log_level: String,

    #[arg(long, env = "TURBINE_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// Who this process is, in the lease and in events; default: a random name
    #[arg(long = "id", env = "POD_NAME", value_name = "NAME")]
    pub identity: Option<String>,
}

/// Things to do instead of running.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum Command {
    /// Prints the phases of an app and what each may become
    Phases,
    /// Prints the steps of a rescale, what is on record at each and what it waits for
    RescaleSteps,
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}
