//! The router's certificate, and the authorities of clients. They are read from files at the start, and again when a file changes.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::cli::Role;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::Wrong;
use crate::startup::{Tls, for_role};

/// Interval at which the files are checked for changes.
pub(super) const CHECK: Duration = Duration::from_secs(2);

/// The contents of the files.
#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) acceptor: TlsAcceptor,
    /// The verifiers of client certificates, from the highest role to the lowest. The first one that accepts a client decides its role.
    pub(super) verifiers: Arc<[(Role, Arc<dyn ClientCertVerifier>)]>,
}

/// The files, and their state when they were read last.
pub(super) struct Files {
    certificate: PathBuf,
    key: PathBuf,
    authorities: Vec<(Role, PathBuf)>,
    state: Vec<Option<State>>,
    /// The fault that [`read_again`](Self::read_again) has found last, and the state of the files then; `None` if the files were read since.
    fault: Option<(Wrong, Vec<Option<State>>)>,
}

/// Device, inode and size of a file, and the time of the last change of its contents or its rights, in seconds and nanoseconds. A changed
/// file has another state.
type State = (u64, u64, u64, i64, i64);

impl Files {
    /// Returns the files that the settings name. `address` is the port, for errors.
    ///
    /// # Errors
    /// If no certificate, private key or authority is set.
    pub(super) fn new(settings: &Tls, address: impl std::fmt::Display) -> Result<Files, Wrong> {
        let set = |path: &Option<PathBuf>, name| {
            let missing =
                || format!("the port {address} needs a certificate: set native-api {{ {name} FILE }}");
            path.clone().ok_or_else(|| ("listen".to_owned(), missing()))
        };
        let (certificate, key) =
            (set(&settings.certificate, "certificate")?, set(&settings.key, "private-key")?);
        if settings.authorities.is_empty() {
            let why = format!(
                "the port {address} needs an authority for clients: set native-api {{ client-ca FILE }}, client-ca-operator or client-ca-read-only"
            );
            return Err(("listen".to_owned(), why));
        }
        let authorities =
            settings.authorities.iter().rev().map(|(role, path)| (*role, path.clone())).collect();
        Ok(Files { certificate, key, authorities, state: Vec::new(), fault: None })
    }

    /// Reads the files.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub(super) fn read(&mut self) -> Result<Credentials, Wrong> {
        // Taken before the files are read: they are read again if they change meanwhile.
        self.state = self.present();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = |roots: RootCertStore| {
            WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone()).build()
        };
        let (mut all, mut verifiers) = (RootCertStore::empty(), Vec::new());
        for (role, path) in &self.authorities {
            let at = |why| (for_role("client-ca", *role), why);
            let mut roots = RootCertStore::empty();
            for one in certificates(path).map_err(at)? {
                let wrong = |e| at(format!("{}: a certificate cannot be used as a CA: {e}", path.display()));
                roots.add(one.clone()).map_err(wrong)?;
                all.add(one).map_err(wrong)?;
            }
            let wrong = |e| at(format!("{} cannot be used: {e}", path.display()));
            let verifier: Arc<dyn ClientCertVerifier> = verifier(roots).map_err(wrong)?;
            verifiers.push((*role, verifier));
        }
        let own = certificates(&self.certificate).map_err(|why| ("certificate".to_owned(), why))?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|e| {
            let why = format!("cannot read a private key from {}: {e}", self.key.display());
            ("private-key".to_owned(), why)
        })?;
        let wrong =
            |e| ("certificate".to_owned(), format!("the certificate and the key cannot be used: {e}"));
        let verifier = verifier(all).map_err(|e| ("client-ca".to_owned(), e.to_string()))?;
        let mut config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(own, key)
            .map_err(wrong)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Credentials { acceptor: TlsAcceptor::from(Arc::new(config)), verifiers: verifiers.into() })
    }

    /// Reads the files again if one of them has changed, or if the last reading failed. Returns `None` if there is nothing new: no file has
    /// changed, or the same files have the fault that was returned before.
    pub(super) fn read_again(&mut self) -> Option<Result<Credentials, Wrong>> {
        if self.present() == self.state {
            return None;
        }
        match self.read() {
            Ok(credentials) => {
                self.fault = None;
                Some(Ok(credentials))
            }
            Err(wrong) => {
                // The next check reads them again, whether they change or not: the fault may be one of the machine.
                let found = (wrong.clone(), std::mem::take(&mut self.state));
                let is_known = self.fault.as_ref() == Some(&found);
                self.fault = Some(found);
                (!is_known).then_some(Err(wrong))
            }
        }
    }

    fn present(&self) -> Vec<Option<State>> {
        let all =
            [&self.certificate, &self.key].into_iter().chain(self.authorities.iter().map(|(_, path)| path));
        let state = |m: Metadata| (m.dev(), m.ino(), m.size(), m.ctime(), m.ctime_nsec());
        all.map(|path| fs::metadata(path).ok().map(state)).collect()
    }
}

/// Reads the certificates of a file.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = read.map_err(|e| format!("cannot read certificates from {}: {e}", path.display()))?;
    match all.is_empty() {
        true => Err(format!("{} has no certificate in PEM form", path.display())),
        false => Ok(all),
    }
}
