//! Input that kflow reads line by line, or as one text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kflow_engine::import::Kind;
use kflow_model::pod::WatchEvent;
use kflow_model::{Nanos, Stamp};
use kflow_sources::fs::{classify_mount, classify_path, parse_mountinfo_line};
use kflow_sources::kube::decode::{decode_object, decode_watch_event};
use kflow_sources::metrics::{Scrape, Scrapes};
use kflow_sources::{TimeHint, audit, otlp};

use super::{fixture, headed, pieces, survive};

/// Reads any form that is read line by line; the first byte selects the form.
pub(super) fn text(data: &[u8]) {
    let Some((which, text)) = data.split_first() else {
        return;
    };
    let kind = Kind::ALL[usize::from(*which) % Kind::ALL.len()];
    let mut decoder = kind.decoder(TimeHint::default());
    let mut out = Vec::new();
    for line in text.split(|b| *b == b'\n') {
        decoder.line(line, &mut out);
    }
    decoder.finish(&mut out);
    survive(out);
}

pub(super) fn texts() -> Vec<Vec<u8>> {
    let files = [
        (Kind::Watch, "captures/watch.jsonl.zst"),
        (Kind::Watch, "kube/kubectl-get.json"),
        (Kind::Watch, "kube/kubectl-get.yaml"),
        (Kind::Watch, "kubectl/s1-healthy-1.36.txt"),
        (Kind::Watch, "kubectl/s2-events-wide-1.36.txt"),
        (Kind::Watch, "kubectl/s3-pods-wide-1.36.txt"),
        (Kind::Watch, "kubectl/s4-nodes-wide-1.36.txt"),
        (Kind::Watch, "kubectl/synthetic-claims-all-1.20.txt"),
        (Kind::Audit, "captures/audit.jsonl.zst"),
        (Kind::Containerd, "captures/containerd.log.zst"),
        (Kind::Crio, "crio/crio.log.zst"),
        (Kind::Otlp, "otlp/exports.jsonl"),
        (Kind::Kubelet, "captures/kubelet.log.zst"),
        (Kind::Apiserver, "captures/apiserver.log.zst"),
        (Kind::Scheduler, "captures/scheduler.log.zst"),
        (
            Kind::ControllerManager,
            "captures/controller-manager.log.zst",
        ),
    ];
    let number = |kind| Kind::ALL.iter().position(|k| *k == kind).unwrap_or(0) as u8;
    let of = |(kind, name)| headed(number(kind), pieces(name, 12));
    let spans = headed(number(Kind::Otlp), vec![SPANS.as_bytes().to_vec()]);
    files.into_iter().flat_map(of).chain(spans).collect()
}

/// A line of the collector's file exporter.
const SPANS: &str = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"kubelet"}}]},"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","parentSpanId":"eee19b7ec3c1b173","name":"syncPod","kind":1,"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000","attributes":[{"key":"k8s.pod.uid","value":{"stringValue":"u"}},{"key":"server.port","value":{"intValue":"6443"}}],"events":[{"timeUnixNano":"1544712660500000000","name":"exception","attributes":[{"key":"exception.message","value":{"stringValue":"boom"}}]}],"status":{"code":2}}]}]}]}"#;

/// Reads data of a node other than logs; the first byte selects the kind.
pub(super) fn lines(data: &[u8]) {
    let Some((which, text)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    let what = [
        "kubelet-metrics",
        "kubelet-healthz",
        "kubelet-configz",
        "kubelet-pods",
    ];
    let Some(what) = what.get(usize::from(which % 5)) else {
        for line in text.lines() {
            drop(classify_path(line));
            drop(parse_mountinfo_line(line).and_then(|m| classify_mount(&m)));
        }
        return;
    };
    let scrape = Scrape {
        at: Nanos(1),
        took_ns: 1,
        what,
        code: 200,
        body: &text,
    };
    let mut out = Vec::new();
    Scrapes::default().take(scrape, &mut out).ok();
    survive(out);
}

pub(super) fn numbered_lines() -> Vec<Vec<u8>> {
    let pods = ["metrics/pods-pending.json", "metrics/pods-running.json"];
    let pods = pods
        .map(|f| vec![fixture(f)])
        .into_iter()
        .flatten()
        .collect();
    let mounts = "36 35 98:0 / /var/lib/kubelet/pods/6f1a3c52-0c51-4d7c-8a3e-2f7a1f0f6f10/volumes/kubernetes.io~projected/kube-api-access-x rw - tmpfs tmpfs rw\n";
    let metrics =
        "kubelet_running_pods 3\nkubelet_pleg_relist_duration_seconds_bucket{le=\"0.005\"} 12\n";
    headed(3, pods)
        .chain([
            [b"\x04", mounts.as_bytes()].concat(),
            [b"\0", metrics.as_bytes()].concat(),
        ])
        .collect()
}

/// Decodes one object of a list, and one event of a watch.
pub(super) fn kube(data: &[u8]) {
    let stamp = Stamp::exact(Nanos(1));
    for kind in ["", "Pod", "Event", "Node", "ReplicaSet"] {
        survive(decode_object(data, kind, WatchEvent::Listed, stamp));
    }
    survive(decode_watch_event(data, "pods", stamp));
}

pub(super) fn objects() -> Vec<Vec<u8>> {
    let all = fixture("kube/watch.jsonl");
    all.split(|b| *b == b'\n')
        .take(200)
        .map(<[u8]>::to_vec)
        .collect()
}

/// Decodes a request of the audit webhook.
pub(super) fn audit(data: &[u8]) {
    let mut out = Vec::new();
    audit::decode::decode_batch(data, Nanos(1), &mut out);
    survive(out);
}

pub(super) fn audits() -> Vec<Vec<u8>> {
    let mut all = pieces("audit/audit.jsonl", 20);
    all.push(fixture("audit/webhook-batch.json"));
    all
}

/// Decodes an OTLP request to export spans, in protobuf.
pub(super) fn otlp(data: &[u8]) {
    survive(
        otlp::decode::decode_request(data, Nanos(1))
            .into_iter()
            .flatten(),
    );
}

pub(super) fn exports() -> Vec<Vec<u8>> {
    let recorded = fixture("otlp/exports.jsonl");
    let body = |line: &[u8]| {
        let line: serde_json::Value = serde_json::from_slice(line).expect("a recording");
        let body = line["b64"].as_str().expect("a recording");
        STANDARD.decode(body).expect("a recording")
    };
    let lines = recorded.trim_ascii_end().split(|b| *b == b'\n');
    // A request with a span in protobuf: resource spans, scope spans, and a span with a name.
    let span = b"\x0a\x10\x12\x0e\x12\x0c\x0a\x04\x01\x02\x03\x04\x2a\x04name".to_vec();
    lines.map(body).chain([span]).collect()
}

/// Parses the scheduler's message, clause by clause.
pub(super) fn scheduler(data: &[u8]) {
    if let Ok(message) = std::str::from_utf8(data) {
        drop(kflow_core::diagnose::scheduler::parse(message));
    }
}

pub(super) fn sentences() -> Vec<Vec<u8>> {
    let known = [
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {node.kubernetes.io/unreachable: }. preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.",
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
        "0/5 nodes are available: 3 node(s) didn't match Pod's node affinity/selector, 2 node(s) had volume node affinity conflict.",
        "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded",
    ];
    known.map(|s| s.as_bytes().to_vec()).to_vec()
}
