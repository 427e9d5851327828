//! Why a request did not reach an apiserver, in words for who can change it: what happened, to what, and what helps.

use std::error::Error;
use std::io;

use hyper_util::client::legacy;
use kube::client::AuthError;
use kube::config::ExecConfig;
use rustls::{CertificateError, Error as Tls};

use crate::live::root;
use kflow_model::Nanos;
use kflow_model::gap::Failure;
use kflow_model::stamp::SECOND;

/// Most of a login program's words that are told, characters.
const SAID: usize = 300;

/// What became of the ways to log in that Kubernetes 1.26 removed from its clients: name of the `auth-provider`, and
/// what replaces it (kubernetes/enhancements 541; cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl,
/// azure.github.io/kubelogin).
const PROVIDERS: [(&str, &str); 2] = [
    (
        "gcp",
        "install gke-gcloud-auth-plugin, and write the kubeconfig anew: `gcloud container clusters get-credentials`",
    ),
    (
        "azure",
        "install kubelogin, and rewrite the kubeconfig: `kubelogin convert-kubeconfig`",
    ),
];

/// Returns the kind of a request's error, and what happened in words; `server` names the apiserver.
pub(crate) fn explain(server: &str, e: &(dyn Error + 'static)) -> (Failure, String) {
    let mut connecting = false;
    for cause in std::iter::successors(Some(e), |e| cause(*e)) {
        if let Some(e) = cause.downcast_ref::<AuthError>() {
            return (Failure::Unauthorized, login(e, None));
        }
        match cause.downcast_ref::<Tls>() {
            Some(Tls::InvalidCertificate(e)) => {
                return (Failure::Untrusted, format!("{server} {}", certificate(e)));
            }
            Some(Tls::AlertReceived(alert)) => {
                let why = format!(
                    "{server} does not accept the kubeconfig's client certificate ({alert:?})"
                );
                return (Failure::Unauthorized, why);
            }
            _ => {}
        }
        connecting |= cause
            .downcast_ref::<legacy::Error>()
            .is_some_and(legacy::Error::is_connect);
    }
    let why = root(e);
    if connecting {
        (
            Failure::Unreachable,
            format!("cannot reach {server}: {why}"),
        )
    } else {
        let why = format!("the connection to {server} broke: {why}");
        (Failure::Interrupted, why)
    }
}

/// The cause of an error, also where an I/O error wraps it.
fn cause<'a>(e: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let wrapped = e.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match wrapped {
        Some(inner) => Some(inner),
        None => e.source(),
    }
}

/// What is wrong with a server's certificate.
fn certificate(e: &CertificateError) -> String {
    use CertificateError as C;
    let moment = |t: &rustls::pki_types::UnixTime| {
        let secs = i64::try_from(t.as_secs()).unwrap_or(i64::MAX);
        Nanos(secs.saturating_mul(SECOND)).to_rfc3339_seconds()
    };
    match e {
        C::Expired => "has a certificate that has expired".to_owned(),
        C::ExpiredContext { time, not_after } => format!(
            "has a certificate that expired at {}; by this machine's clock it is {}",
            moment(not_after),
            moment(time)
        ),
        C::NotValidYet => "has a certificate that is not valid yet".to_owned(),
        C::NotValidYetContext { time, not_before } => format!(
            "has a certificate that is valid from {} on; by this machine's clock it is {}",
            moment(not_before),
            moment(time)
        ),
        C::UnknownIssuer | C::BadSignature => {
            "has a certificate of another authority than the kubeconfig's (certificate-authority)"
                .to_owned()
        }
        C::NotValidForName => {
            "has a certificate for other names than the kubeconfig's address".to_owned()
        }
        C::NotValidForNameContext {
            expected,
            presented,
        } => format!(
            "has a certificate for {}, and not for {}",
            presented.join(", "),
            expected.to_str()
        ),
        other => format!("has a certificate that is not accepted: {other}"),
    }
}

/// Why there are no credentials; `exec` is the program that the kubeconfig names to log in.
pub(super) fn login(e: &AuthError, exec: Option<&ExecConfig>) -> String {
    let program = match exec.and_then(|e| e.command.as_ref()) {
        Some(program) => format!("the kubeconfig's login program {program}"),
        None => "the kubeconfig's login program".to_owned(),
    };
    match e {
        AuthError::AuthExecStart(e) if e.kind() == io::ErrorKind::NotFound => {
            let hint = exec
                .and_then(|e| e.install_hint.as_deref())
                .map(|h| last_words(h.as_bytes()));
            let hint = hint.filter(|h| !h.is_empty());
            let hint = hint.map_or_else(String::new, |h| format!(" (the kubeconfig says: {h})"));
            format!("{program} is not there: install it{hint}, or add its folder to PATH")
        }
        AuthError::AuthExecStart(e) => format!("{program} cannot be run: {e}"),
        AuthError::AuthExecRun { out, .. } => {
            let said = last_words(&out.stderr);
            if said.is_empty() {
                format!("{program} failed ({})", out.status)
            } else {
                format!("{program} failed: {said}")
            }
        }
        AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed => {
            format!("{program} did not print a credential")
        }
        other => other.to_string(),
    }
}

