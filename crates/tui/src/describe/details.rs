//! An observation as facts under headings, for people. [`whole`](super::whole) returns the raw form.

use ratatui::style::Style;

use super::{Tone, id12, line, path, reference, watch};
use crate::text::counted;
use crate::theme::Theme;
use crate::time::TimeFormat;
use crate::widget::details::Details;
use kflow_model::audit::{AuditRecord, AuditStage};
use kflow_model::cri::{CallEnd, CallStart, Subject};
use kflow_model::event::EventSeen;
use kflow_model::log::{LogLine, Severity};
use kflow_model::node::NodeSeen;
use kflow_model::object::ObjectSeen;
use kflow_model::pod::{Condition, ContainerState, ContainerStatus, PodSeen, Terminated};
use kflow_model::span::SpanRecord;
use kflow_model::units::{duration, seconds, size};
use kflow_model::{Body, Nanos, ObjectRef, Observation, Text};

/// Returns the observation's facts under headings.
pub fn details(o: &Observation, time: &TimeFormat, theme: &Theme) -> Details {
    let tone = line(o).1;
    let mut to = Writer {
        facts: Details::default(),
        time,
        head: match tone {
            Tone::Quiet | Tone::Plain => theme.strong,
            tone => super::style(theme, tone),
        },
        plain: theme.text,
        alarm: super::style(theme, tone),
        dim: theme.dim,
    };
    match &o.body {
        Body::Pod(p) => to.pod(p),
        Body::Event(e) => to.event(e),
        Body::Node(n) => to.node(n),
        Body::Object(x) => to.any_object(x),
        Body::CallStart(c) => to.call_start(c),
        Body::CallEnd(c) => to.call_end(c, o),
        Body::Log(l) => to.log(l),
        Body::Audit(a) => to.audit(a, o),
        Body::Span(s) => to.span(s, o),
        Body::Watch(w) => {
            to.head(line(o).0);
            to.fact("scope", &w.scope);
        }
        Body::ContainerEvent(c) => {
            to.head(line(o).0);
            to.subject(&c.subject);
        }
        Body::RuntimeEvent(e) => {
            to.head(e.topic.as_str());
            to.subject(&e.subject());
            to.fact("name", e.name.as_str());
            for (name, value) in &e.fields {
                to.fact(name, value.as_str());
            }
        }
        Body::Conn(c) => {
            to.head(line(o).0);
            to.fact(
                "process",
                if c.pid == 0 {
                    String::new()
                } else {
                    c.pid.to_string()
                },
            );
        }
        Body::Inventory(i) => {
            to.head(line(o).0);
            to.fact(
                "complete",
                if i.complete {
                    "yes"
                } else {
                    "no: it was asked for some only"
                },
            );
            let items = i.items.iter().map(|x| {
                let exit = x.exit_code.map(|c| format!(" {c}")).unwrap_or_default();
                let since = to.optional((x.created.0 > 0).then_some(x.created));
                let (pod, container) = (reference(&x.subject.pod), &x.subject.container);
                let id = if i.sandboxes {
                    id12(x.subject.sandbox_id.as_str())
                } else {
                    id12(x.subject.container_id.as_str())
                };
                (
                    id.to_owned(),
                    format!("{pod} {container} {:?}{exit} {since}", x.state),
                )
            });
            let items: Vec<(String, String)> = items.collect();
            to.group("items", items);
        }
        Body::Pull(p) => {
            to.head(line(o).0);
            to.fact("manifest", p.manifest.as_str());
            let layers = p.layers.iter().map(|l| {
                let moved = to.optional((l.moved.0 > 0).then_some(l.moved));
                let came = format!("{} of {}", size(l.fetched), size(l.size));
                (l.digest.to_string(), format!("{came} {moved}"))
            });
            let layers: Vec<(String, String)> = layers.collect();
            to.group("layers", layers);
        }
        Body::Fs(c) => {
            to.head(line(o).0);
            to.fact("what", path(&c.object));
            to.fact(
                "pod",
                c.object.pod().map(ToString::to_string).unwrap_or_default(),
            );
        }
        Body::Sample(s) => {
            to.head(&s.what);
            to.fact("answer", s.code);
            to.fact(
                "took",
                duration(i64::try_from(s.took_ns).unwrap_or(i64::MAX)),
            );
            to.group("values", s.values.iter().map(|(k, v)| (k, v.0)));
            to.group("lines", s.lines.iter().map(|l| ("", l)));
        }
        Body::Gap(g) => {
            to.head(line(o).0);
            to.fact("since", to.time(g.since));
        }
        Body::ClockStep(_) => {
            to.head(line(o).0);
            to.head("what arrived before this line is stamped by the clock before the step");
        }
        Body::Note(n) => to.head(&n.text),
    }
    to.facts
}

