//! The Kafka cluster: addresses, TLS, SASL, client settings.

use turbine_protocol::client_properties::{BESIDE_TRANSACTIONS, denial, property_refusal};

use super::report::{Path, Report};
use super::{limits, names, words};
use crate::app::{KafkaSpec, SecretKeyRef, TlsSpec};

/// `transactions`: a subscription writes by transactions.
pub(super) fn check(report: &mut Report, path: &Path, kafka: &KafkaSpec, transactions: bool) {
    let servers = path.field("bootstrapServers");
    report.check(
        kafka.bootstrap_servers.split(',').all(is_server),
        &servers,
        words::BOOTSTRAP,
        &[("given", &kafka.bootstrap_servers)],
    );
    report.text_length(&servers, &kafka.bootstrap_servers, 0, limits::BOOTSTRAP);
    if let Some(tls) = &kafka.tls {
        check_tls(report, &path.field("tls"), tls);
    }
    if let Some(sasl) = &kafka.sasl {
        let path = path.field("sasl");
        check_secret(report, &path.field("username"), &sasl.username);
        check_secret(report, &path.field("password"), &sasl.password);
    }
    let properties = kafka.properties.iter().flatten();
    let path = path.field("properties");
    report.list_length(&path, properties.clone().count(), 0, limits::PROPERTIES);
    for (name, value) in properties {
        let beside = transactions && BESIDE_TRANSACTIONS.names.contains(&name.as_str());
        let beside = beside.then_some(BESIDE_TRANSACTIONS.reason);
        if let Some(reason) = denial(name).or(beside) {
            report.add(&path.key(name), property_refusal(name, reason));
        }
        report.text_length(&path.key(name), value, 0, limits::SETTING);
    }
}

fn check_tls(report: &mut Report, path: &Path, tls: &TlsSpec) {
    report.check(
        tls.certificate.is_some() == tls.key.is_some(),
        path,
        words::TLS_PAIR,
        &[],
    );
    for (field, secret) in [
        ("ca", &tls.ca),
        ("certificate", &tls.certificate),
        ("key", &tls.key),
    ] {
        if let Some(secret) = secret {
            check_secret(report, &path.field(field), secret);
        }
    }
}

fn check_secret(report: &mut Report, path: &Path, secret: &SecretKeyRef) {
    names::secret_name(report, &path.field("secret"), &secret.secret);
    names::secret_key(report, &path.field("key"), &secret.key);
}

fn is_server(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let port_is_legal = !port.starts_with(['0', '+']) && port.parse::<u16>().is_ok();
    let host_is_legal = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(address) => {
            !address.is_empty()
                && address
                    .chars()
                    .all(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '.'))
        }
        None => {
            !host.is_empty()
                && host
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        }
    };
    port_is_legal && host_is_legal
}