/// Why the kubeconfig's client certificate and key cannot be used, which is found before there is a connection; `None` for
/// an error about something else.
pub(super) fn identity(e: &kube::Error) -> Option<String> {
    use rustls::InconsistentKeys;

    let kube::Error::RustlsTls(tls) = e else {
        return None;
    };
    let mut causes = std::iter::successors(Some(tls as &(dyn Error + 'static)), |e| cause(*e));
    let why = match causes.find_map(|e| e.downcast_ref::<Tls>()) {
        // Go, and so kubectl, takes such a certificate.
        Some(Tls::InvalidCertificate(CertificateError::Other(e)))
            if e.0.to_string() == "UnsupportedCertVersion" =>
        {
            "client-certificate is of X.509 version 1, and kflow takes version 3 only: have it signed with an extension, as with \
             `openssl x509 -req … -extfile FILE` where FILE has the line extendedKeyUsage=clientAuth"
                .to_owned()
        }
        Some(Tls::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            "client-key is not the key of its client-certificate".to_owned()
        }
        Some(Tls::InvalidCertificate(e)) => {
            format!("client-certificate cannot be used: {e}")
        }
        Some(e) => format!("client-key cannot be used: {e}"),
        // The texts are those of kube-client, whose type is private.
        None => match tls.to_string() {
            e if e.contains("missing a private key") => "client-key has no private key".to_owned(),
            e if e.contains("missing certificate") => {
                "client-certificate has no certificate".to_owned()
            }
            e if e.starts_with("identity PEM") => {
                format!("client-certificate or client-key cannot be read: {e}")
            }
            _ => return None,
        },
    };
    Some(format!("the kubeconfig's {why}"))
}

/// Why the kubeconfig's `auth-provider` gives no credentials.
pub(super) fn provided(name: &str, e: &AuthError) -> String {
    match PROVIDERS.iter().find(|(n, _)| *n == name) {
        Some((_, instead)) => format!(
            "the kubeconfig logs in by the auth-provider {name}, which Kubernetes 1.26 has removed: {instead}"
        ),
        None => format!("the kubeconfig's auth-provider {name} gives no credentials: {e}"),
    }
}

/// The last lines of a program's complaint, in one.
fn last_words(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let lines: Vec<&str> = lines.collect();
    let last = lines
        .get(lines.len().saturating_sub(3)..)
        .unwrap_or_default();
    last.join(" ").chars().take(SAID).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::{ServerName, UnixTime};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{ExitStatus, Output};
    use std::time::Duration;

    /// An error as a client hands it over: wrapped by the connection's I/O.
    fn wrapped(e: impl Error + Send + Sync + 'static) -> kube::Error {
        kube::Error::Service(Box::new(io::Error::new(io::ErrorKind::InvalidData, e)))
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_told_in_dates_and_names() {
        let at = |secs| UnixTime::since_unix_epoch(Duration::from_secs(secs));
        let name = ServerName::try_from("10.0.0.1").unwrap();
        for (e, wanted) in [
            (
                CertificateError::ExpiredContext {
                    time: at(1_795_220_659),
                    not_after: at(1_735_689_600),
                },
                "has a certificate that expired at 2025-01-01T00:00:00Z; by this machine's clock it is 2026-11-21T00:24:19Z",
            ),
            (
                CertificateError::UnknownIssuer,
                "has a certificate of another authority than the kubeconfig's (certificate-authority)",
            ),
            (
                CertificateError::NotValidForNameContext {
                    expected: name,
                    presented: vec!["kubernetes".to_owned(), "localhost".to_owned()],
                },
                "has a certificate for kubernetes, localhost, and not for 10.0.0.1",
            ),
        ] {
            let (failure, why) = explain("the apiserver", &wrapped(Tls::InvalidCertificate(e)));
            assert_eq!(failure, Failure::Untrusted);
            assert_eq!(why, format!("the apiserver {wanted}"));
        }
        let alert = Tls::AlertReceived(rustls::AlertDescription::CertificateExpired);
        let (failure, why) = explain("the apiserver", &wrapped(alert));
        assert_eq!(failure, Failure::Unauthorized);
        assert!(
            why.contains("client certificate (CertificateExpired)"),
            "{why}"
        );
    }

    #[test]
    fn of_a_login_program_its_own_words_are_told() {
        let ran = |stderr: &str| AuthError::AuthExecRun {
            cmd: "\"aws\" \"eks\" \"get-token\"".to_owned(),
            out: Box::new(Output {
                status: ExitStatus::from_raw(256),
                stdout: Vec::new(),
                stderr: stderr.as_bytes().to_vec(),
            }),
        };
        let exec = |hint: Option<&str>| ExecConfig {
            command: Some("aws".to_owned()),
            install_hint: hint.map(str::to_owned),
            ..ExecConfig::default()
        };
        let plain = exec(None);
        let aws = Some(&plain);
        assert_eq!(
            login(&ran("please run aws sso login\n"), aws),
            "the kubeconfig's login program aws failed: please run aws sso login"
        );
        assert_eq!(
            login(&ran(""), aws),
            "the kubeconfig's login program aws failed (exit status: 1)"
        );
        let gone = AuthError::AuthExecStart(io::ErrorKind::NotFound.into());
        assert_eq!(
            login(&gone, aws),
            "the kubeconfig's login program aws is not there: install it, or add its folder to PATH"
        );
        assert_eq!(
            login(&gone, Some(&exec(Some("\nbrew install awscli\n")))),
            "the kubeconfig's login program aws is not there: install it (the kubeconfig says: brew install awscli), or add its folder to PATH"
        );
        // While kflow runs, the credentials are asked for again.
        let e = kube::Error::Service(Box::new(ran("token expired")));
        let (failure, why) = explain("the apiserver", &e);
        assert_eq!(failure, Failure::Unauthorized);
        assert!(
            why.ends_with("login program failed: token expired"),
            "{why}"
        );
    }
}
