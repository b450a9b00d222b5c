//! Checkpoints in an object store, here one in memory that fails as asked.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use backon::ExponentialBuilder;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as ObjectPath;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartId, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use rstest::rstest;

use super::super::error::Right;
use super::super::object::ObjectPlace;
use super::super::object_error::judged;
use super::*;

/// Fails every request but each `every`th of its kind and place: counted over all, one of several at a time might fail each time.
#[derive(Debug)]
struct Flaky {
    inner: InMemory,
    moods: Arc<Moods>,
}

#[derive(Debug)]
struct Moods {
    every: usize,
    asked: Mutex<HashMap<String, usize>>,
}

impl fmt::Display for Flaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Flaky")
    }
}

impl Moods {
    fn ask(&self, what: String) -> Result<()> {
        let mut counts = self.asked.lock().unwrap();
        let asked = counts.entry(what).or_default();
        *asked += 1;
        if asked.is_multiple_of(self.every) {
            return Ok(());
        }
        Err(object_store::Error::Generic {
            store: "S3",
            source: "Server returned non-2xx status code: 503 Service Unavailable: SlowDown".into(),
        })
    }
}

#[async_trait]
impl MultipartStore for Flaky {
    async fn create_multipart(&self, path: &ObjectPath) -> Result<MultipartId> {
        self.moods.ask(format!("begin {path}"))?;
        self.inner.create_multipart(path).await
    }

    async fn put_part(
        &self,
        path: &ObjectPath,
        id: &MultipartId,
        part: usize,
        data: PutPayload,
    ) -> Result<PartId> {
        self.moods.ask(format!("part {part} of {path}"))?;
        self.inner.put_part(path, id, part, data).await
    }

