//! The lease: one operator acts at a time. It only avoids double work: what keeps two operators
//! from harming each other are the resourceVersions that every write carries.

use kube::Client;
use kube_lease_manager::{LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;

use crate::LeaseLost;
use crate::settings::Settings;

/// A lease that is held or waited for.
#[derive(Debug)]
pub(crate) struct Leadership {
    held: watch::Receiver<bool>,
}

impl Leadership {
    /// Starts to try for the lease.
    ///
    /// # Errors
    /// If the lease can be neither read nor made.
    pub(crate) async fn seek(
        client: Client,
        settings: &Settings,
        identity: &str,
    ) -> Result<Self, LeaseManagerError> {
        let manager = LeaseManagerBuilder::new(client, settings.lease_name.as_str())
            .with_namespace(settings.lease_namespace.as_str())
            .with_identity(identity)
            .with_duration(15)
            .with_grace(5)
            .build()
            .await?;
        // The manager's task ends by itself when the receiver is dropped, and gives the lease back.
        let (held, _task) = manager.watch().await;
        Ok(Self { held })
    }

    /// Waits until the lease is held.
    pub(crate) async fn won(&mut self) -> Result<(), LeaseLost> {
        self.held
            .wait_for(|held| *held)
            .await
            .map(|_| ())
            .map_err(|_| LeaseLost)
    }

    /// Waits until the lease is lost.
    pub(crate) async fn lost(&mut self) -> LeaseLost {
        // A closed channel is a manager that has given up, which is a lost lease as well.
        let _ = self.held.wait_for(|held| !*held).await;
        LeaseLost
    }
}
