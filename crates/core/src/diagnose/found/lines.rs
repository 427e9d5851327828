//! Lines of evidence: how an observation is quoted, and that one thing is quoted once.

use crate::diagnose::Proof;
use crate::diagnose::signal::{Signal, logged_event};
use crate::diagnose::text::shorten;
use crate::flow::{self, Fact, Line};
use kflow_model::Evidence;
use kflow_model::{
    Body, Source, Text,
    cri::code_name,
    fs::{FsAction, FsObject},
    log::Component,
};

/// Most lines of evidence: more of them say the same.
const PROOFS: usize = 6;

/// One line for one thing: the kubelet writes its events to its log, and its errors a second time when it gives up.
pub(super) fn tell_once(proofs: &mut Vec<Proof>) {
    let gives_up = |p: &Proof| said(p).is_some_and(|l| l.fact() == Fact::SyncFailed);
    let told: Vec<Text> = proofs
        .iter()
        .filter_map(|p| match &p.evidence.as_deref()?.body {
            Body::Event(e) => Some(e.reason.clone()),
            _ => None,
        })
        .collect();
    let better = proofs.iter().any(|p| !gives_up(p));
    let mut seen: Vec<(Source, String)> = Vec::new();
    proofs.retain(|p| {
        let logged = said(p)
            .and_then(|l| logged_event(&l))
            .is_some_and(|(reason, ..)| told.iter().any(|t| t == reason));
        let again = logged || (better && gives_up(p));
        // The count of repeats is not part of what is said; nor is the time in a line of the log.
        let text = p.text.split("\"  (").next().unwrap_or_default();
        let key: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        let known = seen.iter().any(|(s, k)| *s == p.source && *k == key);
        if !again && !known {
            seen.push((p.source, key));
        }
        !again && !known
    });
    proofs.truncate(PROOFS);
}

/// What a proof's line of the kubelet's log says.
fn said(p: &Proof) -> Option<Line<'_>> {
    match &p.evidence.as_deref()?.body {
        Body::Log(l) if l.component == Component::Kubelet => flow::line(l),
        _ => None,
    }
}

/// A line of evidence for a failure.
pub fn signal_proof(s: &Signal<'_>) -> Proof {
    let mut p = proof(s.evidence);
    if s.source == Source::Cri {
        let method = match &s.evidence.body {
            Body::CallEnd(_) => match s.reason.as_ref() {
                "FailedCreatePodSandBox" => "RunPodSandbox",
                "ErrImagePull" => "PullImage",
                "ImageInspectError" => "ImageStatus",
                "CreateContainerError" => "CreateContainer",
                "RunContainerError" => "StartContainer",
                "PodSandboxStatusError" => "PodSandboxStatus",
                _ => "Stop",
            },
            _ => "",
        };
        if let Body::CallEnd(c) = &s.evidence.body {
            let code = c.code.map_or("no answer", code_name);
            p.text = format!("CRI {method}  {code}  \"{}\"", shorten(&c.message, 400));
        }
    } else if matches!(s.evidence.body, Body::Pod(_)) {
        p.text = format!("status {}  \"{}\"", s.reason, shorten(&s.text, 400));
    }
    if s.count > 1 {
        use std::fmt::Write as _;
        // Writing to a String does not fail.
        if write!(p.text, "  ({} times)", s.count).is_err() {
            return p;
        }
    }
    p
}

/// A line of evidence.
pub fn proof(o: &Evidence) -> Proof {
    let text = match &o.body {
        Body::Event(e) => format!("Event {}  \"{}\"", e.reason, shorten(&e.message, 400)),
        Body::Log(l) => {
            let who = match l.component {
                Component::Kubelet => "kubelet",
                Component::Apiserver => "kube-apiserver",
                Component::Scheduler => "kube-scheduler",
                Component::ControllerManager => "kube-controller-manager",
                Component::Containerd => "containerd",
                Component::Crio => "cri-o",
            };
            match crate::flow::line(l).and_then(|l| logged_event(&l)) {
                Some((reason, message, _)) => {
                    format!("{who} log: Event {reason}  \"{}\"", shorten(message, 400))
                }
                None if l.error.is_empty() => {
                    let more = ["containerMessage", "networkReady", "output"]
                        .iter()
                        .find_map(|k| l.field(k))
                        .map_or(String::new(), |v| format!(": {}", shorten(v, 300)));
                    format!("{who} log  \"{}{more}\"", shorten(&l.message, 300))
                }
                None => format!(
                    "{who} log  \"{}: {}\"",
                    shorten(&l.message, 160),
                    shorten(&l.error, 400)
                ),
            }
        }
        Body::CallStart(c) => format!("CRI {}", c.method),
        Body::CallEnd(c) => format!(
            "CRI answer  {}  \"{}\"",
            c.code.map_or("none", code_name),
            shorten(&c.message, 400)
        ),
        Body::Pod(p) => format!(
            "status {}{}",
            p.status.phase,
            if p.status.reason.is_empty() {
                String::new()
            } else {
                format!("/{}", p.status.reason)
            }
        ),
        Body::Node(n) => n.condition("Ready").map_or_else(
            || format!("node {}", n.name),
            |c| {
                format!(
                    "node {} Ready={} {}  \"{}\"",
                    n.name,
                    c.status,
                    c.reason,
                    shorten(&c.message, 300)
                )
            },
        ),
        Body::Audit(a) => format!(
            "request {} {} by {}: {} {}",
            a.verb,
            a.resource,
            a.user,
            a.code,
            shorten(&a.message, 300)
        ),
        Body::Inventory(_) => "CRI status".to_owned(),
        Body::Object(s) => format!("{} {}", s.object.kind, s.object.name),
        Body::Fs(c) => {
            let what = match c.object {
                FsObject::PodCgroup { .. } => "cgroup of the pod",
                FsObject::PodDir { .. } => "directory of the pod",
                _ => "file of the pod",
            };
            format!(
                "{what} {}",
                match c.action {
                    FsAction::Created => "made",
                    FsAction::Removed => "removed",
                    FsAction::Changed => "written",
                    FsAction::Present => "there",
                }
            )
        }
        _ => o.source.name().to_owned(),
    };
    Proof {
        at: o.stamp.at,
        precision: o.stamp.precision,
        source: o.source,
        text,
        evidence: Some(o.clone()),
    }
}
