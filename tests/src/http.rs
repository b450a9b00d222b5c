//! Questions by HTTP.

/// A client. The library comes without a choice of cryptography, and each program makes it.
#[must_use]
pub fn client() -> reqwest::Client {
    // The first choice of the process stays; all make the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}