struct Writer<'a> {
    facts: Details,
    time: &'a TimeFormat,
    head: Style,
    plain: Style,
    alarm: Style,
    dim: Style,
}

impl Writer<'_> {
    fn head(&mut self, text: impl ToString) {
        self.facts.head(text.to_string(), self.head);
    }
    fn fact(&mut self, label: &str, value: impl ToString) {
        self.facts.fact(label, value, self.plain);
    }
    /// Adds a fact in the colour of the observation's tone, for what is wrong.
    fn alarm(&mut self, label: &str, value: impl ToString) {
        self.facts.fact(label, value, self.alarm);
    }
    fn flag(&mut self, label: &str, on: bool, value: &str) {
        self.fact(label, if on { value } else { "" });
    }
    fn group<K: AsRef<str>, V: ToString>(
        &mut self,
        head: &str,
        facts: impl IntoIterator<Item = (K, V)>,
    ) {
        self.facts.group((head, self.dim), facts, self.plain);
    }
    fn time(&self, at: Nanos) -> String {
        self.time.full(at, at.likely_precision())
    }
    fn optional(&self, at: Option<Nanos>) -> String {
        at.map(|t| self.time(t)).unwrap_or_default()
    }
    fn object(&mut self, label: &str, o: &ObjectRef) {
        self.fact(label, object(o));
        self.fact("uid", &o.uid);
    }
    fn subject(&mut self, s: &Subject) {
        self.fact("pod", reference(&s.pod));
        self.fact("uid", &s.pod.uid);
        self.fact("container", &s.container);
        self.fact(
            "attempt",
            s.attempt.map(|a| a.to_string()).unwrap_or_default(),
        );
        self.fact("image", &s.image);
        self.fact("sandbox", &s.sandbox_id);
        self.fact("container id", &s.container_id);
    }
    fn conditions(&mut self, all: &[Condition]) {
        let rows: Vec<(&Text, String)> = all.iter().map(|c| (&c.kind, self.condition(c))).collect();
        self.group("conditions", rows);
    }
    fn condition(&self, c: &Condition) -> String {
        let mut s = words(&[&c.status, &c.reason]);
        if let Some(t) = c.transition {
            s.push_str(&format!(" since {}", self.time(t)));
        }
        if !c.message.is_empty() {
            s.push_str(&format!(": {}", c.message));
        }
        s
    }
    fn terminated(&self, t: &Terminated) -> String {
        let mut s = super::exited(t);
        if t.signal != 0 {
            s.push_str(&format!(" by signal {}", t.signal));
        }
        if let Some(at) = t.finished {
            s.push_str(&format!(" at {}", self.time(at)));
        }
        if !t.message.is_empty() {
            s.push_str(&format!(": {}", t.message));
        }
        s
    }
    fn status(&self, c: &ContainerStatus) -> String {
        let mut s = match &c.state {
            ContainerState::Waiting { reason, message } if message.is_empty() => {
                format!("waiting {reason}")
            }
            ContainerState::Waiting { reason, message } => format!("waiting {reason}: {message}"),
            ContainerState::Running {
                started: Some(started),
            } => format!("running since {}", self.time(*started)),
            ContainerState::Running { started: None } => "running".to_owned(),
            ContainerState::Terminated(t) => self.terminated(t),
        };
        s.push_str(if c.ready { ", ready" } else { ", not ready" });
        if c.restarts > 0 {
            s.push_str(&format!(", {}", counted(c.restarts as usize, "restart")));
        }
        if let Some(last) = &c.last {
            s.push_str(&format!("; before: {}", self.terminated(last)));
        }
        s
    }
    fn pod(&mut self, p: &PodSeen) {
        let (spec, status) = (&p.spec, &p.status);
        self.head(format!("pod {}/{} {}", p.namespace, p.name, watch(p.event)));
        self.fact("phase", words(&[status.phase.as_str(), &status.reason]));
        self.alarm("message", &status.message);
        self.fact("uid", &p.uid);
        self.fact("node", &spec.node);
        self.fact("address", &status.pod_ip);
        self.fact("owner", p.owner.as_ref().map(object).unwrap_or_default());
        self.fact("created", self.time(p.created));
        self.fact("taken up", self.optional(status.start_time));
        if let Some(due) = p.deletion {
            let grace = p.deletion_grace_s;
            let grace = grace.map(|s| format!(", grace {}", seconds(s)));
            self.fact(
                "deletion due",
                format!("{}{}", self.time(due), grace.unwrap_or_default()),
            );
        }
        self.fact("finalizers", list(&p.finalizers));
        self.fact("gates", list(&spec.scheduling_gates));
        self.fact("version", p.resource_version);
        let statuses: Vec<(&Text, String)> =
            p.statuses().map(|c| (&c.name, self.status(c))).collect();
        self.group("containers", statuses);
        self.conditions(&status.conditions);
        self.facts.head("spec", self.dim);
        self.fact("restarts", &spec.restart_policy);
        self.fact("quality", &status.qos);
        self.fact("scheduler", &spec.scheduler);
        self.fact(
            "priority",
            words(&[&spec.priority_class, &number(spec.priority.into())]),
        );
        self.fact("runtime class", &spec.runtime_class);
        self.fact("account", &spec.service_account);
        self.flag("network", spec.host_network, "of the host");
        self.fact("requests", pairs(&spec.requests));
        self.fact("limits", pairs(&spec.limits));
        self.fact("affinity", &spec.affinity);
        self.fact("spread", &spec.topology_spread);
        self.fact("node selector", pairs(&spec.node_selector));
        self.fact("pull secrets", list(&spec.image_pull_secrets));
        let images = spec
            .init_containers
            .iter()
            .chain(&spec.containers)
            .map(|c| {
                let asks = [("requests", &c.requests), ("limits", &c.limits)]
                    .into_iter()
                    .filter(|(_, r)| !r.is_empty())
                    .map(|(what, r)| format!(", {what} {}", pairs(r)));
                (&c.name, format!("{}{}", c.image, asks.collect::<String>()))
            });
        self.group("images", images);
        let volumes = spec.volumes.iter().map(|v| {
            let optional = if v.optional { "optional" } else { "" };
            (&v.name, words(&[&v.kind, &v.refers, optional]))
        });
        self.group("volumes", volumes);
        self.group("labels", p.labels.iter().map(|(k, v)| (k, v)));
    }
    fn event(&mut self, e: &EventSeen) {
        self.head(&e.reason);
        self.alarm("message", &e.message);
        self.fact("type", if e.warning { "Warning" } else { "Normal" });
        self.object("about", &e.object);
        self.fact("container", &e.container);
        self.fact(
            "times",
            if e.count > 1 {
                e.count.to_string()
            } else {
                String::new()
            },
        );
        self.fact("first", self.optional(e.first.filter(|_| e.count > 1)));
        self.fact("from", words(&[&e.component, &e.host]));
        self.fact(
            "related",
            e.related.as_ref().map(object).unwrap_or_default(),
        );
        self.fact("name", &e.name);
        self.flag(
            "merged",
            e.aggregated,
            "several events with other messages were counted into this one",
        );
        self.flag("listed", e.listed, "it was there before kflow looked");
        self.group("annotations", e.annotations.iter().map(|(k, v)| (k, v)));
    }
    fn node(&mut self, n: &NodeSeen) {
        self.head(format!("node {} {}", n.name, watch(n.event)));
        self.fact("kubelet", &n.kubelet_version);
        self.fact("runtime", &n.runtime_version);
        self.flag("scheduling", n.unschedulable, "cordoned");
        self.fact("created", self.time(n.created));
        self.fact("deleted", self.optional(n.deletion));
        let taints = n
            .taints
            .iter()
            .map(|(k, v, effect)| (k, words(&[v, effect])));
        self.group("taints", taints);
        self.conditions(&n.conditions);
        self.group("allocatable", n.allocatable.iter().map(|(k, v)| (k, v)));
        self.group("attached", n.volumes_attached.iter().map(|v| ("", v)));
        self.group("labels", n.labels.iter().map(|(k, v)| (k, v)));
    }
    fn any_object(&mut self, x: &ObjectSeen) {
        self.head(format!("{} {}", object(&x.object), watch(x.event)));
        self.fact("uid", &x.object.uid);
        self.fact("owner", x.owner.as_ref().map(object).unwrap_or_default());
        self.fact("created", self.time(x.created));
        self.fact("deleted", self.optional(x.deletion));
        self.fact("generation", number(x.generation as i64));
        self.fact("observed", number(x.observed_generation as i64));
        self.conditions(&x.conditions);
        self.group("facts", x.facts.iter().map(|(k, v)| (k, v)));
    }
    fn call_start(&mut self, c: &CallStart) {
        self.head(format!("{} asked", c.method));
        self.fact("service", format!("{:?}", c.service));
        self.fact("deadline", c.timeout_ns.map(duration).unwrap_or_default());
        self.subject(&c.subject);
        self.fact("size", size(c.request_bytes));
        self.fact(
            "stream",
            format!("{} of connection {}", c.key.stream, c.key.conn),
        );
        let trace = c.traceparent.as_ref();
        self.fact(
            "trace",
            trace.map(|(t, s)| format!("{t} {s}")).unwrap_or_default(),
        );
        self.group("request", c.fields.iter().map(|(k, v)| (k, v)));
    }
    fn call_end(&mut self, c: &CallEnd, o: &Observation) {
        self.head(
            line(o)
                .0
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(80)
                .collect::<String>(),
        );
        self.alarm("message", &c.message);
        self.subject(&c.subject);
        self.fact("size", size(c.response_bytes));
        self.fact(
            "messages",
            if c.messages > 1 {
                c.messages.to_string()
            } else {
                String::new()
            },
        );
        self.fact(
            "stream",
            format!("{} of connection {}", c.key.stream, c.key.conn),
        );
        self.group("answer", c.fields.iter().map(|(k, v)| (k, v)));
    }
    fn log(&mut self, l: &LogLine) {
        self.head(&l.message);
        self.alarm("err", &l.error);
        let severity = match l.severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
            Severity::Fatal => "fatal",
        };
        self.fact(
            "from",
            format!("{:?} {} ({severity})", l.component, l.location),
        );
        self.fact("pod", reference(&l.pod));
        if !l.pod.name.is_empty() {
            self.fact("uid", &l.pod.uid);
        }
        for p in &l.more_pods {
            self.fact("and", reference(p));
        }
        self.fact("container", &l.container);
        self.fact("container id", &l.container_id);
        self.group("fields", l.fields.iter().map(|(k, v)| (k, v)));
    }
    fn audit(&mut self, a: &AuditRecord, o: &Observation) {
        self.head(format!("{} {}", a.verb, a.resource));
        self.object("object", &a.object);
        self.alarm("answer", number(a.code.into()));
        self.alarm("message", &a.message);
        self.fact("user", &a.user);
        self.fact("client", &a.agent);
        self.fact("received", self.time(a.received));
        if a.stage == AuditStage::ResponseComplete {
            self.fact("took", duration(o.stamp.at.since(a.received)));
        }
        self.fact("stage", format!("{:?}", a.stage));
        self.fact("query", &a.query);
        self.fact("audit id", &a.audit_id);
        self.group("facts", a.facts.iter().map(|(k, v)| (k, v)));
        self.group("annotations", a.annotations.iter().map(|(k, v)| (k, v)));
    }
    fn span(&mut self, s: &SpanRecord, o: &Observation) {
        self.head(&s.name);
        self.alarm("error", if s.error { "failed" } else { "" });
        self.alarm("message", &s.message);
        self.fact("service", format!("{} ({:?})", s.service, s.kind));
        self.fact("took", duration(s.end.since(o.stamp.at)));
        self.fact("trace", format!("{} {}", s.trace, s.span));
        self.fact("below", s.parent.map(|p| p.to_string()).unwrap_or_default());
        self.group("attributes", s.attributes.iter().map(|(k, v)| (k, v)));
        let events = s.events.iter();
        let events =
            events.map(|(at, what)| (format!("+{}", duration(at.since(o.stamp.at))), what));
        self.group("events", events);
    }
}

fn object(o: &ObjectRef) -> String {
    let place = if o.namespace.is_empty() { "" } else { "/" };
    format!("{} {}{place}{}", o.kind, o.namespace, o.name)
}

fn number(n: i64) -> String {
    if n == 0 { String::new() } else { n.to_string() }
}

/// Joins the words that are not empty with spaces.
fn words(all: &[&str]) -> String {
    let some: Vec<&str> = all.iter().copied().filter(|w| !w.is_empty()).collect();
    some.join(" ")
}

fn list(all: &[Text]) -> String {
    all.join(", ")
}

fn pairs(all: &[(Text, Text)]) -> String {
    let all: Vec<String> = all.iter().map(|(k, v)| format!("{k}={v}")).collect();
    all.join(", ")
}
