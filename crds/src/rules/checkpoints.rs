//! Checkpoints of the state.

use super::report::{Path, Report};
use super::{limits, names, words};
use crate::app::{CheckpointsSpec, S3StoreSpec};
use crate::compiled::STATE_DIR;

pub(super) fn check(report: &mut Report, path: &Path, checkpoints: &CheckpointsSpec) {
    report.duration(
        &path.field("interval"),
        checkpoints.interval.as_ref(),
        limits::CHECKPOINT_INTERVAL,
    );
    if let Some(retain) = checkpoints.retain {
        let holds = limits::RETAIN.contains(&retain);
        report.check(holds, &path.field("retain"), words::RETAIN, &[]);
    }
    if let Some(store) = &checkpoints.store {
        let path = path.field("store");
        report.check(
            store.s3.is_some() != store.folder.is_some(),
            &path,
            words::ONE_CHECKPOINT_STORE,
            &[],
        );
        if let Some(s3) = &store.s3 {
            check_s3(report, &path.field("s3"), s3);
        }
        if let Some(folder) = &store.folder {
            let path = path.field("folder");
            let given = [("given", folder.as_str())];
            report.check(is_folder(folder), &path, words::CHECKPOINT_FOLDER, &given);
            report.text_length(&path, folder, 0, limits::FOLDER);
        }
    }
}

fn check_s3(report: &mut Report, path: &Path, s3: &S3StoreSpec) {
    let bucket = path.field("bucket");
    let given = [("given", s3.bucket.as_str())];
    report.check(is_bucket(&s3.bucket), &bucket, words::BUCKET, &given);
    if let Some(region) = &s3.region {
        let path = path.field("region");
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let holds = !region.is_empty() && region.chars().all(legal);
        report.check(holds, &path, words::REGION, &[("given", region)]);
        report.text_length(&path, region, 0, limits::REGION);
    }
    if let Some(endpoint) = &s3.endpoint {
        let path = path.field("endpoint");
        let given = [("given", endpoint.as_str())];
        report.check(is_endpoint(endpoint), &path, words::ENDPOINT, &given);
        report.text_length(&path, endpoint, 0, limits::ENDPOINT);
    }
    if let Some(prefix) = &s3.prefix {
        let path = path.field("prefix");
        let holds = prefix.split('/').all(is_part);
        report.check(holds, &path, words::PREFIX, &[("given", prefix)]);
        report.text_length(&path, prefix, 0, limits::PREFIX);
    }
    if let Some(secret) = &s3.credentials_secret {
        names::secret_name(report, &path.field("credentialsSecret"), secret);
    }
}

fn is_bucket(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (3..=limits::BUCKET).contains(&text.len())
        && text.starts_with(edge)
        && text.ends_with(edge)
        && text.chars().all(|c| edge(c) || matches!(c, '-' | '.'))
}

fn is_endpoint(text: &str) -> bool {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest else { return false };
    let (host, port) = rest
        .split_once(':')
        .map_or((rest, None), |(host, port)| (host, Some(port)));
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !host.is_empty()
        && host.chars().all(legal)
        && port.is_none_or(|port| {
            (1..=5).contains(&port.len()) && port.chars().all(|c| c.is_ascii_digit())
        })
}

/// The state's folder is the volume that the checkpoints have to outlive. One above it is none either: a checkpoint's place is a
/// folder in there that the app names.
fn is_folder(text: &str) -> bool {
    let folder = std::path::Path::new(text);
    let in_state =
        folder.starts_with(STATE_DIR) || std::path::Path::new(STATE_DIR).starts_with(folder);
    text.strip_prefix('/')
        .is_some_and(|rest| rest.split('/').all(is_part))
        && !in_state
}

/// A path that could lead upwards is none.
fn is_part(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && !text.starts_with('.') && text.chars().all(legal)
}
