//! The moments of the real recordings again, with some observations left out or in the words of other versions: a
//! verdict may say less, later or with less confidence, but never name another cause.

use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_core::diagnose::unknown::{self, Asked};
use kflow_core::diagnose::{State, Target};
use kflow_model::gap::Gap;
use kflow_model::log::{Component, LogLine};
use kflow_model::{Body, Evidence, Nanos, Observation, Source};
use kflow_sources::klog::KlogDecoder;
use kflow_sources::{LineDecoder, TimeHint};
use regex::Regex;

use super::{Expected, RECORDED, Row, Rows, Sources, expected, run};
use crate::in_repository;

/// What all moments of all recordings were told.
struct Judged {
    wrong: Vec<String>,
    /// Moments with a cause that are told, and all of them.
    told: usize,
    all: usize,
}

/// Asks about all moments of all recordings, with what `left` leaves of their observations.
fn judged(sources: Sources, left: impl Fn(&[Evidence]) -> Vec<Evidence>) -> Judged {
    let mut out = Judged {
        wrong: Vec::new(),
        told: 0,
        all: 0,
    };
    for (folder, wanted) in RECORDED {
        let mut asked = expected(wanted);
        asked.sort_by(|a, b| a.session.cmp(&b.session));
        for of in asked.chunk_by(|a, b| a.session == b.session) {
            let path = in_repository(format!("{folder}/{}.kflow.zst", of[0].session));
            let session =
                kflow_model::session::reader::load(&path).unwrap_or_else(|e| panic!("{e}"));
            let of: Vec<&Expected> = of.iter().collect();
            let mut rows = Rows::new();
            let observations = left(&session.observations);
            run(&observations, sources, &of, &mut rows, &mut out.wrong);
            let with_cause = || rows.values().filter(|r| !r.expected.causes.is_empty());
            let is_told = |r: &&Row| r.got.values().any(|g| g.starts_with("KF"));
            out.all += with_cause().count();
            out.told += with_cause().filter(is_told).count();
        }
    }
    out
}

