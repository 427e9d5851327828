//! A trace, decoded with Perfetto's own definition: every field is known to the format, counters agree with the calls,
//! flow arrows lead from a call to what needed it, and verdicts on a pod stand in the pod's group.

use std::collections::{BTreeMap, BTreeSet};

use crate::correlate::{session, world};
use crate::fixture;
use kflow_core::correlate::{Call, Pod, World};
use kflow_core::diagnose::{Diagnoser, Verdicts};
use kflow_export::file::Told;
use kflow_model::Nanos;
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage as _, Value};

/// A slice, an instant or a counter value, with its track.
#[derive(Clone, Debug)]
struct Event {
    at: i64,
    kind: i32,
    track: u64,
    name: String,
    value: Option<i64>,
    from: Vec<u64>,
    to: Vec<u64>,
    said: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct Trace {
    /// By track: name, parent, and whether it is a counter track.
    tracks: BTreeMap<u64, (String, Option<u64>, bool)>,
    events: Vec<Event>,
}

impl Trace {
    fn name(&self, track: u64) -> &str {
        &self.tracks[&track].0
    }
    fn group(&self, track: u64) -> &str {
        self.name(self.tracks[&track].1.expect("a parent"))
    }
    fn counter(&self, begin: &str) -> Vec<(i64, i64)> {
        let values = self
            .events
            .iter()
            .filter(|e| e.kind == 4 && self.name(e.track).starts_with(begin));
        values
            .map(|e| (e.at, e.value.expect("a counter has a value")))
            .collect()
    }
}

/// Returns a field's value, or `None` when it is not set; panics when the format has no such field.
fn field(m: &DynamicMessage, name: &str) -> Option<Value> {
    let field = m.descriptor().get_field_by_name(name).expect(name);
    m.has_field(&field)
        .then(|| m.get_field(&field).into_owned())
}

fn message(m: &DynamicMessage, name: &str) -> Option<DynamicMessage> {
    Some(field(m, name)?.as_message()?.clone())
}

fn text(m: &DynamicMessage, name: &str) -> Option<String> {
    Some(field(m, name)?.as_str()?.to_owned())
}

fn ids(m: &DynamicMessage, name: &str) -> Vec<u64> {
    let all = field(m, name);
    let all = all.as_ref().and_then(Value::as_list).unwrap_or_default();
    all.iter().filter_map(Value::as_u64).collect()
}

/// Asserts that the format knows every field of a message and of the messages in it.
pub(crate) fn known(m: &DynamicMessage) {
    assert_eq!(m.unknown_fields().count(), 0, "{m:?}");
    for (_, value) in m.fields() {
        let of_list = value.as_list().unwrap_or_default();
        for v in of_list.iter().chain([value]) {
            v.as_message().into_iter().for_each(known);
        }
    }
}

fn read(bytes: &[u8]) -> Trace {
    let set = std::fs::read(fixture("perfetto/trace.descriptor.zst")).expect("the definition");
    let set = zstd::decode_all(set.as_slice()).expect("zstd");
    let pool = DescriptorPool::decode(set.as_slice()).expect("descriptors");
    let of = pool.get_message_by_name("perfetto.protos.Trace");
    let trace = DynamicMessage::decode(of.expect("Trace"), bytes).expect("a trace");
    known(&trace);
    let mut out = Trace::default();
    let packets = field(&trace, "packet").expect("packets");
    for p in packets.as_list().expect("a list") {
        let p = p.as_message().expect("a packet");
        if let Some(t) = message(p, "track_descriptor") {
            let uuid = field(&t, "uuid").and_then(|v| v.as_u64()).expect("a uuid");
            let parent = field(&t, "parent_uuid").and_then(|v| v.as_u64());
            let counter = message(&t, "counter").is_some();
            let name = text(&t, "name").expect("a name");
            let new = out.tracks.insert(uuid, (name, parent, counter)).is_none();
            assert!(new && parent.is_none_or(|p| out.tracks.contains_key(&p)));
        }
        let Some(e) = message(p, "track_event") else {
            continue;
        };
        let at = field(p, "timestamp").and_then(|v| v.as_u64());
        let said = field(&e, "debug_annotations").unwrap_or(Value::List(Vec::new()));
        let mut told = BTreeMap::new();
        for a in said.as_list().expect("a list") {
            let a = a.as_message().expect("an annotation");
            let value = text(a, "string_value")
                .or_else(|| Some(field(a, "int_value")?.as_i64()?.to_string()));
            let old = told.insert(text(a, "name").expect("a name"), value.expect("a value"));
            assert!(old.is_none(), "one name twice: {told:?}");
        }
        out.events.push(Event {
            at: at.expect("a time") as i64,
            kind: field(&e, "type")
                .and_then(|v| v.as_enum_number())
                .expect("a type"),
            track: field(&e, "track_uuid")
                .and_then(|v| v.as_u64())
                .expect("a track"),
            name: text(&e, "name").unwrap_or_default(),
            value: field(&e, "counter_value").and_then(|v| v.as_i64()),
            from: ids(&e, "flow_ids"),
            to: ids(&e, "terminating_flow_ids"),
            said: told,
        });
    }
    out
}

fn trace(w: &World, pods: &[Pod], verdicts: &Verdicts, now: Nanos) -> Trace {
    let mut bytes = Vec::new();
    let told = Told {
        pods: &*verdicts.0,
        others: &verdicts.1,
        incidents: &[],
    };
    kflow_export::perfetto::write(w, pods, &told, now, &mut bytes).expect("written");
    read(&bytes)
}

/// Returns how many calls that `counted` selects are open just after a moment, in ns.
fn open(w: &World, at: i64, counted: fn(&Call) -> bool) -> i64 {
    let open =
        |c: &&std::sync::Arc<Call>| counted(c) && c.start.0 <= at && c.end.is_none_or(|e| e.0 > at);
    w.calls().iter().filter(open).count() as i64
}

fn relists(w: &World, from: i64, to: i64) -> i64 {
    let is = |c: &&std::sync::Arc<Call>| {
        c.method == "ListPodSandbox" && !c.filtered && (from..=to).contains(&c.start.0)
    };
    w.calls().iter().filter(is).count() as i64
}

#[test]
fn a_trace_is_of_perfettos_own_format_and_says_what_calls_and_verdicts_say() {
    let (mut pulled, mut started, mut told, mut most_pulls) = (0, 0, 0, 0);
    for name in ["S1-basics", "S2-stuck-early", "S5-burst", "S6-slowpull"] {
        let observations = session(name);
        let seen = || observations.iter().map(|o| o.stamp.seen);
        let (first, last) = (seen().min().unwrap(), seen().max().unwrap());
        // In the middle of the recording some calls are open and some pods are not yet healthy.
        let now = first.plus(last.since(first) / 2);
        let w = world(observations.iter().filter(|o| o.stamp.seen <= now));
        let verdicts = Diagnoser::new().update(&w, now);
        let t = trace(&w, w.pods(), &verdicts, now);

        let all = t.counter("calls in flight");
        let begin = all[0].0;
        assert!(all.len() > 100, "{name}");
        for (at, value) in &all {
            assert_eq!(*value, open(&w, *at, |_| true), "{name} {at}");
        }
        for (at, value) in t.counter("pulls in flight") {
            let of_calls = open(&w, at, |c| c.method == "PullImage");
            assert_eq!(value, of_calls, "{name} {at}");
            most_pulls = most_pulls.max(value);
        }
        let so_far = t.counter("relists so far");
        for (at, value) in &so_far {
            assert_eq!(*value, relists(&w, begin, *at), "{name} {at}");
        }
        assert!(so_far.last().unwrap().1 > 10, "{name}");
        for e in &t.events {
            assert_eq!(e.kind == 4, t.tracks[&e.track].2, "{e:?}");
        }

        let mut begins = BTreeMap::new();
        for e in &t.events {
            for id in &e.from {
                assert!(begins.insert(*id, e).is_none(), "{name}: {id} twice");
            }
        }
        let mut ends = BTreeSet::new();
        for e in &t.events {
            for id in &e.to {
                let from = begins[id];
                assert!(ends.insert(*id), "{name}: {id} twice");
                assert!(from.kind == 1 && e.kind == 1 && from.at <= e.at);
                assert_eq!(from.said.get("container"), e.said.get("container"));
                assert_eq!(t.group(from.track), t.group(e.track), "{name}");
                let step = |e: &Event| e.name.split(' ').next().map(str::to_owned).unwrap();
                match (step(from).as_str(), step(e).as_str()) {
                    ("PullImage", "CreateContainer") => pulled += 1,
                    ("CreateContainer", "StartContainer") => started += 1,
                    other => panic!("{name}: an arrow {other:?}"),
                }
            }
        }
        assert_eq!(begins.len(), ends.len(), "{name}");

        for v in verdicts.0.values() {
            let group = format!("{}/{} (", v.namespace, v.pod);
            let found = t.events.iter().find(|e| {
                e.kind == 3
                    && t.name(e.track) == "verdict"
                    && t.group(e.track).starts_with(&group)
                    && e.said["sentence"] == v.sentence
            });
            let e = found.unwrap_or_else(|| panic!("{name}: no verdict of {group}"));
            assert_eq!(e.at, v.since.0, "{name} {group}");
            assert_eq!(e.said["as_of_ns"], now.0.to_string());
            told += 1;
        }
        let instants = t.events.iter().filter(|e| t.name(e.track) == "verdict");
        assert_eq!(instants.count(), verdicts.0.len(), "{name}");
        for v in verdicts.1.iter() {
            let subject = kflow_export::why::subject(v);
            let mut told = t.events.iter().filter(|e| t.name(e.track) == subject);
            let e = told
                .next()
                .unwrap_or_else(|| panic!("{name}: no verdict of {subject}"));
            assert_eq!((e.at, &e.said["sentence"]), (v.since.0, &v.sentence));
        }

        // The trace of one pod holds every pod's calls within this pod's time.
        let pod = &w.pods()[0];
        let (from, to) = pod.timeline.range().unwrap();
        let one = trace(&w, std::slice::from_ref(pod), &verdicts, now);
        let to = if pod.timeline.spans.iter().all(|s| s.end.is_some()) {
            to
        } else {
            now
        };
        for (at, value) in one.counter("calls in flight") {
            assert!((from.0..=to.0).contains(&at), "{name}");
            assert_eq!(value, open(&w, at, |_| true), "{name} {at}");
        }
    }
    assert!(pulled >= 3 && started > 40 && told > 10 && most_pulls >= 1);
}
