//! Descriptions of an observation: as one line, as a list of facts, and as JSON.

mod details;

pub use details::details;

use ratatui::style::Style;

use crate::theme::Theme;
use kflow_model::cri::{CallOutcome, ContainerEventKind, code_name};
use kflow_model::fs::{FsAction, FsObject};
use kflow_model::gap::WatchNote;
use kflow_model::log::Severity;
use kflow_model::pod::{Condition, ContainerState, Terminated, WatchEvent};
use kflow_model::units::{counted, size};
use kflow_model::{Body, Observation, PodRef};

/// How important or bad an observation is, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    /// Of little interest.
    Quiet,
    /// Neither a failure nor a success to point out.
    Plain,
    /// A warning.
    Warn,
    /// An error.
    Bad,
}

pub const fn style(theme: &Theme, tone: Tone) -> Style {
    match tone {
        Tone::Quiet => theme.faint,
        Tone::Plain => theme.text,
        Tone::Warn => theme.warn,
        Tone::Bad => theme.fail,
    }
}

fn id12(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

fn watch(e: WatchEvent) -> &'static str {
    match e {
        WatchEvent::Listed => "listed",
        WatchEvent::Added => "added",
        WatchEvent::Modified => "modified",
        WatchEvent::Deleted => "deleted",
    }
}

fn fields(f: &[(kflow_model::Text, kflow_model::Text)], out: &mut String) {
    for (k, v) in f {
        out.push_str(&format!(" {k}={v}"));
    }
}

/// Returns how a container ended: `exited 137 OOMKilled`.
fn exited(t: &Terminated) -> String {
    let code = t
        .exit_code
        .map_or_else(String::new, |code| format!(" {code}"));
    format!("exited{code} {}", t.reason)
}

/// Names of the log line's fields that matter most to a reader; they come before the others.
const DECISIVE: [&str; 8] = [
    "reason",
    "status",
    "exitCode",
    "image",
    "volumeName",
    "probeType",
    "event",
    "plugin",
];

