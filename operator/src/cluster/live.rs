use std::time::Duration;

use async_trait::async_trait;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy,
};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::Value;
use turbine_crds::app::TurbineApp;

use super::{Cluster, ClusterError, Kind, Named, Propagation};

/// Name under which the operator owns fields. It never changes: fields of another name could not
/// be removed any more.
const FIELD_MANAGER: &str = "turbine-operator";

/// Longest wait for one answer. A call that hangs would block its app, and only that one.
const CALL_DEADLINE: Duration = Duration::from_secs(20);

/// The cluster behind a kube client.
#[derive(Clone)]
pub struct LiveCluster {
    client: Client,
}

impl std::fmt::Debug for LiveCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveCluster").finish_non_exhaustive()
    }
}

impl LiveCluster {
    /// Speaks through `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        let (group, version) = kind
            .api_version()
            .split_once('/')
            .unwrap_or(("", kind.api_version()));
        let resource = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(group, version, &kind.to_string()),
            kind.plural(),
        );
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }
}

fn error(verb: &'static str, named: Named<'_>, error: kube::Error) -> ClusterError {
    let object = named.to_string();
    match error {
        kube::Error::Api(status) => {
            let message = status.message.clone();
            if status.is_conflict() {
                ClusterError::Conflict { object }
            } else if status.is_already_exists() {
                ClusterError::AlreadyExists { object }
            } else if status.is_not_found() {
                ClusterError::NotFound { object }
            } else if status.is_forbidden() || status.code == 401 {
                ClusterError::Forbidden {
                    verb,
                    object,
                    message,
                }
            } else if status.is_invalid() || status.code == 400 {
                ClusterError::Invalid { object, message }
            } else {
                ClusterError::Unavailable {
                    verb,
                    object,
                    message,
                }
            }
        }
        kube::Error::SerdeError(error) => ClusterError::Unreadable {
            object,
            message: error.to_string(),
        },
        other => ClusterError::Unavailable {
            verb,
            object,
            message: other.to_string(),
        },
    }
}

async fn within<T>(
    verb: &'static str,
    named: Named<'_>,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ClusterError> {
    match tokio::time::timeout(CALL_DEADLINE, call).await {
        Ok(answer) => answer.map_err(|failed| error(verb, named, failed)),
        Err(_) => Err(ClusterError::Unavailable {
            verb,
            object: named.to_string(),
            message: format!("no answer within {CALL_DEADLINE:?}"),
        }),
    }
}

fn plain(named: Named<'_>, mut object: DynamicObject) -> Result<Value, ClusterError> {
    // Half the bytes of an object, and nothing here compares ownership.
    object.metadata.managed_fields = None;
    serde_json::to_value(object).map_err(|error| ClusterError::Unreadable {
        object: named.to_string(),
        message: error.to_string(),
    })
}

fn object(named: Named<'_>, value: &Value) -> Result<DynamicObject, ClusterError> {
    serde_json::from_value(value.clone()).map_err(|error| ClusterError::Unreadable {
        object: named.to_string(),
        message: error.to_string(),
    })
}

fn name_of(value: &Value) -> &str {
    value
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl LiveCluster {
    async fn remove(
        &self,
        named: Named<'_>,
        preconditions: Preconditions,
        policy: PropagationPolicy,
    ) -> Result<(), ClusterError> {
        let params = DeleteParams {
            preconditions: Some(preconditions),
            propagation_policy: Some(policy),
            ..DeleteParams::default()
        };
        let api = self.api(named.0, named.1);
        let deleted = api.delete(named.2, &params);
        match within("delete", named, deleted).await {
            Ok(_) | Err(ClusterError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Cluster for LiveCluster {
    async fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ClusterError> {
        let named = Named(kind, namespace, name);
        let found = within("get", named, self.api(kind, namespace).get_opt(name)).await?;
        found.map(|object| plain(named, object)).transpose()
    }

    async fn list(
        &self,
        kind: Kind,
        namespace: &str,
        labels: &str,
    ) -> Result<Vec<Value>, ClusterError> {
        let named = Named(kind, namespace, "*");
        let api = self.api(kind, namespace);
        let params = ListParams::default().labels(labels);
        let found = within("list", named, api.list(&params)).await?;
        found
            .items
            .into_iter()
            .map(|mut object| {
                // Items of a list come without their kind.
                object.types = Some(TypeMeta {
                    api_version: kind.api_version().to_owned(),
                    kind: kind.to_string(),
                });
                plain(named, object)
            })
            .collect()
    }

    async fn create(&self, kind: Kind, namespace: &str, value: &Value) -> Result<(), ClusterError> {
        let named = Named(kind, namespace, name_of(value));
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let object = object(named, value)?;
        within(
            "create",
            named,
            self.api(kind, namespace).create(&params, &object),
        )
        .await?;
        Ok(())
    }

    async fn apply(&self, kind: Kind, namespace: &str, value: &Value) -> Result<(), ClusterError> {
        let named = Named(kind, namespace, name_of(value));
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let api = self.api(kind, namespace);
        within(
            "apply",
            named,
            api.patch(named.2, &params, &Patch::Apply(value)),
        )
        .await?;
        Ok(())
    }

    async fn merge(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<(), ClusterError> {
        let named = Named(kind, namespace, name);
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api = self.api(kind, namespace);
        within(
            "patch",
            named,
            api.patch(name, &params, &Patch::Merge(patch)),
        )
        .await?;
        Ok(())
    }

    async fn delete(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        uid: &str,
        propagation: Propagation,
    ) -> Result<(), ClusterError> {
        let preconditions = Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        };
        let policy = match propagation {
            Propagation::Orphan => PropagationPolicy::Orphan,
            Propagation::Background => PropagationPolicy::Background,
        };
        self.remove(Named(kind, namespace, name), preconditions, policy)
            .await
    }

    async fn delete_unchanged(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: &str,
    ) -> Result<(), ClusterError> {
        let preconditions = Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: Some(resource_version.to_owned()),
        };
        let named = Named(kind, namespace, name);
        self.remove(named, preconditions, PropagationPolicy::Background)
            .await
    }

    async fn replace_status(&self, app: &TurbineApp) -> Result<TurbineApp, ClusterError> {
        let namespace = app.namespace().unwrap_or_default();
        let name = app.name_any();
        let named = Named(Kind::TurbineApp, &namespace, &name);
        debug_assert!(app.meta().resource_version.is_some());
        let api: Api<TurbineApp> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        within(
            "write the status of",
            named,
            api.replace_status(&name, &params, app),
        )
        .await
    }
}
