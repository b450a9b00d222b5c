//! Collecting broken rules: paths of fields and the errors found under them.

use super::FieldError;
use super::limits::DurationRange;
use super::words::{self, Words};
use crate::text::DurationText;

/// Path of a field, for example `spec.subscriptions[0].input`.
#[derive(Debug, Clone)]
pub(super) struct Path(String);

impl Path {
    pub(super) fn root(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub(super) fn field(&self, name: &str) -> Self {
        Self(format!("{}.{name}", self.0))
    }

    pub(super) fn index(&self, at: usize) -> Self {
        Self(format!("{}[{at}]", self.0))
    }

    pub(super) fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }
}

/// The broken rules so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    errors: Vec<FieldError>,
}

impl Report {
    pub(super) fn into_result(self) -> Result<(), Vec<FieldError>> {
        if self.errors.is_empty() {
            Ok(())
        } else {
            Err(self.errors)
        }
    }

    pub(super) fn add(&mut self, path: &Path, message: String) {
        self.errors.push(FieldError {
            path: path.0.clone(),
            message,
        });
    }

    pub(super) fn refuse(&mut self, path: &Path, words: Words, values: &[(&str, &str)]) {
        self.add(path, words.with(values));
    }

    pub(super) fn check(
        &mut self,
        holds: bool,
        path: &Path,
        words: Words,
        values: &[(&str, &str)],
    ) {
        if !holds {
            self.refuse(path, words, values);
        }
    }

    pub(super) fn list_length(&mut self, path: &Path, length: usize, min: usize, max: usize) {
        self.length(words::LIST_LENGTH, path, length, min, max);
    }

    pub(super) fn text_length(&mut self, path: &Path, text: &str, min: usize, max: usize) {
        self.length(words::TEXT_LENGTH, path, text.chars().count(), min, max);
    }

    fn length(&mut self, words: Words, path: &Path, length: usize, min: usize, max: usize) {
        self.check(
            (min..=max).contains(&length),
            path,
            words,
            &[
                ("count", &length.to_string()),
                ("min", &min.to_string()),
                ("max", &max.to_string()),
            ],
        );
    }

    /// Refuses the second and every further entry of one name.
    pub(super) fn names_once<'a>(
        &mut self,
        path: &Path,
        field: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) {
        let mut seen = std::collections::HashSet::new();
        for (at, name) in names.into_iter().enumerate() {
            self.check(
                seen.insert(name),
                &path.index(at).field(field),
                words::TWICE,
                &[("name", name)],
            );
        }
    }

    pub(super) fn duration(
        &mut self,
        path: &Path,
        text: Option<&DurationText>,
        range: DurationRange,
    ) {
        let Some(text) = text else { return };
        match text.millis() {
            Err(error) => self.add(path, error.to_string()),
            Ok(millis) => self.check(
                (range.min.1..=range.max.1).contains(&millis),
                path,
                words::DURATION_RANGE,
                &[
                    ("text", &text.0),
                    ("min", range.min.0),
                    ("max", range.max.0),
                ],
            ),
        }
    }
}
