//! How a broker is reached from the command line, and what is said when it is not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io};

use clap::Args;
use thiserror::Error;
use turbine_kafka::{ClientCertificate, KafkaError, KafkaSettings, Mechanism, Sasl, Secret, Tls};
use turbine_protocol::TopicName;

/// Properties whose values nobody may see.
const SECRETS: [&str; 5] = [
    "sasl.password",
    "ssl.key.pem",
    "ssl.key.password",
    "ssl.keystore.password",
    "sasl.oauthbearer.client.secret",
];
const FROM_FILE: &str = "file:";
const FROM_ENV: &str = "env:";

/// How to reach Kafka.
#[derive(Debug, Clone, Args)]
pub(crate) struct Connection {
    /// Brokers to ask first, as HOST:PORT, separated by commas
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap: String,
    /// A property of the client (librdkafka's names), once for each; a value of `file:PATH` or `env:NAME` is taken from there
    #[arg(long = "property", value_name = "NAME=VALUE")]
    properties: Vec<String>,
    /// A file with one NAME=VALUE per line; may hold secrets
    #[arg(long, value_name = "FILE")]
    properties_file: Option<PathBuf>,
    /// Seconds to wait for an answer of the broker
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// A connection that cannot be tried.
#[derive(Debug, Error)]
pub(crate) enum ConnectionError {
    #[error("--property `{0}` has no `=`: write NAME=VALUE")]
    NoValue(String),
    #[error("{}: line {line} has no `=`: write NAME=VALUE", file.display())]
    NoValueInFile { file: PathBuf, line: usize },
    #[error(
        "the value of `{0}` would be seen by everybody on this machine: write --property {0}=file:PATH or --property {0}=env:NAME, or put it into --properties-file"
    )]
    VisibleSecret(String),
    #[error("`{name}` names the variable {variable}, which is not set or no text: export it")]
    Variable { name: String, variable: String },
    #[error("{file} cannot be read: {error}; check the path and its rights")]
    File { file: String, error: io::Error },
    #[error("`{0}`: give the brokers by --bootstrap")]
    Bootstrap(String),
    #[error("security.protocol `{0}` is not known: use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")]
    Protocol(String),
    #[error("sasl.mechanism `{0}` is not known: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")]
    Mechanism(String),
    #[error("`{name}` is missing: a login needs sasl.mechanism, sasl.username and sasl.password")]
    Incomplete { name: &'static str },
    #[error("a client certificate needs both ssl.certificate.location and ssl.key.location")]
    HalfCertificate,
    #[error(
        "`{name}` has no effect with security.protocol {protocol}: set that to {instead}, or leave the property out"
    )]
    Unused {
        name: String,
        protocol: String,
        instead: &'static str,
    },
    #[error(transparent)]
    Client(#[from] KafkaError),
}

/// A broker that does not do what it is asked for.
#[derive(Debug, Error)]
pub(crate) enum BrokerError {
    #[error(
        "no broker answers at {bootstrap} ({detail}): check --bootstrap, the network and that the brokers run"
    )]
    Unreachable { bootstrap: String, detail: String },
    #[error(
        "the broker refused the connection ({detail}): check the properties security.*, ssl.* and sasl.*"
    )]
    Refused { detail: String },
    #[error(
        "not allowed to {operation} {resource}: grant this user the right, or log in as another"
    )]
    NotAllowed {
        operation: &'static str,
        resource: String,
    },
    #[error("topic `{topic}` does not exist at {bootstrap}: create it, or correct --topic")]
    NoTopic { topic: TopicName, bootstrap: String },
    #[error("nothing came from {bootstrap} within {} s: check that its brokers run and can be reached from here, or raise --timeout", after.as_secs())]
    Silent { bootstrap: String, after: Duration },
    #[error(transparent)]
    Other(KafkaError),
}

impl Connection {
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// What the client is to be told.
    pub(crate) fn settings(&self) -> Result<KafkaSettings, ConnectionError> {
        let mut properties = match &self.properties_file {
            Some(file) => of_file(file, &read(file)?)?,
            None => BTreeMap::new(),
        };
        for given in &self.properties {
            let (name, value) = given
                .split_once('=')
                .ok_or_else(|| ConnectionError::NoValue(given.clone()))?;
            let (name, value) = (name.trim(), value.trim());
            let elsewhere = value.starts_with(FROM_FILE) || value.starts_with(FROM_ENV);
            if SECRETS.contains(&name) && !elsewhere {
                return Err(ConnectionError::VisibleSecret(name.to_owned()));
            }
            properties.insert(name.to_owned(), value.to_owned());
        }
        for (name, value) in &mut properties {
            *value = resolved(name, value)?;
        }
        settings(&self.bootstrap, properties)
    }

