//! Recognises what an input is when it is not of the kind that it was given as.

use super::Kind;
use super::bundle::archive::ENCRYPTED;
use super::bundle::ticket::is_of_runtime;
use kflow_sources::kube::decode::{CUT_OFF, NO_JSON, resembles_printed};
use kflow_sources::{Fed, TimeHint, klog, runtime};

/// Size from which a begin may be less than the file, bytes.
const CUT: usize = super::stream::BEGIN;
/// Most lines that are tried.
const LINES: usize = 2_000;
/// With what a table of kubectl begins. Those of pods, Events, nodes and claims are read.
const TITLES: &[u8] = b"NAME";
const TABLE: &str = "it is a table of which kflow reads nothing: ask kubectl for it with -o json, or for pods with -A";
const CRICTL: &str = "it is a table of crictl of which kflow reads nothing: give it the logs of the kubelet and the runtime, or `kubectl get pods -A -o json`";
const PRINTED: &str = "it is what kubectl prints, and there is nothing in it that kflow reads: give it `kubectl describe pod` of a pod to its end, with the Events, or `kubectl get pods,events -A -o json`";
/// First bytes of files of other kinds, and what users are told about them.
const FOREIGN: [(&[u8], &str); 12] = [
    (b"BZh", "it is compressed with bzip2: unpack it first"),
    (b"PK\x03\x04", "it is a zip archive: give it without a flag"),
    (
        b"{\"kflow\":",
        "it is a kflow session already: `kflow replay` plays it",
    ),
    (b"age-encryption.org/", ENCRYPTED),
    (b"-----BEGIN AGE ENCRYPTED FILE-----", ENCRYPTED),
    (b"-----BEGIN PGP MESSAGE-----", ENCRYPTED),
    // What gpg writes first for a passphrase; openssl's salt.
    (b"\x8c\x0d\x04", ENCRYPTED),
    (b"Salted__", ENCRYPTED),
    // k8s.io/kubectl: pkg/cmd/get/get.go, `Run`; pkg/cmd/util/helpers.go, `StandardErrorMessage` and `checkErr`.
    (b"No resources found", NOTHING_FOUND),
    (b"The connection to the server ", UNREACHED),
    (b"Unable to connect to the server", UNREACHED),
    (
        b"Error from server",
        "it is the apiserver's refusal of what kubectl asked for: its first line says why",
    ),
];
const NOTHING_FOUND: &str =
    "kubectl found nothing there: ask it for another namespace with -n, or for all with -A";
const UNREACHED: &str = "kubectl did not reach the cluster, as its first line says";
const NO_ROW: &str =
    "it is a table of kubectl without a row: ask for pods with -A, or with -o json";

/// Returns a sentence about an input that gave no observation, from its first bytes. `None` when it is empty or of
/// the given kind.
pub(super) fn misfit(name: &str, said: Kind, begin: &[u8], why: Option<&str>) -> Option<String> {
    let text = begin.trim_ascii_start();
    if text.is_empty() {
        return None;
    }
    let not = format!("{name} is not {}", said.noun());
    if let Some(what) = foreign(text) {
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
        None if text.starts_with(TITLES) => Some(format!("{not}: {TABLE}")),
        None => Some(match why {
            Some(why) => format!("{not}, nor anything else that kflow knows ({why})"),
            None => format!("{not}, nor anything else that kflow knows"),
        }),
    }
}

/// Returns what a file is and what to do, when it was given without a flag and its name does not tell its kind.
pub(super) fn unnamed(begin: &[u8]) -> Option<String> {
    let text = begin.trim_ascii_start();
    if let Some(what) = foreign(text) {
        return Some(what.to_owned());
    }
    let Some(kind) = kind_of(text) else {
        if text.split(|b| *b == b'\n').any(is_of_crictl) {
            return Some(CRICTL.to_owned());
        }
        if text.starts_with(TITLES) {
            let rows = text.split(|b| *b == b'\n').filter(|l| !l.is_empty());
            let what = if rows.count() == 1 { NO_ROW } else { TABLE };
            return Some(what.to_owned());
        }
        let is_printed = std::str::from_utf8(text).is_ok_and(resembles_printed);
        return is_printed.then(|| PRINTED.to_owned());
    };
    // Many programs log as container runtimes and components of Kubernetes do.
    let is_of_runtime = || String::from_utf8_lossy(text).lines().any(is_of_runtime);
    Some(match kind {
        k if k.klog() => {
            "it is a log in the form of the components of Kubernetes: if it is the kubelet's or the control plane's, say whose with --kubelet-log, --apiserver-log and so on".to_owned()
        }
        Kind::Containerd | Kind::Crio if !is_of_runtime() => {
            "it looks like a log of a program that kflow does not read".to_owned()
        }
        k => format!("it looks like {}: give it with --{}", k.noun(), k.flag()),
    })
}

/// True for the titles of `crictl pods` and `crictl ps` (kubernetes-sigs/cri-tools: cmd/crictl/sandbox.go, `ListPodSandboxes`, and
/// cmd/crictl/container.go, `OutputContainers`).
fn is_of_crictl(line: &[u8]) -> bool {
    let titles = line.trim_ascii();
    let has = |title: &[u8]| memchr::memmem::find(titles, title).is_some();
    (titles.starts_with(b"POD ID") || titles.starts_with(b"CONTAINER"))
        && has(b"STATE")
        && has(b"ATTEMPT")
}

