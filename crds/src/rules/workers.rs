//! Worker pods: how many, their image and resources, and their volumes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;

use super::report::{Path, Report};
use super::{limits, words};
use crate::app::{TopicsSpec, VolumeSpec, WorkerSpec};
use crate::quantity::Quantity;

pub(super) fn check_replicas(report: &mut Report, path: &Path, replicas: i32) {
    report.check(
        (1..=limits::REPLICAS).contains(&replicas),
        path,
        words::REPLICAS,
        &[],
    );
}

pub(super) fn check(report: &mut Report, path: &Path, worker: &WorkerSpec) {
    if let Some(image) = &worker.image {
        let path = path.field("image");
        let legal = !image.is_empty()
            && !image
                .chars()
                .any(|c| c.is_ascii_whitespace() || c == '\u{b}');
        report.check(legal, &path, words::IMAGE, &[("given", image)]);
        report.text_length(&path, image, 0, limits::IMAGE);
    }
    if let Some(resources) = &worker.resources {
        check_resources(report, &path.field("resources"), resources);
    }
}

fn check_resources(report: &mut Report, path: &Path, resources: &ResourceRequirements) {
    let limits = quantities(report, &path.field("limits"), resources.limits.as_ref());
    let requests = quantities(report, &path.field("requests"), resources.requests.as_ref());
    if let Some((text, limit)) = limits.get("memory") {
        report.check(
            limit.ceil().is_some_and(|bytes| bytes >= limits::MEMORY),
            &path.field("limits").field("memory"),
            words::MEMORY_LIMIT,
            &[("given", text)],
        );
    }
    for (name, (text, request)) in &requests {
        if let Some((limit_text, limit)) = limits.get(name) {
            report.check(
                request <= limit,
                &path.field("requests").field(name),
                words::REQUEST_ABOVE_LIMIT,
                &[("request", text), ("limit", limit_text)],
            );
        }
    }
}

fn quantities<'a>(
    report: &mut Report,
    path: &Path,
    given: Option<&'a BTreeMap<String, QuantityText>>,
) -> BTreeMap<&'a str, (&'a str, Quantity)> {
    let mut out = BTreeMap::new();
    for (name, QuantityText(text)) in given.into_iter().flatten() {
        let path = path.field(name);
        let values = [("text", text.as_str())];
        match Quantity::parse(text) {
            Ok(quantity) => {
                report.check(quantity >= Quantity::ZERO, &path, words::NEGATIVE, &values);
                out.insert(name.as_str(), (text.as_str(), quantity));
            }
            Err(_) => report.refuse(&path, words::QUANTITY, &values),
        }
    }
    out
}

pub(super) fn check_volume(report: &mut Report, path: &Path, volume: &VolumeSpec) {
    let size = path.field("size");
    let positive = Quantity::parse(&volume.size)
        .is_ok_and(|size| size >= Quantity::ONE && size.ceil().is_some());
    report.check(positive, &size, words::SIZE, &[("given", &volume.size)]);
    report.text_length(&size, &volume.size, 0, limits::QUANTITY);
    if let Some(class) = &volume.storage_class_name {
        report.text_length(
            &path.field("storageClassName"),
            class,
            1,
            limits::STORAGE_CLASS,
        );
    }
}

/// What may not change in the volumes of an app that exists.
pub(super) fn check_volume_change(
    report: &mut Report,
    path: &Path,
    old: &VolumeSpec,
    new: &VolumeSpec,
) {
    if let (Ok(before), Ok(after)) = (Quantity::parse(&old.size), Quantity::parse(&new.size)) {
        report.check(
            after >= before,
            &path.field("size"),
            words::SIZE_SHRINKS,
            &[("old", &old.size), ("new", &new.size)],
        );
    }
    report.check(
        old.storage_class_name == new.storage_class_name,
        &path.field("storageClassName"),
        words::STORAGE_CLASS_CHANGED,
        &[],
    );
}

pub(super) fn check_topics(report: &mut Report, path: &Path, topics: &TopicsSpec) {
    if let Some(factor) = topics.replication_factor {
        report.check(
            (1..=limits::REPLICATION).contains(&factor),
            &path.field("replicationFactor"),
            words::REPLICATION,
            &[],
        );
    }
    let config = topics.config.iter().flatten();
    let path = path.field("config");
    report.list_length(&path, config.clone().count(), 0, limits::PROPERTIES);
    for (name, value) in config {
        report.text_length(&path.key(name), value, 0, limits::SETTING);
    }
}