    /// The client's error in the words of the command line.
    pub(crate) fn told(&self, error: KafkaError) -> BrokerError {
        let bootstrap = self.bootstrap.clone();
        match error {
            KafkaError::Unreachable { detail, .. } => {
                BrokerError::Unreachable { bootstrap, detail }
            }
            KafkaError::Authentication { detail } => BrokerError::Refused { detail },
            KafkaError::NotAllowed {
                operation,
                resource,
            } => BrokerError::NotAllowed {
                operation,
                resource,
            },
            KafkaError::TopicMissing { topic } => BrokerError::NoTopic { topic, bootstrap },
            KafkaError::TimedOut { after, .. } => BrokerError::Silent { bootstrap, after },
            other => BrokerError::Other(other),
        }
    }
}

fn read(file: &Path) -> Result<String, ConnectionError> {
    fs::read_to_string(file).map_err(|error| ConnectionError::File {
        file: file.display().to_string(),
        error,
    })
}

fn of_file(file: &Path, text: &str) -> Result<BTreeMap<String, String>, ConnectionError> {
    (1..)
        .zip(text.lines().map(str::trim))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(line, text)| {
            text.split_once('=')
                .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
                .ok_or_else(|| ConnectionError::NoValueInFile {
                    file: file.to_owned(),
                    line,
                })
        })
        .collect()
}

fn resolved(name: &str, value: &str) -> Result<String, ConnectionError> {
    if let Some(file) = value.strip_prefix(FROM_FILE) {
        // Editors end files with a line end that is no part of a password.
        Ok(read(Path::new(file))?
            .trim_end_matches(['\n', '\r'])
            .to_owned())
    } else if let Some(variable) = value.strip_prefix(FROM_ENV) {
        env::var(variable).map_err(|_| ConnectionError::Variable {
            name: name.to_owned(),
            variable: variable.to_owned(),
        })
    } else {
        Ok(value.to_owned())
    }
}

/// Takes apart what makes a connection's security; the rest goes to the client as it is.
fn settings(
    bootstrap: &str,
    mut properties: BTreeMap<String, String>,
) -> Result<KafkaSettings, ConnectionError> {
    for name in ["bootstrap.servers", "metadata.broker.list"] {
        if properties.contains_key(name) {
            return Err(ConnectionError::Bootstrap(name.to_owned()));
        }
    }
    let protocol = properties
        .remove("security.protocol")
        .unwrap_or_else(|| "PLAINTEXT".to_owned());
    let (with_tls, with_login) = match protocol.to_ascii_uppercase().as_str() {
        "PLAINTEXT" => (false, false),
        "SSL" => (true, false),
        "SASL_PLAINTEXT" => (false, true),
        "SASL_SSL" => (true, true),
        _ => return Err(ConnectionError::Protocol(protocol)),
    };
    // A password that is given and not used is a mistake that looks like a refused login.
    let unused = properties.keys().find_map(|name| {
        if !with_login && name.starts_with("sasl.") {
            Some((
                name,
                if with_tls {
                    "SASL_SSL"
                } else {
                    "SASL_PLAINTEXT"
                },
            ))
        } else if !with_tls && name.starts_with("ssl.") {
            Some((name, if with_login { "SASL_SSL" } else { "SSL" }))
        } else {
            None
        }
    });
    if let Some((name, instead)) = unused {
        return Err(ConnectionError::Unused {
            name: name.clone(),
            protocol,
            instead,
        });
    }
    let tls = if with_tls {
        Some(tls(&mut properties)?)
    } else {
        None
    };
    let sasl = if with_login {
        Some(login(&mut properties)?)
    } else {
        None
    };
    Ok(KafkaSettings::new(bootstrap, tls, sasl, properties)?)
}

/// A text that is given itself (`NAME.pem`) or by the file it is in (`NAME.location`).
fn pem(
    properties: &mut BTreeMap<String, String>,
    name: &str,
) -> Result<Option<String>, ConnectionError> {
    match properties.remove(&format!("{name}.location")) {
        Some(file) => read(Path::new(&file)).map(Some),
        None => Ok(properties.remove(&format!("{name}.pem"))),
    }
}