/// Returns an observation as one line with its tone. The text is not cleaned; drawing does that.
pub fn line(o: &Observation) -> (String, Tone) {
    match &o.body {
        Body::Pod(p) => {
            let mut s = format!("pod {} {}", watch(p.event), p.status.phase);
            if !p.status.reason.is_empty() {
                s.push_str(&format!(" {}", p.status.reason));
            }
            if p.condition("Ready").is_some_and(Condition::is_true) {
                s.push_str(" Ready");
            }
            for c in p.statuses() {
                let state = match &c.state {
                    ContainerState::Waiting { reason, .. } => format!("waiting {reason}"),
                    ContainerState::Running { .. } => "running".to_owned(),
                    ContainerState::Terminated(t) => exited(t),
                };
                s.push_str(&format!(", {} {state}", c.name));
                if c.restarts > 0 {
                    s.push_str(&format!(" ({} restarts)", c.restarts));
                }
            }
            if p.deletion.is_some() {
                s.push_str(", deletion requested");
            }
            (
                s,
                if p.event == WatchEvent::Listed {
                    Tone::Quiet
                } else {
                    Tone::Plain
                },
            )
        }
        Body::Event(e) => {
            let count = if e.count > 1 {
                format!(" (×{})", e.count)
            } else {
                String::new()
            };
            (
                format!("{}{count}: {}", e.reason, e.message),
                if e.warning { Tone::Warn } else { Tone::Plain },
            )
        }
        Body::Node(n) => (format!("node {} {}", n.name, watch(n.event)), Tone::Quiet),
        Body::Object(x) => (
            format!(
                "{} {}/{} {}",
                x.object.kind,
                x.object.namespace,
                x.object.name,
                watch(x.event)
            ),
            Tone::Quiet,
        ),
        Body::Watch(w) if w.resource == WatchNote::NAMES => {
            let pods = w.detail.split_whitespace().count() as u64;
            let within = match w.scope.as_str() {
                "" => "all namespaces",
                namespace => namespace,
            };
            let what = counted(pods, "pod");
            (format!("every pod of {within}: {what}"), Tone::Quiet)
        }
        Body::Watch(w) => (
            format!("watch {} {:?} {}", w.resource, w.kind, w.detail),
            Tone::Quiet,
        ),
        Body::CallStart(c) => {
            let mut s = format!("→ {}", c.method);
            if !c.subject.container.is_empty() {
                s.push_str(&format!(" {}", c.subject.container));
            }
            if !c.subject.image.is_empty() {
                s.push_str(&format!(" {}", c.subject.image));
            }
            fields(&c.fields, &mut s);
            let noise = kflow_model::cri::is_noise(&c.method) && !c.filtered;
            (s, if noise { Tone::Quiet } else { Tone::Plain })
        }
        Body::CallEnd(c) => {
            let how = match (c.outcome, c.code) {
                (CallOutcome::Status, Some(code)) if c.inferred => {
                    format!("{} (concluded)", code_name(code))
                }
                (CallOutcome::Status, Some(code)) => code_name(code).to_owned(),
                (CallOutcome::Status, None) => "status unknown".to_owned(),
                (how, _) => format!("{how:?}"),
            };
            let mut s = format!("← {how}");
            if c.began_unseen {
                s.push_str(" of a call that began before kflow looked");
            }
            if !c.message.is_empty() {
                s.push_str(&format!(": {}", c.message));
            }
            if !c.subject.sandbox_id.is_empty() {
                s.push_str(&format!(" sandbox {}", id12(c.subject.sandbox_id.as_str())));
            }
            if !c.subject.container_id.is_empty() {
                s.push_str(&format!(
                    " container {}",
                    id12(c.subject.container_id.as_str())
                ));
            }
            fields(&c.fields, &mut s);
            (
                s,
                if c.code == Some(0) {
                    Tone::Plain
                } else {
                    Tone::Bad
                },
            )
        }
        Body::ContainerEvent(c) => {
            let id = id12(c.subject.container_id.as_str());
            let mut s = match c.kind {
                ContainerEventKind::Oom => format!("OOM kill in container {id}"),
                kind => format!("container {kind:?} {id}"),
            };
            if let Some(code) = c.exit_code {
                s.push_str(&format!(" exit code {code}"));
            }
            if !c.reason.is_empty() {
                s.push_str(&format!(" ({})", c.reason));
            }
            let bad = c.kind == ContainerEventKind::Oom || c.exit_code.is_some_and(|c| c != 0);
            (s, if bad { Tone::Bad } else { Tone::Plain })
        }
        Body::RuntimeEvent(e) => {
            let mut s = e.topic.to_string();
            let named = [e.name.as_str(), id12(e.container_id.as_str())];
            for what in named.into_iter().filter(|w| !w.is_empty()) {
                s.push_str(&format!(" {what}"));
            }
            fields(&e.fields, &mut s);
            (s, Tone::Quiet)
        }
        Body::Conn(c) => (
            format!(
                "connection {} {} {} {}",
                c.conn,
                match (c.open, c.why.is_empty()) {
                    (true, true) => "opened by",
                    (true, false) => "of",
                    (false, _) => "closed",
                },
                c.peer,
                c.why
            ),
            Tone::Plain,
        ),
        Body::Inventory(i) => (
            format!(
                "runtime has {} {}",
                i.items.len(),
                match (i.sandboxes, i.items.len()) {
                    (true, 1) => "sandbox",
                    (true, _) => "sandboxes",
                    (false, 1) => "container",
                    (false, _) => "containers",
                }
            ),
            Tone::Quiet,
        ),
        Body::Pull(p) => {
            let complete = p.layers.iter().filter(|l| l.is_complete()).count();
            let text = format!(
                "{} {}: {} of {}, {complete} of {} layers complete",
                if p.ended { "pulled" } else { "pulls" },
                p.repositories.join(", "),
                size(p.fetched()),
                size(p.size()),
                p.layers.len(),
            );
            (text, Tone::Quiet)
        }
        Body::Log(l) => {
            let mut s = l.message.to_string();
            // A line is cut at the right, so the most important fields come first.
            if !l.error.is_empty() {
                s.push_str(&format!(" err={}", l.error));
            }
            if !l.container.is_empty() {
                s.push_str(&format!(" container={}", l.container));
            }
            let (first, rest): (Vec<_>, Vec<_>) = l
                .fields
                .iter()
                .cloned()
                .partition(|(k, _)| DECISIVE.contains(&k.as_str()));
            fields(&first, &mut s);
            fields(&rest, &mut s);
            let tone = match l.severity {
                Severity::Info => Tone::Plain,
                Severity::Warning => Tone::Warn,
                Severity::Error | Severity::Fatal => Tone::Bad,
            };
            (s, tone)
        }
        Body::Audit(a) => {
            let mut s = format!(
                "{} {} {}/{}",
                a.verb, a.resource, a.object.namespace, a.object.name
            );
            if a.code != 0 {
                s.push_str(&format!(" {}", a.code));
            }
            s.push_str(&format!(
                " by {}",
                if a.agent.is_empty() {
                    &a.user
                } else {
                    &a.agent
                }
            ));
            if !a.message.is_empty() {
                s.push_str(&format!(": {}", a.message));
            }
            (
                s,
                if a.code >= 400 {
                    Tone::Warn
                } else {
                    Tone::Plain
                },
            )
        }
        Body::Span(x) => {
            let d = kflow_model::units::duration(x.end.since(o.stamp.at));
            let s = format!("span {} {} {d} {}", x.service, x.name, x.message);
            (s, if x.error { Tone::Bad } else { Tone::Plain })
        }
        Body::Fs(c) => {
            let what = match c.action {
                FsAction::Created => "created",
                FsAction::Removed => "removed",
                FsAction::Changed => "changed",
                FsAction::Present => "present",
            };
            (format!("{} {what}", path(&c.object)), Tone::Plain)
        }
        Body::Sample(s) => (
            format!("{} {} {} values", s.what, s.code, s.values.len()),
            Tone::Quiet,
        ),
        Body::Gap(g) => (
            format!("lost {} of {}: {}", g.lost, g.of.name(), g.why),
            Tone::Bad,
        ),
        Body::ClockStep(c) => (clock_step(c.by), Tone::Bad),
        Body::Note(n) => (format!("note: {}", n.text), Tone::Plain),
    }
}