/// The same with a part of the observations, none of which may lead to another cause; returns how many are told, and
/// how many there are.
fn never_wrong(what: &str, left: impl Fn(&[Evidence]) -> Vec<Evidence>) -> (usize, usize) {
    let Judged { wrong, told, all } = judged(Sources::Less, left);
    assert!(
        wrong.is_empty(),
        "{what}: {} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    (told, all)
}

fn is_event(b: &Body) -> bool {
    match b {
        Body::Event(_) => true,
        Body::Log(l) => l.message == "Event occurred",
        _ => false,
    }
}

#[test]
fn without_any_event_nothing_else_is_told() {
    let (told, all) = never_wrong("no events", |all| {
        all.iter().filter(|o| !is_event(&o.body)).cloned().collect()
    });
    assert!(told * 10 >= all * 7, "only {told} of {all} are told");
}

/// A pseudo-random number that depends on `n` alone.
fn dice(n: u64) -> u64 {
    let mut x = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// About half of the observations, with a gap for each lost one. What a watch shows is kept, because the next list
/// repeats it; a call is lost as a whole, because a connection that lost bytes reports it.
fn half(all: &[Evidence], seed: u64) -> Vec<Evidence> {
    let kept = |(i, o): &(usize, &Evidence)| {
        let n = match &o.body {
            Body::Pod(_) | Body::Node(_) | Body::Object(_) | Body::Watch(_) | Body::Conn(_) => {
                return true;
            }
            Body::CallStart(c) => u64::from(c.key.conn) << 32 | u64::from(c.key.stream),
            Body::CallEnd(c) => u64::from(c.key.conn) << 32 | u64::from(c.key.stream),
            _ => (1 << 60) | *i as u64,
        };
        dice(n ^ seed).is_multiple_of(2)
    };
    // Each lost observation is counted in a gap at its time.
    let gap = |o: &Evidence| {
        Arc::new(Observation {
            stamp: o.stamp,
            source: Source::Kflow,
            body: Body::Gap(Box::new(Gap {
                of: o.source,
                since: o.stamp.at,
                lost: 1,
                conn: 0,
                resource: kflow_model::Text::default(),
                why: "queue full".into(),
            })),
        })
    };
    all.iter()
        .enumerate()
        .map(|x| if kept(&x) { x.1.clone() } else { gap(x.1) })
        .collect()
}

#[test]
fn with_every_second_observation_lost_nothing_else_is_told() {
    // `SEED=5 cargo test …` loses other observations.
    let seed = std::env::var("SEED").map_or(77, |s| s.parse().expect("a number"));
    let (told, all) = never_wrong(&format!("half, seed {seed}"), |all| half(all, seed));
    assert!(told * 10 >= all * 7, "only {told} of {all} are told");
}

/// A log line as a kubelet before structured logging writes it; `None` for most lines, which it does not write.
fn old(l: &LogLine) -> Option<String> {
    let (ns, name, uid) = (&l.pod.namespace, &l.pod.name, &l.pod.uid);
    let pod = format!("{name}_{ns}({uid})");
    let known = !name.is_empty();
    Some(match l.message.as_str() {
        "Event occurred" => format!(
            "Event(v1.ObjectReference{{Kind:\"Pod\", Namespace:\"{ns}\", Name:\"{name}\", UID:\"{uid}\", APIVersion:\"v1\", ResourceVersion:\"1\", FieldPath:\"{}\"}}): type: '{}' reason: '{}' {}",
            l.field("fieldPath").unwrap_or(""),
            l.field("type").unwrap_or("Normal"),
            l.field("reason")?,
            l.field("message")?,
        ),
        "Error syncing pod, skipping" if known => {
            format!("Error syncing pod {uid} (\"{pod}\"), skipping: {}", l.error)
        }
        "CreatePodSandbox for pod failed" => {
            format!("CreatePodSandbox for pod \"{pod}\" failed: {}", l.error)
        }
        "SyncLoop ADD" | "SyncLoop DELETE" | "SyncLoop REMOVE" if l.more_pods.is_empty() => {
            let op = l.message.strip_prefix("SyncLoop ")?;
            format!("SyncLoop ({op}, \"api\"): \"{pod}\"")
        }
        "Probe failed" | "Probe errored" => {
            let how = if l.message == "Probe failed" {
                "failed (failure)"
            } else {
                "errored"
            };
            format!(
                "{} probe for \"{pod}:{}\" {how}: {}",
                l.field("probeType")?,
                l.container,
                l.field("output").unwrap_or(&l.error).lines().next()?,
            )
        }
        "Waiting for volumes to attach and mount for pod" => {
            format!("Waiting for volumes to attach and mount for pod \"{pod}\"")
        }
        m if m.starts_with("Operation for ") => m.to_owned(),
        _ => return None,
    })
}

fn in_prose(all: &[Evidence]) -> Vec<Evidence> {
    let mut out = Vec::new();
    for o in all {
        let line = match &o.body {
            Body::Log(l) if l.component == Component::Kubelet => l,
            _ => {
                out.push(o.clone());
                continue;
            }
        };
        let Some(text) = old(line) else { continue };
        let mut decoder = KlogDecoder::new(Component::Kubelet, TimeHint::default());
        let mut read = Vec::new();
        let raw = format!("E0101 00:00:00.000000    1234 file.go:1] {text}");
        decoder.line(raw.as_bytes(), &mut read);
        decoder.finish(&mut read);
        out.extend(read.into_iter().map(|r| {
            Arc::new(Observation {
                stamp: o.stamp,
                source: o.source,
                body: r.body,
            })
        }));
    }
    out
}

#[test]
fn in_an_old_kubelets_prose_the_same_is_told() {
    let (told, all) = never_wrong("prose", in_prose);
    assert!(told * 10 >= all * 9, "only {told} of {all} are told");
}

/// Texts of containerd, as patterns, and the corresponding texts of CRI-O (1.3x, with crun or runc).
const CRIO: [(&str, &str); 7] = [
    (
        r#"failed to pull and unpack image \\*"([^"\\]+)\\*": failed to resolve (?:image|reference \\*"[^"]+"): (\S+?):([\w.-]+): not found"#,
        "initializing source docker://$1: reading manifest $3 in $2: manifest unknown: manifest unknown",
    ),
    (
        r#"failed to setup network for sandbox \\*"([0-9a-f]+)\\*": plugin"#,
        "failed to create pod network sandbox k8s_p_ns_uid_0($1): error adding pod ns_p to CNI network \"lab\": plugin",
    ),
    (
        r"failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: ",
        "container create failed: time=\\\"2026-11-21T05:41:00Z\\\" level=error msg=\\\"runc create failed: ",
    ),
    (
        r#"failed to reserve sandbox name \\*"([^"\\]+)\\*": name \\*"[^"\\]+\\*" is reserved for \\*"([0-9a-f]+)\\*""#,
        "error reserving pod name $1 for id $2: name is reserved",
    ),
    (
        r#"failed to reserve container name \\*"([^"\\]+)\\*": name \\*"[^"\\]+\\*" is reserved for \\*"([0-9a-f]+)\\*""#,
        "error reserving ctr name $1 for id $2: name is reserved",
    ),
    (
        r"cni plugin not initialized",
        "No CNI configuration file in /etc/cni/net.d/. Has your network provider started?",
    ),
    (r"containerd://", "cri-o://"),
];

fn by_crio(all: &[Evidence]) -> Vec<Evidence> {
    let table: Vec<(Regex, &str)> = CRIO
        .iter()
        .map(|(p, r)| (Regex::new(p).expect("a pattern"), *r))
        .collect();
    let mut changed = 0;
    let out = all
        .iter()
        .filter(|o| !matches!(&o.body, Body::Log(l) if l.component == Component::Containerd))
        .map(|o| {
            let text = serde_json::to_string(&**o).expect("an observation");
            let mut new = std::borrow::Cow::Borrowed(text.as_str());
            for (re, with) in &table {
                if re.is_match(&new) {
                    // The text is JSON: a quote is escaped as often as the quotes around it.
                    let with = with.replace('"', "\\\"").replace("\\\\\"", "\\\\\\\"");
                    new = re.replace_all(&new, with.as_str()).into_owned().into();
                    changed += 1;
                }
            }
            match serde_json::from_str::<Observation>(&new) {
                Ok(o) => Arc::new(o),
                Err(e) => panic!("{e}: {new}"),
            }
        })
        .collect();
    let is_crio = |o: &Evidence| matches!(&o.body, Body::Log(l) if l.component == Component::Crio);
    assert!(
        changed > 0 || all.iter().any(is_crio),
        "nothing of this recording was in the words of containerd"
    );
    out
}

#[test]
fn in_the_words_of_cri_o_the_same_is_told() {
    let (told, all) = never_wrong("CRI-O", by_crio);
    assert!(told * 10 >= all * 9, "only {told} of {all} are told");
}

/// Pods that one source alone may take for healthy: source, target.
const LOOKS_WELL: [(&str, &str); 1] = [
    // The pod's deletion was refused, which only the audit log has; the pod itself is well.
    ("API", "lock/locked"),
];

#[test]
fn no_source_alone_says_of_a_pod_that_is_not_well_that_it_is() {
    let parts: [(&str, &[Source]); 4] = [
        ("kubelet's log", &[Source::Kubelet]),
        ("tap", &[Source::Cri]),
        ("API", &[Source::Kube]),
        (
            "node",
            &[
                Source::Cri,
                Source::Kubelet,
                Source::Fs,
                Source::Runtime,
                Source::Otlp,
                Source::Metrics,
            ],
        ),
    ];
    let (mut wrong, mut asked_of) = (Vec::new(), 0);
    for (folder, wanted) in RECORDED {
        let mut asked = expected(wanted);
        asked.sort_by(|a, b| (&a.session, a.at_ns).cmp(&(&b.session, b.at_ns)));
        for of in asked.chunk_by(|a, b| a.session == b.session) {
            let path = in_repository(format!("{folder}/{}.kflow.zst", of[0].session));
            let session =
                kflow_model::session::reader::load(&path).unwrap_or_else(|e| panic!("{e}"));
            for (part, sources) in parts {
                let mut world = World::new();
                let mut rest = session.observations.iter().peekable();
                for e in of.iter().filter(|e| !e.causes.is_empty()) {
                    while let Some(o) = rest.next_if(|o| o.stamp.seen.0 < e.at_ns) {
                        if o.source == Source::Kflow || sources.contains(&o.source) {
                            world.observe(o);
                        }
                    }
                    world.refresh();
                    let at = Nanos(e.at_ns);
                    let got = super::ask(&world, e, at);
                    asked_of += usize::from(got.is_some());
                    let recovered = e.state.iter().any(|s| s.is_well());
                    let asked = Asked {
                        world: &world,
                        at,
                        scope: None,
                        recorded: Some(at),
                    };
                    let known = || match super::targets(&world, e).first() {
                        Some(Target::Pod(p)) => unknown::known(asked, p).is_none(),
                        _ => true,
                    };
                    let well = got.is_some_and(|v| v.state == State::Healthy) && known();
                    if well && !recovered && !LOOKS_WELL.contains(&(part, e.target.as_str())) {
                        let causes = e.causes.join(" or ");
                        wrong.push(format!("{part}, {}: {} is {causes}", e.session, e.target));
                    }
                }
            }
        }
    }
    assert!(asked_of > 500, "{asked_of}");
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// What is true, or cannot be told apart, by a source alone, and is not the cause that is asked for: source, target,
/// cause.
const AS_FAR_AS_SEEN: [(Source, &str, &str); 4] = [
    // The pull is slow; that a deletion waits for it, only the API knows.
    (Source::Cri, "s24b/pull-cancel", "KF609"),
    // The preStop hook of a container that has just started looks like its postStart hook.
    (Source::Cri, "sd29/lingering", "KF705"),
    (Source::Cri, "sf29/lingering", "KF705"),
    // The kubelet is silent; that it lives and its runtime is down, its lease tells, which the audit log has.
    (Source::Kube, "s18a/new-pod", "KF301"),
];

#[test]
fn a_source_alone_names_no_other_cause() {
    let mut wrong = Vec::new();
    let of_pods = [Source::Cri, Source::Kubelet, Source::Kube, Source::Audit];
    for source in of_pods {
        wrong.extend(judged(Sources::Only(source), <[Evidence]>::to_vec).wrong);
    }
    wrong.retain(|w| {
        let known = |(source, target, cause): &(Source, &str, &str)| {
            w.contains(&format!("{target} {:?}:", Sources::Only(*source))) && w.contains(cause)
        };
        !AS_FAR_AS_SEEN.iter().any(known)
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
