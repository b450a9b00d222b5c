//! What kind of fault an error is: it decides who is asked to act.

use std::fmt;

/// Who has to act on a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// The spec, the data or the user's code.
    User,
    /// The broker, the way to it, or the rights there.
    Kafka,
    /// The cluster that runs the pods.
    Kubernetes,
    /// The volume or what lies on it.
    Storage,
    /// This program.
    Bug,
}

impl Category {
    /// One word in lower case, for labels of metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Kafka => "kafka",
            Self::Kubernetes => "kubernetes",
            Self::Storage => "storage",
            Self::Bug => "bug",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error that knows whose it is and under which name users see it.
pub trait Fault: std::error::Error {
    /// Who has to act.
    fn category(&self) -> Category;

    /// A constant in CamelCase, for conditions and events.
    fn reason(&self) -> &'static str;

    /// Whether the same act may succeed later without anybody acting on this program: the caller
    /// tries again with a growing delay.
    fn passes_by_itself(&self) -> bool;
}
