//! What one test has to itself: a namespace, topics, a folder, an operator.

use std::sync::Mutex;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::bed::{Bed, Needs};
use crate::cluster::{TestNamespace, unique};
use crate::diagnostics;
use crate::expected::Query;
use crate::kafka::Kafka;
use crate::manifest::AppManifest;
use crate::operator::OperatorPlan;

/// Topics of one test; deleted when dropped, unless `TURBINE_KEEP` is set.
#[derive(Debug)]
pub struct Topics {
    kafka: Kafka,
    prefix: String,
    made: Mutex<Vec<String>>,
}

impl Topics {
    pub fn new(bed: &Bed, prefix: &str) -> Self {
        Self {
            kafka: Kafka::new(&bed.bootstrap),
            prefix: unique(prefix),
            made: Mutex::default(),
        }
    }

    pub fn kafka(&self) -> &Kafka {
        &self.kafka
    }

    /// A name of this test's own; whoever makes the topic, it is deleted in the end.
    ///
    /// # Errors
    /// Another thread panicked.
    pub fn name(&self, suffix: &str) -> Result<String> {
        let name = format!("{}.{suffix}", self.prefix);
        self.made
            .lock()
            .ok()
            .context("a thread panicked")?
            .push(name.clone());
        Ok(name)
    }

    /// Makes a topic.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn create(&self, suffix: &str, partitions: i32) -> Result<String> {
        let name = self.name(suffix)?;
        self.kafka.create_topic(&name, partitions, &[]).await?;
        Ok(name)
    }
}

impl Drop for Topics {
    fn drop(&mut self) {
        if std::env::var_os("TURBINE_KEEP").is_some() {
            return;
        }
        let made = self.made.get_mut().map(std::mem::take).unwrap_or_default();
        let names: Vec<&str> = made.iter().map(String::as_str).collect();
        if let Err(error) = self.kafka.forget(&names) {
            diagnostics::say(&format!("topics {names:?} stay: {error:#}"));
        }
    }
}

/// A test with pods.
#[derive(Debug)]
pub struct Scenario {
    // dropped in this order: apps before the topics that they read
    pub namespace: TestNamespace,
    pub topics: Topics,
    pub folder: TempDir,
    pub bed: Bed,
}

impl Scenario {
    /// None: the machine cannot run it, and the test is counted as skipped.
    ///
    /// # Errors
    /// The bed is not up.
    pub async fn begin(test: &str) -> Result<Option<Self>> {
        let Some(bed) = Bed::for_test(test, Needs::Pods)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            namespace: TestNamespace::create("t").await?,
            topics: Topics::new(&bed, "t"),
            folder: TempDir::new()?,
            bed,
        }))
    }

    pub fn kafka(&self) -> &Kafka {
        self.topics.kafka()
    }

    /// An app of this test's own name: its identity at the broker must be no other test's.
    pub fn app(&self, input: &str, output: &str) -> AppManifest {
        AppManifest::new(&unique("app"), &self.bed.bootstrap, input, output)
    }

    pub fn query(&self, input: &str, output: &str) -> Query {
        AppManifest::query(&self.bed.bootstrap, input, output)
    }

    /// An operator for this test's namespace, with the rights of the chart and no others.
    ///
    /// # Errors
    /// The rights cannot be given.
    pub fn operator(&self) -> Result<OperatorPlan> {
        OperatorPlan::new(&self.bed, &self.namespace, self.folder.path())
    }
}