fn tls(properties: &mut BTreeMap<String, String>) -> Result<Tls, ConnectionError> {
    let ca = pem(properties, "ssl.ca")?;
    let client = match (
        pem(properties, "ssl.certificate")?,
        pem(properties, "ssl.key")?,
    ) {
        (Some(certificate), Some(key)) => Some(ClientCertificate {
            certificate,
            key: Secret::new(key),
        }),
        (None, None) => None,
        _ => return Err(ConnectionError::HalfCertificate),
    };
    Ok(Tls { ca, client })
}

fn login(properties: &mut BTreeMap<String, String>) -> Result<Sasl, ConnectionError> {
    let mut take = |names: &[&'static str]| {
        let found = names.iter().find_map(|name| properties.remove(*name));
        found.ok_or(ConnectionError::Incomplete { name: names[0] })
    };
    let mechanism = take(&["sasl.mechanism", "sasl.mechanisms"])?;
    let username = take(&["sasl.username"])?;
    let password = Secret::new(take(&["sasl.password"])?);
    let mechanism = match mechanism.to_ascii_uppercase().as_str() {
        "PLAIN" => Mechanism::Plain,
        "SCRAM-SHA-256" => Mechanism::ScramSha256,
        "SCRAM-SHA-512" => Mechanism::ScramSha512,
        _ => return Err(ConnectionError::Mechanism(mechanism)),
    };
    Ok(Sasl {
        mechanism,
        username,
        password,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn connection(properties: &[&str]) -> Connection {
        Connection {
            bootstrap: "k:1".to_owned(),
            properties: properties.iter().map(|text| (*text).to_owned()).collect(),
            properties_file: None,
            timeout: 1,
        }
    }

    #[rstest]
    #[case(&["linger.ms"], "has no `=`")]
    #[case(&["sasl.password=x"], "--property sasl.password=env:NAME")]
    #[case(&["ssl.key.pem=x"], "would be seen by everybody")]
    #[case(&["bootstrap.servers=k:1"], "by --bootstrap")]
    #[case(&["security.protocol=TLS"], "use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")]
    #[case(&["security.protocol=SASL_SSL", "sasl.mechanism=GSSAPI", "sasl.username=a", "sasl.password=file:Cargo.toml"], "use PLAIN, SCRAM-SHA-256")]
    #[case(&["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN"], "`sasl.username` is missing")]
    #[case(&["security.protocol=SSL", "ssl.key.location=Cargo.toml"], "needs both")]
    #[case(&["sasl.username=me"], "set that to SASL_PLAINTEXT")]
    #[case(&["security.protocol=SSL", "sasl.username=me"], "set that to SASL_SSL")]
    #[case(&["security.protocol=SSL", "ssl.ca.location=/no/such"], "/no/such cannot be read")]
    #[case(&["client.id=env:TURBINE_NO_SUCH_VARIABLE"], "TURBINE_NO_SUCH_VARIABLE, which is not set")]
    #[case(&["no.such.property=1"], "No such configuration property")]
    #[case(&["enable.auto.commit=true"], "never by the client")]
    fn what_cannot_be_tried_is_told_with_the_way_out(
        #[case] properties: &[&str],
        #[case] words: &str,
    ) {
        let refused = connection(properties).settings().unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
        assert_eq!(refused.lines().count(), 1, "{refused}");
    }

    #[test]
    fn secrets_come_from_files_and_are_not_printed() {
        let folder = env::temp_dir().join(format!("turbine-cli-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("password"), "hidden-password\n").unwrap();
        fs::write(
            folder.join("client"),
            "# mine\nsecurity.protocol = SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n\nsasl.username=me\n",
        )
        .unwrap();
        let mut connection = connection(&[&format!(
            "sasl.password=file:{}",
            folder.join("password").display()
        )]);
        connection.properties_file = Some(folder.join("client"));
        let settings = connection.settings().unwrap();
        let login = Sasl {
            mechanism: Mechanism::Plain,
            username: "me".to_owned(),
            password: Secret::new("hidden-password"),
        };
        let expected = KafkaSettings::new("k:1", None, Some(login), BTreeMap::new()).unwrap();
        assert_eq!(settings, expected);
        assert!(!format!("{settings:?}").contains("hidden"));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_line_of_the_file_that_is_no_property_is_named() {
        let refused = of_file(Path::new("f"), "a=1\n\nb\n")
            .unwrap_err()
            .to_string();
        assert_eq!(refused, "f: line 3 has no `=`: write NAME=VALUE");
    }
}
