//! Names of the app, of subscriptions, windows, topics and Secrets.

use turbine_protocol::{AppId, SubscriptionName, TopicName};

use super::report::{Path, Report};
use super::{limits, words};

/// A DNS label of at most 40 characters.
pub(super) fn label(report: &mut Report, path: &Path, what: &str, given: &str) {
    report.check(
        given.parse::<SubscriptionName>().is_ok(),
        path,
        words::LABEL,
        &[
            ("what", what),
            ("given", given),
            ("length", &given.chars().count().to_string()),
        ],
    );
}

pub(super) fn app_id(report: &mut Report, path: &Path, given: &str) {
    if let Err(error) = given.parse::<AppId>() {
        report.add(path, error.to_string());
    }
}

pub(super) fn topic(report: &mut Report, path: &Path, given: &str) {
    if let Err(error) = given.parse::<TopicName>() {
        report.add(path, error.to_string());
    }
}

fn is_subdomain(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    text.split('.').all(|part| {
        edge(part.chars().next())
            && edge(part.chars().last())
            && part
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    })
}

pub(super) fn secret_name(report: &mut Report, path: &Path, given: &str) {
    report.check(
        is_subdomain(given),
        path,
        words::SECRET_NAME,
        &[("given", given)],
    );
    report.text_length(path, given, 0, limits::SECRET_NAME);
}

pub(super) fn secret_key(report: &mut Report, path: &Path, given: &str) {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    report.check(
        !given.is_empty() && given.chars().all(legal),
        path,
        words::SECRET_KEY,
        &[("given", given)],
    );
    report.text_length(path, given, 0, limits::SECRET_NAME);
}
