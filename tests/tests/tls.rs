//! The native API over TLS: certificates decide who may do what. The clients are Python's own HTTP and TLS, and gRPC's for Python.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use scenarios::tool::of_python;
use testkit::netns::{Host, Lab};
use testkit::process::until;
use testkit::router::Router;

const PORT: u16 = 8443;

/// Returns parameters of a certificate for this name.
fn named(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters
}

/// Writes the certificate of a new authority, and certificates with keys that it has issued.
fn authority(directory: &Path, name: &str, issued: &[&str]) {
    let mut parameters = named(name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
    fs::write(directory.join(format!("{name}.pem")), issuer.pem()).unwrap();
    for name in issued {
        let key = KeyPair::generate().unwrap();
        let certificate = named(name).signed_by(&key, &issuer).unwrap();
        fs::write(directory.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(directory.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

/// Returns a lab with the certificates in its directory, a namespace, and a router there whose native API is on a TCP port. `None` if
/// namespaces are not available (reported as skipped).
fn served() -> Option<(Arc<Lab>, Host, Router)> {
    let lab = Lab::new()?;
    let r = lab.host("r");
    let directory = lab.dir();
    authority(directory, "of-routers", &["router"]);
    authority(directory, "of-admins", &["alice"]);
    authority(directory, "of-operators", &["olga"]);
    authority(directory, "of-viewers", &["victor"]);
    authority(directory, "of-strangers", &["mallory"]);
    let at = |name: &str| directory.join(name).display().to_string();
    let section = format!(
        "native-api {{ listen 127.0.0.1:{PORT} certificate {} private-key {} client-ca {} client-ca-operator {} client-ca-read-only {} }}",
        at("router.pem"),
        at("router.key"),
        at("of-admins.pem"),
        at("of-operators.pem"),
        at("of-viewers.pem"),
    );
    let router = Router::start_with(&r, &section, "");
    Some((lab, r, router))
}

/// Runs a task of the client.
fn client(host: &Host, python: &str, directory: &Path, task: &str) {
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/tls.py");
    let said = host.run(&format!("{python} {tool} {} {PORT} {task}", directory.display()));
    assert_eq!(said.trim(), "done");
}

#[test]
fn the_authority_of_a_certificate_decides_the_role() {
    let Some((lab, r, router)) = served() else { return };
    client(&r, "python3", lab.dir(), "roles");
    let history = router.json("show config history").to_string();
    assert!(history.contains("alice at 127.0.0.1:"), "{history}");
}

#[test]
fn clients_without_a_valid_certificate_are_refused_and_delay_nobody() {
    let Some((lab, r, router)) = served() else { return };
    client(&r, "python3", lab.dir(), "strangers");
    assert!(router.log().contains("was disconnected"), "{}", router.log());
}

#[test]
fn grpc_runs_over_tls() {
    let Some(python) = of_python("python3") else { return };
    let Some((lab, r, _router)) = served() else { return };
    client(&r, &python.display().to_string(), lab.dir(), "grpc");
}

#[test]
fn changed_certificates_are_used_without_a_restart() {
    let Some((lab, r, router)) = served() else { return };
    let directory = lab.dir();
    // Replaces a file as a whole. The router then says something that it has not said before.
    let replaced = |name: &str, bytes: &[u8], text: &str| {
        let before = router.log().matches(text).count();
        let new = directory.join("new");
        fs::write(&new, bytes).unwrap();
        fs::rename(new, directory.join(name)).unwrap();
        until(text, Duration::from_secs(60), || router.log().matches(text).count() > before);
    };
    let (stays, changed) =
        ("the previous certificates stay in use", "the files of certificates have changed");
    let read = |name: &str| fs::read(directory.join(name)).unwrap();
    let (good, good_key) = (read("router.pem"), read("router.key"));
    replaced("router.pem", b"no certificate", stays);
    client(&r, "python3", directory, "roles");
    // A program that replaces the certificate before its key.
    authority(directory, "of-fresh-routers", &["fresh"]);
    replaced("router.pem", &read("fresh.pem"), stays);
    client(&r, "python3", directory, "roles");
    replaced("router.key", &read("fresh.key"), changed);
    replaced("router.key", &good_key, stays);
    replaced("router.pem", &good, changed);
    // A new authority: certificates of the old one give no role any more.
    for name in ["alice.pem", "alice.key"] {
        fs::copy(directory.join(name), directory.join(format!("old-{name}"))).unwrap();
    }
    let before = router.log().matches(changed).count();
    authority(directory, "of-admins", &["alice"]);
    until(changed, Duration::from_secs(60), || router.log().matches(changed).count() > before);
    client(&r, "python3", directory, "roles");
    for name in ["alice.pem", "alice.key"] {
        fs::rename(directory.join(format!("old-{name}")), directory.join(name)).unwrap();
    }
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/tls.py");
    let old = format!("python3 {tool} {} {PORT} roles", directory.display());
    let old = r.attempt(&old, Duration::from_secs(60));
    assert!(!old.ok(), "a certificate of the old authority still gives a role");
}

#[test]
fn wrong_files_are_refused_at_the_start() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    authority(lab.dir(), "ca", &["router", "other"]);
    let at = |name: &str| lab.dir().join(name).display().to_string();
    let (certificate, key, other, ca) = (at("router.pem"), at("router.key"), at("other.key"), at("ca.pem"));
    for (section, why) in [
        ("listen 127.0.0.1:1".to_owned(), "2:14: the port 127.0.0.1:1 needs a certificate"),
        (format!("listen 127.0.0.1:1 certificate {certificate}"), "set native-api { private-key FILE }"),
        (
            format!("listen 127.0.0.1:1 certificate {certificate} private-key {key}"),
            "needs an authority for clients: set native-api { client-ca FILE }",
        ),
        (
            format!("listen 127.0.0.1:1 certificate {certificate} private-key {other} client-ca {ca}"),
            "the certificate and the key cannot be used",
        ),
        (
            format!("listen 127.0.0.1:1 certificate {certificate} private-key {key} client-ca {key}"),
            "router.key has no certificate in PEM form",
        ),
        (
            format!("listen 127.0.0.1:1 certificate {certificate} private-key /none client-ca {ca}"),
            "cannot read a private key from /none",
        ),
    ] {
        let refused = Router::refused(&r, &format!("unix {{ nodaemon }}\nnative-api {{ {section} }}"));
        assert!(refused.stderr.contains(why), "{section}: {refused}");
    }
}
