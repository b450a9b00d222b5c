use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;
use turbine_crds::compiled::CONTROL_PORT;

use super::Blueprint;
use super::service_account::metadata;
use crate::app::names;

/// Gives pods stable names. Workers are found before they are ready: they have to answer while they restore.
pub(super) fn build(of: &Blueprint<'_>) -> Service {
    Service {
        metadata: ObjectMeta {
            name: Some(names::service(of.app.name().as_str())),
            ..metadata(of)
        },
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            publish_not_ready_addresses: Some(true),
            selector: Some(names::selector(of.app.name().as_str())),
            ports: Some(vec![ServicePort {
                name: Some("control".to_owned()),
                port: i32::from(CONTROL_PORT),
                target_port: Some(IntOrString::String("control".to_owned())),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}
