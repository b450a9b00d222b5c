//! Checkpoints in an object store. Every request is tried again for a while if the store or the way to it fails.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backon::{BackoffBuilder, ExponentialBuilder};
use futures::future::{BoxFuture, FutureExt};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder, AwsCredential};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{
    ClientOptions, CredentialProvider, GetOptions, GetRange, ObjectStore, ObjectStoreExt,
    PutPayload, RetryConfig,
};
use sha2::{Digest, Sha256};
use turbine_protocol::AppId;

use super::error::{CheckpointError, Right};
use super::manifest::Checksum;
use super::object_error::judged;
use super::place::{Fetched, Meter, Place};
use super::settings::{S3Bucket, S3Credentials};
use crate::error::io as io_error;

/// Length of the pieces in which files travel. S3 takes no part below 5 MiB but the last, and no more than 10,000 of them.
const PIECE: u64 = 8 << 20;
const DELETES_AT_A_TIME: usize = 8;
/// For one request with a piece.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An object store, below a prefix.
pub(crate) struct ObjectPlace<S> {
    store: S,
    /// For messages.
    name: String,
    prefix: Path,
    retries: ExponentialBuilder,
}

impl<S> fmt::Debug for ObjectPlace<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectPlace")
            .field("name", &self.name)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// From 0.2 s, more and more slowly, for about a minute. The next checkpoint tries again in any case.
fn patient() -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(200))
        .with_max_delay(Duration::from_secs(20))
        .with_max_times(9)
        .with_jitter()
}

/// A bucket of S3, or of what speaks like it.
pub(crate) fn s3(of: &S3Bucket, app: &AppId) -> Result<ObjectPlace<AmazonS3>, CheckpointError> {
    // The first one of the process stays; whoever set it chose the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options = ClientOptions::new()
        .with_timeout(REQUEST_TIMEOUT)
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_allow_http(of.endpoint.is_some());
    let mut builder = match &of.credentials {
        Some(files) => AmazonS3Builder::new().with_credentials(Arc::new(files.clone())),
        None => AmazonS3Builder::from_env(),
    };
    builder = builder
        .with_bucket_name(&of.bucket)
        .with_region(&of.region)
        .with_virtual_hosted_style_request(!of.path_style)
        .with_client_options(options)
        // One answer for many objects does not say as plainly which right lacks, and not every server gives it.
        .with_disable_bulk_delete(true)
        // Requests are tried again here, where it is known which ones and for how long.
        .with_retry(RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        });
    if let Some(endpoint) = &of.endpoint {
        // The client would panic at its first request.
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            return Err(CheckpointError::Settings {
                detail: format!("`{endpoint}` is no address; begin it with http:// or https://"),
            });
        }
        builder = builder.with_endpoint(address(endpoint, of));
    }
    let store = builder.build().map_err(|error| CheckpointError::Settings {
        detail: error.to_string(),
    })?;
    let name = format!("s3://{}", of.bucket);
    ObjectPlace::new(store, name, &of.prefix, app, patient())
}

/// The client takes the address of the bucket where its name is to stand in the host's name.
fn address(endpoint: &str, of: &S3Bucket) -> String {
    match endpoint.split_once("://") {
        Some((scheme, host)) if !of.path_style => format!("{scheme}://{}.{host}", of.bucket),
        _ => endpoint.to_owned(),
    }
}

#[async_trait]
impl CredentialProvider for S3Credentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let read = |path: &FilePath| {
            let text = std::fs::read_to_string(path).map_err(|error| {
                object_store::Error::Unauthenticated {
                    path: path.display().to_string(),
                    source: Box::new(error),
                }
            })?;
            Ok::<_, object_store::Error>(text.trim().to_owned())
        };
        let token = self.session_token.exists();
        Ok(Arc::new(AwsCredential {
            key_id: read(&self.access_key_id)?,
            secret_key: read(&self.secret_access_key)?,
            token: token.then(|| read(&self.session_token)).transpose()?,
        }))
    }
}

