//! What the kubelet asks of the container runtime: calls in flight, image pulls in progress or waiting, and
//! statistics per method.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::banner::{Weight, reasons};
use crate::pane::PaneId;
use crate::shared::Ctx;
use crate::text::{count, counted, cut_middle, width};
use crate::widget::page::{Lead, Line, column, heading, layers, line, list, lists, right, spark};
use kflow_core::correlate::Call;
use kflow_core::diagnose::pulls::{Progress, Pulls, Standing, image_of};
use kflow_engine::Snapshot;
use kflow_engine::snapshot::SourceStatus;
use kflow_model::cri::{CallKey, method};
use kflow_model::units::duration;
use kflow_model::{Nanos, PodUid, Source, Text, stamp::SECOND};

/// Limit on the calls that one search counts: more than a busy node has in a minute.
const COUNTED: usize = 8192;
/// Limit on the calls, and on the images, that are shown.
const SHOWN: usize = 20;
/// Limit on the methods that are shown.
const METHODS: usize = 14;
/// Width of the bar of a call with a deadline, in columns.
const BAR: usize = 10;
/// Limit on the columns of the time axis of pulls, and columns of the text beside a lane.
const LANE: usize = 40;
const LANE_TEXT: usize = 60;
/// Columns before a lane: what the pull does, and for how long.
const LANE_LEAD: usize = 20;

/// Columns that a pod's name gets in any case.
const LEAST_NAME: usize = 12;

/// Statistics of a method's calls within the last minute. `total` and `worst` are durations in ns.
#[derive(Clone, Debug, Default)]
struct Method {
    count: u64,
    errors: u64,
    total: i64,
    timed: u64,
    worst: i64,
    /// Calls in each interval of 5 seconds, oldest first.
    pace: [u64; 12],
}

/// The state of an image pull for which no call in flight is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waits {
    /// The runtime shows that the pull runs.
    Pulling,
    /// The kubelet reported the pull, and nothing shows whether it runs yet.
    Announced,
    /// The kubelet reported the pull but has not called the runtime yet, because other pulls go first.
    Queued,
    /// The last pull failed.
    BackOff,
}

#[derive(Clone, Debug)]
struct Image {
    waits: Waits,
    pod: String,
    uid: PodUid,
    container: Text,
    since: Nanos,
    progress: Option<Progress>,
    /// The pod whose pull goes first; empty if unknown or none.
    behind: String,
}

/// What the last searches of calls and pods found.
#[derive(Debug, Default)]
pub(super) struct Operations {
    flying: Vec<Arc<Call>>,
    /// Number of kflow's own calls in flight, which are not listed.
    own_flying: usize,
    /// Number of kflow's own calls of the last minute, which are not listed.
    own_lately: usize,
    /// Progress of the pulls in `flying`, where the runtime shows it.
    progress: BTreeMap<CallKey, Progress>,
    /// Images to be pulled for which no call in flight is seen.
    images: Vec<Image>,
    methods: Vec<(Text, Method)>,
    /// Number of pods that have not ended, by node: the others take no place on it.
    pods: BTreeMap<Text, usize>,
}

