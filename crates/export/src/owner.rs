//! What happened to an owner of pods (Deployment, ReplicaSet, Job, …), even if it never had a pod, as text and JSON
//! (documented in `docs/json.md`).

use serde::Serialize;
use std::io::{self, Write};
use std::sync::Arc;

use super::abreast::{self, Lane, LaneJson};
use super::rows::{self, Rows};
use super::text::{Times, clean, cut};
use super::timeline::Paint;
use kflow_core::correlate::owners::deployment_of;
use kflow_core::correlate::{ObjectState, Pod, World};
use kflow_core::diagnose::pods_of;
use kflow_model::audit::AuditStage;
use kflow_model::pod::WatchEvent;
use kflow_model::stamp::SECOND;
use kflow_model::units::{counted, duration};
use kflow_model::{Body, Evidence, Nanos, ObjectRef, Source, Stamp};

/// An event in the life of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    pub at: Stamp,
    /// The object that it happened to.
    pub object: ObjectRef,
    /// The length, if it is a request, ns.
    pub took_ns: Option<i64>,
    /// A description in one line.
    pub text: String,
    /// A failure or a warning.
    pub bad: bool,
    /// The source that showed it.
    pub source: Source,
}

/// An owner, what it controls, and what happened to all of them.
#[derive(Clone, Debug)]
pub struct Story<'a> {
    pub state: &'a ObjectState,
    /// The objects that the owner controls (ReplicaSets of a Deployment, Jobs of a CronJob).
    pub controls: Vec<&'a ObjectState>,
    /// The pods of the owner and of those objects.
    pub pods: Vec<&'a Pod>,
    /// What happened, by time.
    pub happenings: Vec<Happening>,
    pub lanes: Vec<Lane>,
}

/// Collects an owner's story as of `now`, by the clock that all pods of a world have in common.
pub fn story<'a>(world: &'a World, state: &'a ObjectState, now: Nanos) -> Story<'a> {
    let pods = pods_of(world, &state.object);
    let controls = controls(world, state, &pods);
    let mut happenings: Vec<Happening> = std::iter::once(state)
        .chain(controls.iter().copied())
        .flat_map(|o| o.evidence.iter().filter_map(|e| happening(&o.object, e)))
        .collect();
    happenings.extend(pods.iter().map(|p| Happening {
        at: Stamp::new(p.created, 1_000_000_000, p.created),
        object: ObjectRef {
            kind: "Pod".into(),
            namespace: p.namespace.clone(),
            name: p.name.clone(),
            uid: p.uid.0.clone(),
        },
        took_ns: None,
        text: begun(p, now),
        bad: false,
        source: Source::Kube,
    }));
    happenings
        .sort_by(|a, b| (a.at, &a.object.name, &a.text).cmp(&(b.at, &b.object.name, &b.text)));
    happenings.dedup();
    Story {
        lanes: abreast::of(world, &state.object, now),
        state,
        controls,
        pods,
        happenings,
    }
}

/// Says that a pod was created (or first seen, where the API never showed it), and how it is as of `now`, or since when it
/// is gone.
fn begun(p: &Pod, now: Nanos) -> String {
    if p.api.is_none() {
        return "first seen".to_owned();
    }
    if let Some(gone) = p.gone {
        let at = Times::of([p.created, gone]).at(gone, SECOND as u32);
        return format!("created; gone since {at}");
    }
    let (ready, of) = p.ready;
    let at = Times::of([p.created, now]).at(now, SECOND as u32);
    format!("created; at {at} {}, {ready}/{of} ready", p.status)
}

/// Returns the objects that an owner controls, without pods: the ReplicaSets of a Deployment, the Jobs of a CronJob.
fn controls<'a>(world: &'a World, state: &ObjectState, pods: &[&Pod]) -> Vec<&'a ObjectState> {
    let mine = |o: &ObjectRef| {
        o.kind == state.object.kind
            && o.name == state.object.name
            && (o.namespace.is_empty() || o.namespace == state.object.namespace)
    };
    let is_below = |o: &&ObjectState| {
        let told = o.api.as_ref().and_then(|a| a.owner.as_ref());
        let by_pods = pods.iter().any(|p| {
            p.owners
                .iter()
                .any(|x| x.kind == o.object.kind && x.name == o.object.name)
                && !mine(&o.object)
                && below(&p.owners, &o.object, &state.object)
        });
        o.object.namespace == state.object.namespace
            && !mine(&o.object)
            && (told.is_some_and(mine)
                || by_pods
                || deployment_of(&o.object).is_some_and(|of| mine(&of)))
    };
    world.objects().into_iter().filter(is_below).collect()
}

/// Returns all evidence of an object or node and of the objects that it controls, by time, each once;
/// without that of pods.
pub fn evidence(world: &World, object: &ObjectRef) -> Vec<Evidence> {
    let mut all = if object.kind == "Node" {
        (world.node(&object.name)).map_or_else(Vec::new, |n| n.evidence.clone())
    } else {
        let state = world.object(&object.kind, &object.namespace, &object.name);
        let below = state.map_or_else(Vec::new, |s| controls(world, s, &pods_of(world, &s.object)));
        let states = state.into_iter().chain(below);
        states.flat_map(|o| o.evidence.iter().cloned()).collect()
    };
    all.sort();
    all.dedup();
    all
}

/// True when A is below B in a chain of owners.
fn below(chain: &[ObjectRef], a: &ObjectRef, b: &ObjectRef) -> bool {
    let at = |o: &ObjectRef| {
        chain
            .iter()
            .position(|x| x.kind == o.kind && x.name == o.name)
    };
    at(a) < at(b) && at(a).is_some()
}

