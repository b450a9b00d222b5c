//! A cluster of three brokers that may be killed, frozen, restarted and cut off: `TURBINE_BED_KAFKA` names it.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::bed::Bed;
use crate::process;

/// Processes of this group can be cut off from the brokers.
const GROUP: u32 = 4242;
const TABLE: &str = "turbine_cut";

/// The brokers, by their numbers.
#[derive(Debug, Clone)]
pub struct Brokers {
    bed: Bed,
}

impl Brokers {
    /// How many there are.
    pub const COUNT: u8 = 3;

    /// # Errors
    /// The bed has not three brokers.
    pub fn new(bed: &Bed) -> Result<Self> {
        if bed.bootstrap.split(',').count() != usize::from(Self::COUNT) {
            bail!("these tests need three brokers of their own: ./run test --faults");
        }
        Ok(Self { bed: bed.clone() })
    }

    /// One of the verbs of `kafka.sh` that act on one broker.
    ///
    /// # Errors
    /// The script fails.
    pub fn act(&self, verb: &str, broker: u8) -> Result<()> {
        self.bed
            .script("kafka.sh", &[verb, &broker.to_string()])
            .map(drop)
    }

    /// Stops every broker in an orderly way, and starts them again.
    ///
    /// # Errors
    /// One does not come back.
    pub fn restart_all(&self) -> Result<()> {
        self.bed.script("kafka.sh", &["down"])?;
        self.start_all()
    }

    /// Starts what does not run.
    ///
    /// # Errors
    /// One does not come back.
    pub fn start_all(&self) -> Result<()> {
        self.bed
            .script("kafka.sh", &["up", "--brokers", &Self::COUNT.to_string()])
            .map(drop)
    }

    /// A setting of all brokers, from their next start on.
    ///
    /// # Errors
    /// The script fails.
    pub fn set(&self, setting: &str) -> Result<()> {
        self.bed.script("kafka.sh", &["set", setting]).map(drop)
    }

    /// One of Kafka's own tools.
    ///
    /// # Errors
    /// It fails.
    pub fn tool(&self, name: &str, arguments: &[&str]) -> Result<String> {
        let fixed = ["tool", name, "--bootstrap-server", &self.bed.bootstrap];
        self.bed.script("kafka.sh", &[&fixed, arguments].concat())
    }

    /// The broker that keeps a group's offsets.
    ///
    /// # Errors
    /// Nobody says.
    pub fn coordinator_of_group(&self, group: &str) -> Result<u8> {
        let said = self.tool("groups", &["--describe", "--state", "--group", group])?;
        said.split('(')
            .filter_map(|after| after.split_once(')'))
            .find_map(|(number, _)| number.parse().ok())
            .with_context(|| format!("no coordinator in {said}"))
    }

    /// The broker that keeps a transactional id.
    ///
    /// # Errors
    /// No broker knows the id.
    pub fn coordinator_of_id(&self, id: &str) -> Result<u8> {
        let said = self.tool("txn", &["describe", "--transactional-id", id])?;
        let number = said
            .lines()
            .nth(1)
            .and_then(|row| row.split_whitespace().next())
            .and_then(|number| number.parse().ok());
        number.with_context(|| format!("no coordinator in {said}"))
    }

    /// Whether a broker knows a transactional id that begins so.
    ///
    /// # Errors
    /// They do not answer.
    pub fn knows_id(&self, prefix: &str) -> Result<bool> {
        Ok(self.tool("txn", &["list"])?.contains(prefix))
    }

    /// Whether the last transaction of an id that begins so was aborted.
    ///
    /// # Errors
    /// They do not answer.
    pub fn has_aborted(&self, prefix: &str) -> Result<bool> {
        let listed = self.tool("txn", &["list"])?;
        Ok(listed
            .lines()
            .any(|line| line.contains(prefix) && line.contains("CompleteAbort")))
    }
}

impl Drop for Brokers {
    /// The next test finds all brokers running, whatever became of this one.
    fn drop(&mut self) {
        for broker in 1..=Self::COUNT {
            // One that is down cannot be let go on.
            let _ = self.act("resume", broker);
        }
        if let Err(error) = self.start_all() {
            crate::diagnostics::say(&format!("brokers stay down: {error:#}"));
        }
    }
}

/// Lets a program's connections be cut by [`Cut`].
pub fn may_be_cut_off(command: &mut Command) {
    command.gid(GROUP);
}

/// No packet of a process that may be cut off reaches a broker; healed when dropped.
#[derive(Debug)]
pub struct Cut;

impl Cut {
    /// Whether the machine has a packet filter that this process may set.
    pub fn can_be_made() -> bool {
        process::attempt(Command::new("nft").args(["list", "tables"]))
            .is_ok_and(|outcome| outcome.success)
    }

    /// # Errors
    /// The packet filter refuses the rule.
    pub fn begin(bed: &Bed) -> Result<Self> {
        let ports: Vec<&str> = bed
            .bootstrap
            .split(',')
            .filter_map(|address| address.rsplit_once(':').map(|(_, port)| port))
            .collect();
        // What is left to send on a connection that was closed during the cut belongs to no process any more, and the kernel
        // would deliver it: its port is remembered.
        let rules = format!(
            "table inet {TABLE} {{ \
             set cut {{ type inet_service; flags dynamic; size 65535; }}; \
             chain out {{ type filter hook output priority 0; policy accept; \
             meta skgid {GROUP} tcp dport {{ {brokers} }} add @cut {{ tcp sport }} drop; \
             tcp dport {{ {brokers} }} tcp sport @cut drop; }}; }}",
            brokers = ports.join(", ")
        );
        let file: PathBuf = std::env::temp_dir().join(format!("{TABLE}.{}", std::process::id()));
        fs::write(&file, rules)?;
        let told = process::run(Command::new("nft").arg("-f").arg(&file));
        fs::remove_file(&file)?;
        told.map(|_| Self)
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        if let Err(error) =
            process::run(Command::new("nft").args(["delete", "table", "inet", TABLE]))
        {
            crate::diagnostics::say(&format!("the cut stays: {error:#}"));
        }
    }
}