/// True for a text that may be a ticket.
pub(super) fn may_be_ticket(begin: &[u8]) -> bool {
    foreign(begin.trim_ascii_start()).is_none() && !begin.contains(&0)
}

/// True for a text in which is what kubectl prints for people. Of a ticket that may be the smaller part.
pub(super) fn has_printed(text: &[u8]) -> bool {
    let end = text.len().min(CUT);
    read(Kind::Watch, text.get(..end).unwrap_or(text)).0 > 0
}

/// Returns what a file of another kind is.
fn foreign(text: &[u8]) -> Option<&'static str> {
    let (_, what) = FOREIGN.iter().find(|(front, _)| text.starts_with(front))?;
    Some(what)
}

/// Returns the kind whose decoder makes the most of the first lines.
fn kind_of(begin: &[u8]) -> Option<Kind> {
    let mut best: Option<(usize, Kind)> = None;
    for kind in Kind::ALL {
        // The first kind wins among equals: logs of the control plane are decoded like the kubelet's.
        let fits = fits(kind, begin);
        if fits > 0 && best.is_none_or(|(n, _)| fits > n) {
            best = Some((fits, kind));
        }
    }
    best.map(|(_, kind)| kind)
}

/// Returns how many of the first lines are in the format of a kind, less those that are not; lines that say nothing
/// that kflow uses are in it too. Zero for a begin of another kind.
pub(super) fn fits(kind: Kind, begin: &[u8]) -> usize {
    let (fits, others) = read(kind, begin);
    fits.saturating_sub(others)
}

/// Returns how many of the first lines are in the format of a kind, and how many are not.
fn read(kind: Kind, begin: &[u8]) -> (usize, usize) {
    let mut decoder = kind.decoder(TimeHint::default());
    let mut out = Vec::new();
    let (mut fits, mut others) = (0, 0);
    for line in whole_lines(begin).split(|b| *b == b'\n').take(LINES) {
        match decoder.line(line, &mut out) {
            Fed::Observed(n) => fits += n,
            Fed::Ignored(runtime::UNHEARD) => fits += 1,
            Fed::Ignored(_) if kind.klog() && klog::has_header(line) => fits += 1,
            Fed::Malformed(_) => others += 1,
            Fed::Ignored(_) | Fed::Partial => {}
        }
    }
    let before = out.len();
    decoder.finish(&mut out);
    (fits + out.len() - before, others)
}

/// True for whole documents of JSON, with nothing else beside them.
pub(super) fn is_whole_json(text: &[u8]) -> bool {
    let mut decoder = Kind::Watch.decoder(TimeHint::default());
    let mut out = Vec::new();
    let is_other = |fed| matches!(fed, Fed::Malformed(NO_JSON | CUT_OFF));
    let mut lines = text.split(|b| *b == b'\n');
    !lines.any(|line| is_other(decoder.line(line, &mut out))) && !is_other(decoder.finish(&mut out))
}

/// The lines of a begin, without the last one if it may be cut.
fn whole_lines(begin: &[u8]) -> &[u8] {
    let end = memchr::memrchr(b'\n', begin).filter(|_| begin.len() >= CUT);
    end.and_then(|end| begin.get(..end)).unwrap_or(begin)
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
                Kind::Watch,
                "age-encryption.org/v1\n-> X25519 a\n",
                Some("decrypt it first"),
            ),
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

    /// Pieces of public reports, whose addresses are in `fixtures/reports.tsv`.
    #[test]
    fn what_kubectl_prints_needs_no_flag() {
        for (text, want) in [
            (
                "Name:           kube-state-backup-manual-ltt1y\nNamespace:      kube-system\nParallelism:    1\nCompletions:    1\n",
                Some(PRINTED),
            ),
            (
                "QoS Class:                   BestEffort\nNode-Selectors:              <none>\nEvents:                      <none>\n",
                Some(PRINTED),
            ),
            ("It hangs:\n$ kubectl get svc\n", Some(PRINTED)),
            (
                "POD ID              CREATED             STATE               NAME                                              NAMESPACE           ATTEMPT             RUNTIME\n",
                Some(CRICTL),
            ),
            (
                "CONTAINER           IMAGE               CREATED             STATE               NAME                      ATTEMPT             POD ID              POD\n",
                Some(CRICTL),
            ),
            // Longhorn's CSI driver and dcgm-exporter, as longhorn.io and NVIDIA show them.
            (
                "time=\"2020-04-16T08:49:27Z\" level=error msg=\"GRPC error: rpc error: code = Internal desc = exit status 1\"\n",
                Some("it looks like a log of a program that kflow does not read"),
            ),
            ("It hangs.\nWhy:  I do not know\n", None),
            ("a: 1\nb: 2\nc: 3\n", None),
        ] {
            assert_eq!(unnamed(text.as_bytes()).as_deref(), want, "{text}");
        }
    }
}