    async fn complete_multipart(
        &self,
        path: &ObjectPath,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<PutResult> {
        self.moods.ask(format!("end {path}"))?;
        self.inner.complete_multipart(path, id, parts).await
    }

    async fn abort_multipart(&self, path: &ObjectPath, id: &MultipartId) -> Result<()> {
        self.moods.ask(format!("abort {path}"))?;
        self.inner.abort_multipart(path, id).await
    }
}

#[async_trait]
impl ObjectStore for Flaky {
    async fn put_opts(
        &self,
        at: &ObjectPath,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.moods.ask(format!("put {at}"))?;
        self.inner.put_opts(at, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        at: &ObjectPath,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &ObjectPath, options: GetOptions) -> Result<GetResult> {
        self.moods.ask(format!("get {at}"))?;
        self.inner.get_opts(at, options).await
    }

    fn delete_stream(
        &self,
        at: BoxStream<'static, Result<ObjectPath>>,
    ) -> BoxStream<'static, Result<ObjectPath>> {
        let moods = Arc::clone(&self.moods);
        let asked = at.map(move |path| {
            let path = path?;
            moods.ask(format!("delete {path}"))?;
            Ok(path)
        });
        self.inner.delete_stream(asked.boxed())
    }

    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, Result<ObjectMeta>> {
        if let Err(error) = self.moods.ask(format!("list {prefix:?}")) {
            return Box::pin(futures::stream::iter([Err(error)]));
        }
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &ObjectPath,
        to: &ObjectPath,
        options: CopyOptions,
    ) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

fn place(every: usize, tries: usize) -> Arc<dyn Place> {
    let store = Flaky {
        inner: InMemory::new(),
        moods: Arc::new(Moods {
            every,
            asked: Mutex::default(),
        }),
    };
    let retries = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(1))
        .with_max_delay(Duration::from_millis(2))
        .with_max_times(tries);
    let app = "fraud".parse().unwrap();
    Arc::new(ObjectPlace::new(store, "mem://".to_owned(), "a/b", &app, retries).unwrap())
}

#[test]
fn a_store_that_fails_every_other_time_gets_and_gives_whole_checkpoints() {
    let mut bench = Bench::new();
    let checkpointer = bench.over(place(2, 3));
    for entry in 1..=4 {
        let saved = bench.save(&checkpointer, entry).unwrap();
        assert!(saved.pruned.is_ok());
        assert_eq!(bench.restore(&checkpointer).manifest, saved.manifest);
    }
    assert_eq!(
        checkpointer.look(&identity("fraud")).unwrap().intact.len(),
        2
    );
    checkpointer.check().unwrap();
}

#[test]
fn a_store_that_stays_away_is_an_error_that_names_it_and_passes() {
    let mut bench = Bench::new();
    let checkpointer = bench.over(place(usize::MAX, 2));
    let error = bench.save(&checkpointer, 1).unwrap_err();
    assert!(turbine_protocol::Fault::passes_by_itself(&error));
    let text = error.to_string();
    assert!(text.contains("mem:///a/b/fraud/per-tenant/3/2"), "{text}");
    assert!(text.contains("SlowDown"), "{text}");
}

#[test]
fn files_larger_than_a_piece_travel_in_pieces_and_come_back_whole() {
    let folder = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let place = place(2, 3);
    const PIECE: usize = 8 << 20;
    for length in [0, 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 7] {
        let content: Vec<u8> = (0..length)
            .map(|at| u8::try_from(at % 251).unwrap())
            .collect();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::write(&from, &content).unwrap();
        let meter = Meter::default();
        let size = length as u64;
        let fetched = runtime.block_on(async {
            place.put("x/files/a", &from, &meter).await.unwrap();
            assert_eq!(meter.read().done, size);
            place.fetch("x/files/a", size, &to, &meter).await.unwrap()
        });
        let fetched = fetched.unwrap();
        assert_eq!(fs::read(&to).unwrap(), content, "{length} bytes");
        assert_eq!(fetched.size, size);
        assert_eq!(fetched.sha256, manifest::Checksum::of(&content));
        if size > 0 {
            // One that is expected longer is told by its own length.
            let other = runtime.block_on(place.fetch("x/files/a", size + 1, &to, &meter));
            assert_eq!(other.unwrap().unwrap().size, size, "{length} bytes");
        }
    }
}

fn refusal(status: &str, code: &str) -> String {
    format!(
        "Server returned non-2xx status code: {status}: <?xml version=\"1.0\"?>\n<Error><Code>{code}</Code>\
         <Message>words</Message></Error>"
    )
}

/// The codes are those of the S3 API reference, "List of error codes".
#[rstest]
#[case(
    "403 Forbidden",
    "AccessDenied",
    "CheckpointDenied",
    "s3:PutObject on s3://b/x"
)]
#[case("403 Forbidden", "RequestTimeTooSkewed", "ClockSkew", "set the clock")]
#[case(
    "403 Forbidden",
    "InvalidAccessKeyId",
    "CheckpointCredentials",
    "renew them"
)]
#[case(
    "403 Forbidden",
    "SignatureDoesNotMatch",
    "CheckpointCredentials",
    "renew them"
)]
#[case(
    "400 Bad Request",
    "ExpiredToken",
    "CheckpointCredentials",
    "renew them"
)]
#[case(
    "404 Not Found",
    "NoSuchBucket",
    "CheckpointBucket",
    "correct bucket, region or endpoint"
)]
#[case(
    "301 Moved",
    "PermanentRedirect",
    "CheckpointBucket",
    "correct bucket, region or endpoint"
)]
#[case(
    "503 Service Unavailable",
    "SlowDown",
    "CheckpointStoreUnreachable",
    "tried again"
)]
fn a_refusal_says_what_to_do(
    #[case] status: &str,
    #[case] code: &str,
    #[case] reason: &str,
    #[case] words: &str,
) {
    let error = object_store::Error::Generic {
        store: "S3",
        source: refusal(status, code).into(),
    };
    let error = judged(&error, Right::Put, "s3://b/x".to_owned());
    assert_eq!(turbine_protocol::Fault::reason(&error), reason);
    let text = error.to_string();
    assert!(text.contains(words) && text.contains(code), "{text}");
}

#[test]
fn a_refusal_without_a_code_names_the_right_as_well() {
    let error = object_store::Error::PermissionDenied {
        path: "x".to_owned(),
        source: "403".into(),
    };
    let text = judged(&error, Right::List, "s3://b/x".to_owned()).to_string();
    assert!(text.contains("s3:ListBucket on s3://b/x"), "{text}");
}