impl Operations {
    pub(super) fn pods_on(&self, node: &str) -> usize {
        self.pods.get(node).copied().unwrap_or(0)
    }
    /// Searches the calls for those in flight and those of the last minute.
    pub(super) fn look_at_calls(&mut self, snap: &Snapshot) {
        let flying = snap.world.calls().in_flight().cloned();
        let (own, others): (Vec<_>, Vec<_>) = flying.partition(|c| snap.world.is_own_call(c));
        (self.own_flying, self.flying) = (own.len(), others);
        let pulls = self
            .flying
            .iter()
            .filter(|c| c.method == method::PULL_IMAGE);
        self.progress = pulls
            .filter_map(|c| Some((c.key, Progress::of_call(&snap.world, c, snap.now)?)))
            .collect();
        self.pace(snap);
    }
    /// Searches the pods for their nodes and for images that they wait for.
    pub(super) fn look_at_pods(&mut self, snap: &Snapshot) {
        self.images.clear();
        self.pods.clear();
        let queue = Pulls::of(&snap.world, snap.now);
        for p in snap.world.pods().iter().filter(|p| p.gone.is_none()) {
            if !p.phase.is_over() {
                if let Some(n) = self.pods.get_mut(&p.node) {
                    *n += 1;
                } else {
                    self.pods.insert(p.node.clone(), 1);
                }
            }
            self.images
                .extend(queue.of_pod(p, snap.now).into_iter().map(|w| {
                    let image = w.evidence.and_then(image_of);
                    let progress = image
                        .and_then(|image| Progress::of(&snap.world, &image, w.since, snap.now));
                    Image {
                        behind: match &w.standing {
                            Standing::Queued(ahead) => ahead.pod(),
                            Standing::Pulling | Standing::BackOff => String::new(),
                        },
                        waits: match w.standing {
                            Standing::Pulling if progress.is_some() => Waits::Pulling,
                            Standing::Pulling => Waits::Announced,
                            Standing::Queued(_) => Waits::Queued,
                            Standing::BackOff => Waits::BackOff,
                        },
                        progress,
                        pod: p.key(),
                        uid: p.uid.clone(),
                        container: w.container,
                        since: w.since,
                    }
                }));
        }
        self.images.sort_by_key(|i| (i.waits, i.since));
    }
    fn pace(&mut self, snap: &Snapshot) {
        let minute = snap.now.plus(-60 * SECOND);
        let mut methods: BTreeMap<Text, Method> = BTreeMap::new();
        let recent = snap
            .world
            .calls()
            .iter()
            .rev()
            .take_while(|c| c.start > minute);
        self.own_lately = 0;
        for c in recent.take(COUNTED) {
            if snap.world.is_own_call(c) {
                self.own_lately += 1;
                continue;
            }
            let m = match methods.get_mut(&c.method) {
                Some(m) => m,
                None => methods.entry(c.method.clone()).or_default(),
            };
            m.count += 1;
            m.errors += u64::from(c.is_error());
            if let Some(end) = c.end {
                let took = end.since(c.start).max(0);
                m.timed += 1;
                m.total = m.total.saturating_add(took);
                m.worst = m.worst.max(took);
            }
            let slot = c.start.since(minute) / (5 * SECOND);
            if let Some(n) = usize::try_from(slot).ok().and_then(|s| m.pace.get_mut(s)) {
                *n += 1;
            }
        }
        self.methods = methods.into_iter().collect();
        // Methods that take most of the runtime's time come first.
        self.methods
            .sort_by_key(|(_, m)| std::cmp::Reverse(m.total));
    }
    fn flying(&self, pulls: bool) -> impl Iterator<Item = &Arc<Call>> {
        self.flying
            .iter()
            .filter(move |c| (c.method == method::PULL_IMAGE) == pulls)
    }

    /// Returns how many calls are in flight. Image pulls are counted too, but listed further below.
    fn operations(&self, blind: bool) -> String {
        let pulls = self.flying(true).count();
        match (blind, self.flying.len(), pulls) {
            (true, ..) => "not known: only a tap shows them".to_owned(),
            (_, 0, _) => "none".to_owned(),
            (_, n, 0) => count(n),
            (_, 1, 1) => "1, an image pull".to_owned(),
            (_, n, pulls) => format!("{}, {} of them image pulls", count(n), count(pulls)),
        }
    }

    /// Draws the calls in flight except image pulls, with the used share of their deadline.
    pub(super) fn in_flight(&self, ctx: &Ctx<'_>, w: u16, out: &mut Vec<Line>) {
        let mut about = self.operations(blind(ctx.snap));
        if self.own_flying > 0 {
            let of_kflow = format!(
                " {} {} of kflow hidden",
                ctx.glyphs.dot,
                count(self.own_flying)
            );
            about.push_str(&of_kflow);
        }
        out.push(heading(ctx, "RUNTIME OPERATIONS IN FLIGHT", &about));
        list(ctx, self.flying(false), SHOWN, out, |c| call(ctx, c, w));
    }

