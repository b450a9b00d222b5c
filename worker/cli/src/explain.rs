//! `turbine-cli explain`.

use std::io::Write;
use std::path::Path;

use turbine_crds::{defaults, rules};

use crate::Verdict;
use crate::documents::{self, Content};

pub(crate) fn run(
    file: &Path,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::Good;
    let mut explained = 0_usize;
    for document in documents::read(file)? {
        let place = document.place;
        let app = match document.content {
            Content::Other(_) => continue,
            Content::Unreadable(mistakes) => {
                verdict = Verdict::Bad;
                for mistake in mistakes {
                    writeln!(err, "{place}: {mistake}")?;
                }
                continue;
            }
            Content::App(app) => app,
        };
        if let Err(mistakes) = rules::validate(&app) {
            verdict = Verdict::Bad;
            for mistake in mistakes {
                writeln!(err, "{place}: {mistake}")?;
            }
            continue;
        }
        let mut filled = defaults::filled(&app);
        filled.status = None;
        filled.metadata.managed_fields = None;
        if explained > 0 {
            writeln!(out, "---")?;
        }
        explained += 1;
        out.write_all(serde_yaml::to_string(&filled)?.as_bytes())?;
    }
    if explained == 0 && verdict == Verdict::Good {
        verdict = Verdict::Bad;
        writeln!(err, "{}: holds no TurbineApp", documents::label(file))?;
    }
    Ok(verdict)
}
