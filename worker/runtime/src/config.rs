//! What a worker reads at its start: the compiled app, the secrets, the token.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use thiserror::Error;
use turbine_crds::app::SaslMechanism;
use turbine_crds::compiled::{
    CheckpointSecretFile, CompiledApp, CompiledCheckpointStore, CompiledCheckpoints, CompiledKafka,
    KafkaSecretFile,
};
use turbine_kafka::{ClientCertificate, KafkaError, KafkaSettings, Mechanism, Sasl, Secret, Tls};
use turbine_protocol::AppId;
use turbine_state::checkpoint::{CheckpointSettings, Destination, S3Bucket, S3Credentials};

/// Something that cannot be read at the start.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file that cannot be read.
    #[error("{what} cannot be read from {path}: {source}", path = path.display())]
    Read {
        /// What the file holds.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// A file that is not what it should be.
    #[error("{path} holds no {what}: {source}", path = path.display())]
    Parse {
        /// What the file should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The parser's words.
        source: serde_json::Error,
    },
    /// Kafka settings that are refused.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
}

fn read(what: &'static str, path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        what,
        path: path.to_owned(),
        source,
    })
}

/// Reads the compiled app.
///
/// # Errors
/// If the file cannot be read, or holds something else, or the app of another version.
pub fn read_app(path: &Path) -> Result<CompiledApp, ConfigError> {
    let what = "compiled app";
    serde_json::from_str(&read(what, path)?).map_err(|source| ConfigError::Parse {
        what,
        path: path.to_owned(),
        source,
    })
}

/// Reads a text file.
///
/// # Errors
/// If it cannot be read.
pub fn read_text(what: &'static str, path: &Path) -> Result<String, ConfigError> {
    read(what, path)
}

/// The settings of the app's Kafka cluster, with the secrets from files.
///
/// # Errors
/// If a file that the app asks for cannot be read, or a setting is refused.
pub fn kafka_settings(kafka: &CompiledKafka, secrets: &Path) -> Result<KafkaSettings, ConfigError> {
    let secret = |file: KafkaSecretFile| read("Kafka secret", &secrets.join(file.as_ref()));
    let tls = match kafka.tls {
        None => None,
        Some(tls) => Some(Tls {
            ca: if tls.ca {
                Some(secret(KafkaSecretFile::Ca)?)
            } else {
                None
            },
            client: if tls.client_certificate {
                Some(ClientCertificate {
                    certificate: secret(KafkaSecretFile::Certificate)?,
                    key: Secret::new(secret(KafkaSecretFile::Key)?),
                })
            } else {
                None
            },
        }),
    };
    let sasl = match kafka.sasl {
        None => None,
        Some(mechanism) => Some(Sasl {
            mechanism: match mechanism {
                SaslMechanism::Plain => Mechanism::Plain,
                SaslMechanism::ScramSha256 => Mechanism::ScramSha256,
                SaslMechanism::ScramSha512 => Mechanism::ScramSha512,
            },
            // Secrets made from files often end in a line feed that is no part of them.
            username: secret(KafkaSecretFile::Username)?
                .trim_end_matches(['\r', '\n'])
                .to_owned(),
            password: Secret::new(
                secret(KafkaSecretFile::Password)?.trim_end_matches(['\r', '\n']),
            ),
        }),
    };
    Ok(KafkaSettings::new(
        &kafka.bootstrap_servers,
        tls,
        sasl,
        kafka.properties.clone(),
    )?)
}

/// Where the app's checkpoints go, with the credentials from files in `secrets`.
#[must_use]
pub fn checkpoint_settings(
    checkpoints: &CompiledCheckpoints,
    app: &AppId,
    secrets: &Path,
) -> CheckpointSettings {
    let secret = |file: CheckpointSecretFile| secrets.join(file.as_ref());
    let retain = usize::try_from(checkpoints.retain).unwrap_or(usize::MAX);
    CheckpointSettings {
        retain: NonZeroUsize::new(retain).unwrap_or(NonZeroUsize::MIN),
        destination: match &checkpoints.store {
            None => Destination::Volume,
            Some(CompiledCheckpointStore::Folder(folder)) => Destination::Folder {
                folder: folder.into(),
                app: app.clone(),
            },
            Some(CompiledCheckpointStore::S3(s3)) => Destination::S3 {
                bucket: S3Bucket {
                    bucket: s3.bucket.clone(),
                    region: s3.region.clone(),
                    endpoint: s3.endpoint.clone(),
                    prefix: s3.prefix.clone(),
                    path_style: s3.path_style,
                    credentials: s3.credentials.then(|| S3Credentials {
                        access_key_id: secret(CheckpointSecretFile::AccessKeyId),
                        secret_access_key: secret(CheckpointSecretFile::SecretAccessKey),
                        session_token: secret(CheckpointSecretFile::SessionToken),
                    }),
                },
                app: app.clone(),
            },
        },
    }
}