    /// Draws image pulls as lanes on one time axis: in progress, queued, or backing off.
    pub(super) fn pulls(&self, ctx: &Ctx<'_>, w: u16, out: &mut Vec<Line>) {
        let (t, g, now) = (ctx.theme, ctx.glyphs, ctx.snap.now);
        let of = |w: Waits| self.images.iter().filter(|i| i.waits == w).count();
        let going = self.flying(true).count() + of(Waits::Pulling);
        let (queued, failed) = (of(Waits::Queued), of(Waits::BackOff));
        let announced = of(Waits::Announced);
        let unread = (reasons(ctx.snap).iter()).any(|r| matches!(r.weight, Weight::Unknown));
        let about = if self.images.is_empty() && going == 0 && unread && blind(ctx.snap) {
            "not known: the tap, Events and the kubelet's log show them".to_owned()
        } else {
            let some = |n: usize, what: &str| match n {
                0 => String::new(),
                n => format!(", {n} {what}"),
            };
            format!(
                "{going} in progress{}, {queued} queued{}",
                some(announced, "announced"),
                some(failed, "backing off")
            )
        };
        out.push(heading(ctx, "IMAGE PULLS", &about));
        let told = |p: Option<&Progress>| p.map(|p| p.whole(now)).unwrap_or_default();
        let flying = self.flying(true).map(|c| {
            let pod = if c.pod.is_empty() {
                String::new()
            } else {
                format!("{}/{}", c.namespace, c.pod)
            };
            let progress = self.progress.get(&c.key);
            let lead = Lead::Call(c.key);
            let what = format!("{}  {}", c.image, told(progress));
            let lane = (Waits::Pulling, c.start, pod, &c.container, what, lead);
            (lane, progress)
        });
        let waiting = self.images.iter().map(|i| {
            let progress = i.progress.as_ref();
            let what = match i.behind.as_str() {
                "" => told(progress),
                pod => format!("behind {pod}"),
            };
            let lead = Lead::Pod(i.uid.0.clone(), PaneId::Why);
            let lane = (i.waits, i.since, i.pod.clone(), &i.container, what, lead);
            (lane, progress)
        });
        let lanes: Vec<_> = flying.chain(waiting).collect();
        let Some(from) = lanes.iter().map(|(l, _)| l.1).min() else {
            return;
        };
        let columns = usize::from(w).saturating_sub(LANE_TEXT).min(LANE);
        let whole = now.since(from).max(1) as f64;
        let bar = |since: Nanos, glyph: &str| {
            let before = since.since(from) as f64 / whole * columns as f64;
            let before = (before as usize).min(columns.saturating_sub(1));
            format!("{}{}", " ".repeat(before), glyph.repeat(columns - before))
        };
        lists(ctx, lanes, SHOWN, out, |(lane, progress), out| {
            let (waits, since, pod, container, what, lead) = lane;
            let (word, glyph, style) = match waits {
                Waits::Pulling => ("pulling", g.full, t.run),
                Waits::Announced => ("announced", g.bounded, t.wait),
                Waits::Queued => ("queued", g.bounded, t.wait),
                Waits::BackOff => ("back-off", g.bounded, t.fail),
            };
            let mut l = line(&[
                (&column(&format!("  {word}"), 11), style),
                (&right(&duration(now.since(since)), 7), style),
                ("  ", t.text),
            ]);
            if columns > 0 {
                l.push(bar(since, glyph), style);
                l.push("  ", t.text);
            }
            // The ends of names tell pods apart.
            let before = LANE_LEAD + if columns > 0 { columns + 2 } else { 0 };
            let room = usize::from(w).saturating_sub(before + width(container) + 4);
            l.push(cut_middle(&pod, room.max(LEAST_NAME)), t.text);
            l.push(" ", t.text);
            l.push(container.as_str(), t.accent);
            l.push("  ", t.text);
            l.push(what, t.dim);
            out.push(l.to(lead));
            if let Some(p) = progress.filter(|_| waits == Waits::Pulling) {
                layers(ctx, p, 20, out);
            }
        });
    }

