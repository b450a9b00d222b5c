//! `turbine-cli store`: what a stopped worker's stores and their checkpoints hold.

use std::io::Write;
use std::num::NonZeroUsize;

use clap::{ArgGroup, Args, Subcommand};

use crate::Verdict;
use crate::keys::KeyForm;
use crate::placement::Output;

mod checkpoints;
mod copy;
mod get;
mod inspect;
mod pane;
mod rescale;
mod scan;
mod verify;
mod volume;

use copy::CheckpointOption;
use rescale::RescaleArgs;
use volume::Stores;

#[derive(Debug, Subcommand)]
pub(crate) enum StoreVerb {
    /// Say what stores are, how far they came, and what they and their checkpoints hold
    ///
    /// Of every store on the volume: identity, lineage, format, positions, number and checksum of the last entry, frontier and
    /// clocks, keys, the key groups that have some, and sizes; and the checkpoints that lie on the volume. Checkpoints in a
    /// bucket are not looked at. With --output json a key group of `null` is that of records without a key.
    ///
    /// Nothing is written: a volume that is full or cannot be written is read as well. Entries that only the journal has are
    /// read from there, into memory. A store in use is refused.
    ///
    /// With --checkpoint one that lies on the volume is read in place of the store, also while a worker runs. It is read from a
    /// folder of links to its files, among the temporary files of the system (TMPDIR).
    ///
    /// The exit code is 0, 1 if a store cannot be opened (the answer says which and why), 2 if one is in use or nothing could be
    /// looked at.
    #[command(after_help = "\
Examples:
  turbine-cli store inspect --state /var/lib/turbine
  turbine-cli store inspect --state state --subscription per-tenant --partition 3 --count
  turbine-cli store inspect --state state --checkpoint latest --count
  turbine-cli store inspect --state state -o json")]
    Inspect(InspectArgs),
    /// Read stores and their checkpoints through, and say what is wrong
    ///
    /// Every key and value of a store is read, with RocksDB's checksums. Keys must be those of panes, in key groups that the
    /// store's partition owns; values must be of this format and, within one window, of one definition. The store must be the
    /// one that its folder and the volume's marker say. Of checkpoints on the volume, manifests and the content of all files are
    /// compared with their checksums. Whether a key fits the app's spec is asked by `placement clear --dry-run`.
    ///
    /// Nothing is written: a volume that is full or cannot be written is read as well. Entries that only the journal has are
    /// read from there, into memory. A store in use is refused.
    ///
    /// The exit code is 0 if everything is whole, 1 if something is not, 2 if it could not be read through.
    #[command(after_help = "\
Examples:
  turbine-cli store verify --state /var/lib/turbine
  turbine-cli store verify --state state --subscription per-tenant --partition 3 -o json")]
    Verify(VerifyArgs),
    /// Look up one stored key, or all panes of one record's key
    ///
    /// --raw is a stored key as `store scan` prints it. --key is the partition key as text; of one that is made of several
    /// columns each part is given, in the order of the app's partitionKey. Values are shown as they are stored: a byte for the
    /// format, four for the window's definition, the aggregates. One store must be meant.
    ///
    /// Nothing is written: a volume that is full or cannot be written is read as well. Entries that only the journal has are
    /// read from there, into memory. A store in use is refused.
    ///
    /// With --checkpoint one that lies on the volume is read in place of the store, also while a worker runs. It is read from a
    /// folder of links to its files, among the temporary files of the system (TMPDIR).
    ///
    /// The exit code is 0, 1 if there is no such key, 2 if it cannot be looked up.
    #[command(after_help = "\
Examples:
  turbine-cli store get --state state --subscription per-tenant --partition 3 --key AAPL
  turbine-cli store get --state state --subscription pairs --partition 0 --key EU --key 42
  turbine-cli store get --state state --subscription per-tenant --partition 3 --checkpoint latest --key AAPL
  turbine-cli store get --state state --subscription per-tenant --partition 3 --raw 4f40010377696e80000000000000000100000004...")]
    Get(GetArgs),
    /// List stored keys in their order
    ///
    /// Of each: key group, window, start of the window, the parts of the key, and the stored key as it is. Stored parts do not
    /// say their types: they are guessed, text before numbers before truth values. One store must be meant.
    ///
    /// Nothing is written: a volume that is full or cannot be written is read as well. Entries that only the journal has are
    /// read from there, into memory. A store in use is refused.
    ///
    /// With --checkpoint one that lies on the volume is read in place of the store, also while a worker runs. It is read from a
    /// folder of links to its files, among the temporary files of the system (TMPDIR).
    ///
    /// The exit code is 0, or 2 if the store cannot be read.
    #[command(after_help = "\
Examples:
  turbine-cli store scan --state state --subscription per-tenant --partition 3
  turbine-cli store scan --state state --subscription per-tenant --partition 3 --group 657 --values
  turbine-cli store scan --state state --subscription per-tenant --partition 3 --group null --limit 5
  turbine-cli store scan --state state --subscription per-tenant --partition 3 --checkpoint 17
  turbine-cli store scan --state state --subscription per-tenant --partition 3 --prefix 4f4001 -o json")]
    Scan(ScanArgs),
    /// Make the stores of a stopped app for a larger partition count
    ///
    /// The old state is read and left as it is. Each new store is made of the files of the old ones: on one volume by links,
    /// without copying, if it draws from one old store; what draws from several is written once. Then every key of the new
    /// stores is read back: it must lie with the partition that owns it, and each key group must have as many keys, with the
    /// same checksum, as before. Rows without a key stay with the partition of the same number. The topic is not touched.
    ///
    /// No worker starts on such stores yet: records that lie in the old partitions are still to be read for them, and a worker
    /// refuses a store of which it does not know how. See docs/rescale-offline.md.
    ///
    /// With --state of a worker's folder its stores are taken, which must be stopped in order, and checkpoints only of
    /// partitions that have no store; --out becomes such a folder. With checkpoints in a folder or bucket the newest of each
    /// partition that has all its files is taken, and --out gets checkpoints. Addresses, region and credentials of a bucket
    /// come from the environment, as for other tools (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`).
    ///
    /// A run that was broken off is taken up by the same command: what is whole stays. --from may be any count, --to must be a
    /// divisor of 960 and larger.
    ///
    /// The exit code is 0, or 2 if it is refused or fails; then --out holds no state that a worker would take.
    #[command(after_help = "\
Examples:
  turbine-cli store rescale --from 12 --to 24 --state /var/lib/turbine --out /var/lib/turbine-24 --dry-run
  turbine-cli store rescale --from 12 --to 24 --state /var/lib/turbine --out /var/lib/turbine-24
  turbine-cli store rescale --from 4 --to 6 --state pod-0 --state pod-1 --out new --subscription per-tenant
  turbine-cli store rescale --from 7 --to 8 --state s3://state/prod/fraud --out s3://state/rescaled/fraud --work /scratch")]
    Rescale(RescaleArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    stores: Stores,
    #[command(flatten)]
    copy: CheckpointOption,
    /// Count the keys, in all and per key group, by reading them; else their number is RocksDB's estimate
    #[arg(long)]
    count: bool,
    /// How the answer is printed
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    stores: Stores,
    /// How the answer is printed
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["raw", "key"]))]
pub(crate) struct GetArgs {
    #[command(flatten)]
    stores: Stores,
    #[command(flatten)]
    copy: CheckpointOption,
    /// A stored key, in hex
    #[arg(long, value_name = "HEX")]
    raw: Option<String>,
    /// The partition key, or one part of it; may be repeated
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    key: Vec<String>,
    #[command(flatten)]
    form: KeyForm,
    /// How the answer is printed
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    stores: Stores,
    #[command(flatten)]
    copy: CheckpointOption,
    /// Only this key group: 0 to 959, or `null` for records without a key
    #[arg(long, value_parser = scan::group)]
    group: Option<turbine_keygroups::Group>,
    /// Only stored keys that begin with these bytes, in hex
    #[arg(long, value_name = "HEX", conflicts_with = "group")]
    prefix: Option<String>,
    /// How many keys at most
    #[arg(long, value_name = "KEYS", default_value = "100")]
    limit: NonZeroUsize,
    /// Show the stored values as well, in hex; JSON always has them
    #[arg(long)]
    values: bool,
    /// How the answer is printed
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub(crate) fn run(
    verb: StoreVerb,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<Verdict> {
    match verb {
        StoreVerb::Inspect(arguments) => inspect::run(&arguments, out),
        StoreVerb::Verify(arguments) => verify::run(&arguments, out),
        StoreVerb::Get(arguments) => get::run(&arguments, out, err),
        StoreVerb::Scan(arguments) => scan::run(&arguments, out, err),
        StoreVerb::Rescale(arguments) => rescale::run(&arguments, out, err),
    }
}
