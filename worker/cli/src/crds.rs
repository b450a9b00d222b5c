//! `turbine-cli crds`.

use std::io::Write;

use crate::Verdict;

pub(crate) fn run(out: &mut impl Write) -> anyhow::Result<Verdict> {
    out.write_all(turbine_crds::crd::yaml()?.as_bytes())?;
    Ok(Verdict::Good)
}
