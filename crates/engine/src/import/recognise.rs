//! Recognises what an input is when it is not of the kind that it was given as.

use super::Kind;
use kflow_sources::{Fed, TimeHint};

/// Most lines that are tried.
const LINES: usize = 200;

/// First bytes of files of other kinds, and what users are told about them.
const FOREIGN: [(&[u8], &str); 4] = [
    (b"BZh", "it is compressed with bzip2: unpack it first"),
    (b"PK\x03\x04", "it is a zip archive: give it without a flag"),
    (
        b"{\"kflow\":",
        "it is a kflow session already: `kflow replay` plays it",
    ),
    (b"NAME", "it is a table: ask kubectl for it with -o json"),
];

/// Returns a sentence about an input that gave no observation, from its first bytes. `None` when it is empty or of
/// the given kind.
pub(super) fn misfit(name: &str, said: Kind, begin: &[u8], why: Option<&str>) -> Option<String> {
    let text = begin.trim_ascii_start();
    if text.is_empty() {
        return None;
    }
    let not = format!("{name} is not {}", said.noun());
    if let Some((_, what)) = FOREIGN.iter().find(|(front, _)| text.starts_with(front)) {
        return Some(format!("{not}: {what}"));
    }
    if begin.get(257..262) == Some(b"ustar") {
        return Some(format!(
            "{not}: it is a tar archive: give it without a flag"
        ));
    }
    if said != Kind::Watch && super::yaml::is(text) {
        return Some(format!(
            "{not}: it looks like objects of the API in YAML, which are given with --watch"
        ));
    }
    match kind_of(text) {
        // The logs of all Kubernetes components are decoded alike.
        Some(k) if k == said || (k.klog() && said.klog()) => None,
        Some(Kind::Kubelet) => Some(format!(
            "{not}: it looks like a log of the kubelet or the control plane, which are given with --kubelet-log, --apiserver-log and so on"
        )),
        Some(k) => Some(format!(
            "{not}: it looks like {}, which is given with --{}",
            k.noun(),
            k.flag()
        )),
        None => Some(match why {
            Some(why) => format!("{not}, nor anything else that kflow knows ({why})"),
            None => format!("{not}, nor anything else that kflow knows"),
        }),
    }
}

/// Returns a sentence about a file that was given without a flag, and whose name and content do not say what it is.
/// `told` is its name, with a reason in brackets if its name promised something.
pub(super) fn unnamed(told: &str, begin: &[u8]) -> String {
    let text = begin.trim_ascii_start();
    if let Some((_, what)) = FOREIGN.iter().find(|(front, _)| text.starts_with(front)) {
        return format!("{told}: {what}");
    }
    match kind_of(text) {
        Some(k) if k.klog() => format!(
            "{told}: it looks like a log of the kubelet or the control plane: say of which with --kubelet-log, --apiserver-log and so on"
        ),
        Some(k) => format!(
            "{told}: it looks like {}: give it with --{}",
            k.noun(),
            k.flag()
        ),
        None => told.to_owned(),
    }
}

/// Returns the kind whose decoder makes the most observations of the first lines.
fn kind_of(begin: &[u8]) -> Option<Kind> {
    let mut lines: Vec<&[u8]> = begin.split(|b| *b == b'\n').take(LINES + 1).collect();
    if lines.len() > 1 {
        // The last line may be cut.
        lines.pop();
    }
    // The first kind wins among equals: logs of the control plane are decoded like the kubelet's.
    let mut best: Option<(usize, Kind)> = None;
    for kind in Kind::ALL {
        let mut decoder = kind.decoder(TimeHint::default());
        let mut out = Vec::new();
        let mut malformed = 0;
        for line in &lines {
            if let Fed::Malformed(_) = decoder.line(line, &mut out) {
                malformed += 1;
            }
        }
        decoder.finish(&mut out);
        if out.len() > malformed && best.is_none_or(|(n, _)| out.len() > n) {
            best = Some((out.len(), kind));
        }
    }
    best.map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUDIT: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/a/pods/b","verb":"get","user":{"username":"system:node:n"},"objectRef":{"resource":"pods","namespace":"a","name":"b","apiVersion":"v1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-21T00:24:20.000000Z","stageTimestamp":"2026-11-21T00:24:20.001000Z"}"#;
    const KLOG: &str =
        "I1121 00:24:19.334034    3731 kubelet.go:2724] \"SyncLoop ADD\" pods=[\"a/b\"]\n";

    #[test]
    fn what_a_file_is_instead_is_told_with_what_to_do() {
        for (said, begin, want) in [
            (Kind::Watch, AUDIT, Some("--audit")),
            (Kind::Kubelet, AUDIT, Some("--audit")),
            (Kind::Audit, KLOG, Some("--kubelet-log")),
            (Kind::Watch, KLOG, Some("--kubelet-log")),
            (Kind::Audit, "apiVersion: v1\nitems:\n", Some("--watch")),
            (Kind::Kubelet, "---\napiVersion: v1\n", Some("--watch")),
            (Kind::Watch, "NAMESPACE  NAME  READY\n", Some("-o json")),
            (
                Kind::Otlp,
                "{\"kflow\":1,\"tool\":\"0.1.0\"}\n",
                Some("kflow replay"),
            ),
            (Kind::Audit, "hello\nworld\n", Some("nor anything else")),
            (Kind::Audit, "  \n", None),
            (Kind::Audit, AUDIT, None),
            (Kind::Scheduler, KLOG, None),
        ] {
            let told = misfit("x", said, begin.as_bytes(), None);
            assert_eq!(
                told.as_deref().map(|t| t.contains(want.unwrap_or("?"))),
                want.map(|_| true),
                "{said:?} {begin:.20}: {told:?}"
            );
        }
    }
}