impl<S: ObjectStore + MultipartStore> ObjectPlace<S> {
    pub(crate) fn new(
        store: S,
        name: String,
        prefix: &str,
        app: &AppId,
        retries: ExponentialBuilder,
    ) -> Result<Self, CheckpointError> {
        let prefix = Path::parse(prefix)
            .map_err(|error| CheckpointError::Settings {
                detail: format!("prefix: {error}"),
            })?
            .join(app.as_str());
        Ok(Self {
            store,
            name,
            prefix,
            retries,
        })
    }

    fn at(&self, path: &str) -> Path {
        let parts = path.split('/').map(str::to_owned);
        parts.fold(self.prefix.clone(), Path::join)
    }

    /// One request, and again for as long as it fails for the store or the way to it.
    async fn tried<'a, T>(
        &'a self,
        right: Right,
        at: &'a Path,
        request: impl Fn() -> BoxFuture<'a, object_store::Result<T>> + Send + Sync,
    ) -> Result<T, CheckpointError> {
        let mut delays = self.retries.build();
        loop {
            let error = match request().await {
                Ok(answer) => return Ok(answer),
                Err(error) => judged(&error, right, format!("{}/{at}", self.name)),
            };
            let passes = matches!(error, CheckpointError::Unreachable { .. });
            match delays.next().filter(|_| passes) {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(error),
            }
        }
    }

    /// The length of the whole object and what was asked for of it; the inner error says that it is not there.
    async fn get(
        &self,
        at: &Path,
        range: Option<(u64, u64)>,
    ) -> object_store::Result<object_store::Result<(u64, Vec<u8>)>> {
        let options = GetOptions {
            range: range.map(|(from, to)| GetRange::Bounded(from..to)),
            ..GetOptions::default()
        };
        match self.store.get_opts(at, options).await {
            Ok(result) => {
                let size = result.meta.size;
                Ok(Ok((size, Vec::from(result.bytes().await?))))
            }
            Err(error @ object_store::Error::NotFound { .. }) => Ok(Err(error)),
            Err(error) => Err(error),
        }
    }

    /// `None` if it is not there; with the length of the whole object.
    async fn piece(
        &self,
        at: &Path,
        range: Option<(u64, u64)>,
    ) -> Result<Option<(u64, Vec<u8>)>, CheckpointError> {
        let got = self
            .tried(Right::Get, at, || self.get(at, range).boxed())
            .await?;
        match got {
            Ok(got) => Ok(Some(got)),
            Err(error) => match judged(&error, Right::Get, format!("{}/{at}", self.name)) {
                missing @ CheckpointError::NoBucket { .. } => Err(missing),
                _ => Ok(None),
            },
        }
    }

    async fn delete(&self, at: Path) -> Result<(), CheckpointError> {
        let delete = || async {
            match self.store.delete(&at).await {
                Err(object_store::Error::NotFound { .. }) => Ok(()),
                other => other,
            }
        };
        self.tried(Right::Delete, &at, || delete().boxed()).await
    }

    async fn put_in_parts(
        &self,
        at: &Path,
        from: &FilePath,
        meter: &Meter,
    ) -> Result<(), CheckpointError> {
        let local = |error| CheckpointError::from(io_error("read", from, &error));
        let id = self
            .tried(Right::Put, at, || self.store.create_multipart(at).boxed())
            .await?;
        let parts = async {
            let mut file = File::open(from).map_err(local)?;
            let mut parts = Vec::new();
            loop {
                let piece = next_piece(&mut file).map_err(local)?;
                let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
                if length == 0 {
                    return Ok(parts);
                }
                let payload = PutPayload::from(piece);
                let number = parts.len();
                let part = self
                    .tried(Right::Put, at, || {
                        self.store
                            .put_part(at, &id, number, payload.clone())
                            .boxed()
                    })
                    .await?;
                parts.push(part);
                meter.add(length);
            }
        };
        let put = match parts.await {
            Ok(parts) => self
                .tried(Right::Put, at, || {
                    self.store
                        .complete_multipart(at, &id, parts.clone())
                        .boxed()
                })
                .await
                .map(drop),
            Err(error) => Err(error),
        };
        if put.is_err() {
            // The parts would be kept, and paid for, with no name. If this fails too, the bucket's own rule clears them.
            let _ = self.store.abort_multipart(at, &id).await;
        }
        put
    }
}