/// Returns a sentence about a jump of the wall clock by `by` ns.
pub fn clock_step(by: i64) -> String {
    format!(
        "the clock of this machine was set {} by {}{}",
        if by < 0 { "back" } else { "forward" },
        kflow_model::units::duration(by.saturating_abs()),
        if by < 0 { "" } else { ", or the machine slept" }
    )
}

fn path(o: &FsObject) -> String {
    match o {
        FsObject::PodCgroup { qos, .. } => format!("pod cgroup ({qos})"),
        FsObject::ContainerCgroup { id, .. } => format!("cgroup of {}", id12(id.as_str())),
        FsObject::PodDir { .. } => "pod directory".to_owned(),
        FsObject::Volume {
            plugin,
            volume,
            inner,
            ..
        } => format!("volume {volume} ({plugin}) {inner}"),
        FsObject::PodFile { inner, .. } => format!("pod file {inner}"),
        FsObject::VolumeMount { volume, fstype, .. } => format!("mount of {volume} ({fstype})"),
        FsObject::NetNs { name } => format!("network namespace {name}"),
        FsObject::RuntimeMount { id, what } => format!("{what} of {}", id12(id.as_str())),
    }
}

fn reference(p: &PodRef) -> String {
    if p.name.is_empty() {
        p.uid.to_string()
    } else {
        format!("{}/{}", p.namespace, p.name)
    }
}

/// Returns `namespace/name` (or the UID) of the pod that an observation names; empty if it names none.
pub fn pod(o: &Observation) -> String {
    match &o.body {
        Body::Pod(p) => format!("{}/{}", p.namespace, p.name),
        Body::Event(e) => format!("{}/{}", e.object.namespace, e.object.name),
        Body::CallStart(c) => reference(&c.subject.pod),
        Body::CallEnd(c) => reference(&c.subject.pod),
        Body::ContainerEvent(c) => reference(&c.subject.pod),
        Body::Log(l) => reference(&l.pod),
        Body::Audit(a) if a.resource.starts_with("pods") => {
            format!("{}/{}", a.object.namespace, a.object.name)
        }
        Body::Fs(c) => c.object.pod().map(ToString::to_string).unwrap_or_default(),
        _ => String::new(),
    }
}

/// Returns the whole observation as indented JSON, as a session stores it.
pub fn whole(o: &Observation) -> String {
    serde_json::to_string_pretty(o).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::gap::WatchKind;
    use kflow_model::{Nanos, Source, Stamp};

    #[test]
    fn a_table_of_pods_is_told_by_its_length() {
        let (said, _) = line(&Observation {
            stamp: Stamp::exact(Nanos(1)),
            source: Source::Kube,
            body: Body::Watch(Box::new(WatchNote {
                resource: WatchNote::NAMES.into(),
                kind: WatchKind::ListEnd,
                scope: "shop".into(),
                detail: "shop/web-0 shop/web-1".into(),
                failure: None,
            })),
        });
        assert_eq!(said, "every pod of shop: 2 pods");
    }
}
