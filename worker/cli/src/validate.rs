//! `turbine-cli validate`.

use std::io::Write;
use std::path::PathBuf;

use turbine_crds::app::TurbineApp;
use turbine_crds::rules;
use turbine_kafka::{KafkaSettings, check_properties};
use turbine_protocol::client_properties::{denial, property_refusal};

use crate::Verdict;
use crate::documents::{self, Content};

/// What the API server's rules do not take, and what the Kafka client would not.
fn mistakes_of(app: &TurbineApp) -> Vec<String> {
    let mut mistakes: Vec<String> = rules::validate(app)
        .err()
        .into_iter()
        .flatten()
        .map(|error| error.to_string())
        .collect();
    // what is refused by name is among the rules
    let unknown = (app.spec.kafka.properties.iter())
        .flat_map(check_properties)
        .filter(|refusal| denial(&refusal.name).is_none());
    mistakes.extend(unknown.map(|refusal| property_refusal(&refusal.name, &refusal.reason)));
    if mistakes.is_empty() {
        mistakes.extend(apart(app));
    }
    mistakes
}

/// What the client says of properties that it takes one by one and not together.
fn apart(app: &TurbineApp) -> Option<String> {
    let transactions = rules::validate(app).ok()?.compiled().writes_transactions();
    let properties = app.spec.kafka.properties.clone().unwrap_or_default();
    KafkaSettings::new(&app.spec.kafka.bootstrap_servers, None, None, properties)
        .and_then(|settings| settings.check_together(transactions))
        .err()
        .map(|error| error.to_string())
}

pub(crate) fn run(files: &[PathBuf], out: &mut impl Write) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::Good;
    let mut apps = 0_usize;
    for file in files {
        let documents = match documents::read(file) {
            Ok(documents) => documents,
            Err(error) => {
                verdict = Verdict::Bad;
                writeln!(out, "{}: {error}", documents::label(file))?;
                continue;
            }
        };
        for document in documents {
            let place = document.place;
            let mistakes = match document.content {
                Content::Other(kind) => {
                    writeln!(out, "{place}: skipped, {kind} is not a TurbineApp")?;
                    continue;
                }
                Content::Unreadable(mistakes) => mistakes,
                Content::App(app) => mistakes_of(&app),
            };
            apps += 1;
            if mistakes.is_empty() {
                writeln!(out, "{place}: ok")?;
                continue;
            }
            verdict = Verdict::Bad;
            for mistake in mistakes {
                writeln!(out, "{place}: {mistake}")?;
            }
        }
    }
    if apps == 0 && verdict == Verdict::Good {
        verdict = Verdict::Bad;
        writeln!(out, "no TurbineApp found, so nothing was checked")?;
    }
    Ok(verdict)
}