    /// Draws statistics of each method's calls within the last minute.
    pub(super) fn methods(&self, ctx: &Ctx<'_>, out: &mut Vec<Line>) {
        let t = ctx.theme;
        out.push(line(&[
            (&column("RUNTIME OPERATIONS", 24), t.head),
            (&right("1 MIN", 8), t.head),
            (&right("ERRORS", 7), t.head),
            (&right("MEAN", 8), t.head),
            (&right("WORST", 8), t.head),
            ("  PER 5 SECONDS", t.head),
        ]));
        list(ctx, &self.methods, METHODS, out, |(name, m)| {
            let mean = m
                .total
                .checked_div(i64::try_from(m.timed).unwrap_or(0))
                .map(duration)
                .unwrap_or_default();
            let worst = if m.timed > 0 {
                duration(m.worst)
            } else {
                String::new()
            };
            let errors = if m.errors > 0 {
                count(m.errors as usize)
            } else {
                String::new()
            };
            line(&[
                (&column(&format!("  {name}"), 24), t.text),
                (&right(&count(m.count as usize), 8), t.text),
                (&right(&errors, 7), t.fail),
                (&right(&mean, 8), t.dim),
                (&right(&worst, 8), t.dim),
                ("  ", t.text),
                (&spark(ctx.glyphs, &m.pace), t.source_cri),
            ])
            .to(Lead::List(PaneId::Calls, format!("method:{name}")))
        });
        if self.own_lately > 0 {
            let text = format!("  {} of kflow hidden", counted(self.own_lately, "call"));
            let own = Lead::List(PaneId::Calls, "own".to_owned());
            out.push(line(&[(&text, t.faint)]).to(own));
        }
        if self.methods.is_empty() {
            let hint = if blind(ctx.snap) {
                "  No call was seen: only a tap shows them (--tap ebpf, or kflow proxy)."
            } else {
                "  none in the last minute"
            };
            out.push(line(&[(hint, t.faint)]));
        }
    }
}

/// Returns true if neither a call nor a working source of calls was seen.
fn blind(snap: &Snapshot) -> bool {
    let taps = |s: &SourceStatus| s.source == Source::Cri && s.is_on();
    snap.world.calls().is_empty() && !snap.sources.iter().any(taps)
}

fn call(ctx: &Ctx<'_>, c: &Call, w: u16) -> Line {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let took = c.duration(ctx.snap.now);
    let mut l = line(&[
        (&column(&format!("  {}", c.method), 24), t.run),
        (&right(&duration(took), 8), t.run),
        ("  ", t.text),
    ]);
    if let Some(d) = c.timeout_ns.filter(|d| *d > 0) {
        // The used share of the deadline.
        let share = (took as f64 / d as f64).clamp(0.0, 1.0);
        let full = (share * BAR as f64).ceil() as usize;
        let style = if share > 0.8 { t.fail } else { t.run };
        l.push(g.full.repeat(full), style);
        l.push(g.absent.repeat(BAR - full.min(BAR)), t.faint);
        l.push(format!(" of {}  ", duration(d)), t.dim);
    }
    let container = match c.container.as_str() {
        "" => String::new(),
        name => format!(" {name}"),
    };
    // Two columns are the page's margin.
    let room = usize::from(w).saturating_sub(l.width() + width(&container) + 2);
    l.push(cut_middle(&c.pod, room.max(LEAST_NAME)), t.text);
    l.push(container, t.accent);
    l.to(Lead::Call(c.key))
}