fn next_piece(file: &mut File) -> io::Result<Vec<u8>> {
    let mut piece = Vec::new();
    file.take(PIECE).read_to_end(&mut piece)?;
    Ok(piece)
}

#[async_trait]
impl<S: ObjectStore + MultipartStore> Place for ObjectPlace<S> {
    async fn list(&self, folder: &str) -> Result<Vec<(String, u64)>, CheckpointError> {
        let at = self.at(folder);
        let found = self
            .tried(Right::List, &at, || {
                self.store.list(Some(&at)).try_collect::<Vec<_>>().boxed()
            })
            .await?;
        Ok(found
            .into_iter()
            .filter_map(|object| Some((object.location.filename()?.to_owned(), object.size)))
            .collect())
    }

    async fn folders(&self, folder: &str) -> Result<Vec<String>, CheckpointError> {
        let at = match folder {
            "" => self.prefix.clone(),
            folder => self.at(folder),
        };
        let found = self
            .tried(Right::List, &at, || {
                self.store.list_with_delimiter(Some(&at)).boxed()
            })
            .await?;
        Ok(found
            .common_prefixes
            .iter()
            .filter_map(|prefix| Some(prefix.filename()?.to_owned()))
            .collect())
    }

    async fn read(&self, path: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        let got = self.piece(&self.at(path), None).await?;
        Ok(got.map(|(_, content)| content))
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<(), CheckpointError> {
        let at = self.at(path);
        let payload = PutPayload::from(content.to_vec());
        self.tried(Right::Put, &at, || {
            self.store.put(&at, payload.clone()).boxed()
        })
        .await
        .map(drop)
    }

    async fn put(&self, path: &str, from: &FilePath, meter: &Meter) -> Result<(), CheckpointError> {
        let at = self.at(path);
        let local = |error| CheckpointError::from(io_error("read", from, &error));
        let length = from.metadata().map_err(local)?.len();
        if length > PIECE {
            return self.put_in_parts(&at, from, meter).await;
        }
        let content = std::fs::read(from).map_err(local)?;
        self.write(path, &content).await?;
        meter.add(length);
        Ok(())
    }

    async fn settle(&self, _folder: &str) -> Result<(), CheckpointError> {
        Ok(())
    }

    async fn fetch(
        &self,
        path: &str,
        size: u64,
        to: &FilePath,
        meter: &Meter,
    ) -> Result<Option<Fetched>, CheckpointError> {
        let at = self.at(path);
        let local = |error| CheckpointError::from(io_error("write", to, &error));
        let mut file = File::create(to).map_err(local)?;
        let mut hasher = Sha256::new();
        let mut done = 0;
        loop {
            // No range lies within an empty object.
            let range = (size > 0).then(|| (done, size.min(done + PIECE)));
            let Some((whole, piece)) = self.piece(&at, range).await? else {
                return Ok(None);
            };
            hasher.update(&piece);
            file.write_all(&piece).map_err(local)?;
            let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
            meter.add(length);
            done += length;
            if whole != size || done >= size || length == 0 {
                file.sync_all().map_err(local)?;
                return Ok(Some(Fetched {
                    size: if whole == size { done } else { whole },
                    sha256: Checksum::finish(hasher),
                }));
            }
        }
    }

    async fn remove(&self, folder: &str, names: &[String]) -> Result<(), CheckpointError> {
        let deletes: Vec<_> = names
            .iter()
            .map(|name| self.delete(self.at(folder).join(name.as_str())))
            .collect();
        stream::iter(deletes)
            .buffer_unordered(DELETES_AT_A_TIME)
            .try_collect()
            .await
    }
}