fn happening(object: &ObjectRef, e: &Evidence) -> Option<Happening> {
    let (text, bad, took_ns, at) = match &e.body {
        Body::Event(v) => {
            let times = if v.count > 1 {
                format!(" ×{}", v.count)
            } else {
                String::new()
            };
            (
                format!("{}: {}{times}", v.reason, v.message),
                v.warning,
                None,
                e.stamp,
            )
        }
        // Only the end of a request is shown.
        Body::Audit(a) if matches!(a.stage, AuditStage::ResponseComplete | AuditStage::Panic) => {
            let mut text = format!("{} {} {}", a.verb, a.resource, a.code);
            if !a.object.name.is_empty() && a.object.name != object.name {
                text.push_str(&format!(" {}", a.object.name));
            }
            if let Some(n) = a.fact("replicas") {
                text.push_str(&format!(" replicas={n}"));
            }
            text.push_str(&format!(" by {}", a.agent));
            if a.code >= 400 && !a.message.is_empty() {
                text.push_str(&format!(": {}", a.message));
            }
            let at = Stamp::new(a.received, 1_000, e.stamp.seen);
            (
                text,
                a.code >= 400,
                Some(e.stamp.at.since(a.received).max(0)),
                at,
            )
        }
        Body::Object(x) => {
            let facts: Vec<String> = x.facts.iter().map(|(k, v)| format!("{k}={v}")).collect();
            let bad: Vec<String> = x
                .conditions
                .iter()
                .filter(|c| !c.reason.is_empty())
                .map(|c| format!("{}={} ({})", c.kind, c.status, c.reason))
                .collect();
            let what = if x.event == WatchEvent::Deleted {
                "deleted "
            } else {
                ""
            };
            let text = format!("{what}{} {}", facts.join(" "), bad.join(" "));
            (text.trim().to_owned(), false, None, e.stamp)
        }
        _ => return None,
    };
    Some(Happening {
        at,
        object: object.clone(),
        took_ns,
        text,
        bad,
        source: e.source,
    })
}

/// Writes a story for people.
pub fn text(out: &mut impl Write, story: &Story<'_>, colour: bool) -> io::Result<()> {
    let paint = Paint { colour };
    let o = &story.state.object;
    writeln!(
        out,
        "{}  {}",
        paint.bold(&clean(&format!("{}/{} in {}", o.kind, o.name, o.namespace))),
        counted(story.pods.len() as u64, "pod")
    )?;
    for c in &story.controls {
        let line = format!("  controls {}/{}", c.object.kind, c.object.name);
        writeln!(out, "{}", paint.dim(&clean(&line)))?;
    }
    let times = Times::of(story.happenings.iter().map(|h| h.at.at));
    for h in &story.happenings {
        let took = h.took_ns.map(duration).unwrap_or_default();
        writeln!(
            out,
            "  {:<width$} {took:>8} {} {} {}  {}",
            times.at(h.at.at, h.at.precision),
            if h.bad {
                paint.red("!")
            } else {
                "·".to_owned()
            },
            clean(&format!("{}/{}", h.object.kind, h.object.name)),
            cut(&clean(&h.text), 240),
            paint.dim(&format!("({})", h.source.name())),
            width = times.width(18),
        )?;
    }
    abreast::text(out, &story.lanes, colour)
}

#[derive(Default, Serialize)]
struct StoryJson<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    controls: Vec<String>,
    pods: Vec<String>,
    happenings: Vec<HappeningJson<'a>>,
    lanes: Vec<LaneJson<'a>>,
}

#[derive(Default, Serialize)]
struct HappeningJson<'a> {
    at_ns: Nanos,
    precision_ns: u32,
    kind: &'a str,
    name: &'a str,
    took_ns: Option<i64>,
    text: &'a str,
    bad: bool,
    source: &'a str,
}

impl<'a> HappeningJson<'a> {
    fn of(h: &'a Happening) -> Self {
        Self {
            at_ns: h.at.at,
            precision_ns: h.at.precision,
            kind: &h.object.kind,
            name: &h.object.name,
            took_ns: h.took_ns,
            text: &h.text,
            bad: h.bad,
            source: h.source.name(),
        }
    }
}

/// A row of CSV: one event of an owner or of an object that it controls.
#[derive(Default, Serialize)]
struct HappeningRow<'a> {
    owner_kind: &'a str,
    namespace: &'a str,
    owner: &'a str,
    #[serde(flatten)]
    happening: HappeningJson<'a>,
}

/// Writes a row per owner; in CSV a row per event.
pub fn rows(out: &mut impl Write, stories: &[Story<'_>], form: Rows) -> io::Result<()> {
    if form == Rows::Csv {
        let rows = stories.iter().flat_map(|s| {
            s.happenings.iter().map(|h| HappeningRow {
                owner_kind: &s.state.object.kind,
                namespace: &s.state.object.namespace,
                owner: &s.state.object.name,
                happening: HappeningJson::of(h),
            })
        });
        return rows::write(out, form, rows);
    }
    rows::write(
        out,
        form,
        stories.iter().map(|s| StoryJson {
            kind: &s.state.object.kind,
            namespace: &s.state.object.namespace,
            name: &s.state.object.name,
            controls: s
                .controls
                .iter()
                .map(|c| format!("{}/{}", c.object.kind, c.object.name))
                .collect(),
            pods: s.pods.iter().map(|p| Arc::as_ref(p).key()).collect(),
            happenings: s.happenings.iter().map(HappeningJson::of).collect(),
            lanes: s.lanes.iter().map(LaneJson::from).collect(),
        }),
    )
}
