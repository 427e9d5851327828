//! CRI calls as text and as rows (documented in `docs/json.md`).

use serde::Serialize;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Write};
use std::sync::Arc;

use super::rows::{self, Rows};
use super::text::{Times, clean, cut};
use super::timeline::Paint;
use kflow_core::correlate::{Call, World};
use kflow_core::diagnose::pulls::Progress;
use kflow_core::query::{CallRecord, Flag, Query, lasted_in};
use kflow_model::cri::{CallOutcome, Service, code_name};
use kflow_model::units::duration;
use kflow_model::{Nanos, PodUid};

/// Which calls are shown.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only calls about one of these pods.
    pub pods: Option<Vec<PodUid>>,
    /// Only these methods, when there are any; case does not matter.
    pub methods: Vec<String>,
    /// Only calls that match.
    pub query: Option<Query>,
    /// Only failed calls.
    pub errors: bool,
    /// Only calls that took longer than this so far, ns.
    pub slower_than_ns: Option<i64>,
    /// Only calls that lasted at some moment from the first of these to before the second.
    pub range: Option<(Nanos, Nanos)>,
    /// Fold the successful calls of the kubelet's loops.
    pub no_noise: bool,
}

impl Filter {
    /// True when a call passes, before folding. kflow's own calls pass only an expression with the word `own`.
    fn takes(&self, world: &World, c: &Call, now: Nanos) -> bool {
        let own = world.is_own_call(c);
        let asks = || self.query.as_ref().is_some_and(|q| q.has(Flag::Own));
        (!own || asks()) && self.matches(c, now, own)
    }
    fn matches(&self, call: &Call, now: Nanos, own: bool) -> bool {
        let c = call;
        self.pods.as_ref().is_none_or(|p| p.contains(&c.pod_uid))
            && (self.methods.is_empty()
                || self
                    .methods
                    .iter()
                    .any(|m| m.eq_ignore_ascii_case(&c.method)))
            && self
                .query
                .as_ref()
                .is_none_or(|q| q.matches(&CallRecord { call, now, own }))
            && (!self.errors || c.is_error())
            && self
                .range
                .is_none_or(|range| lasted_in(range, c.start, c.end))
            && self.slower_than_ns.is_none_or(|ns| c.duration(now) > ns)
    }
    /// True when a call is folded.
    fn folds(&self, c: &Call) -> bool {
        self.no_noise && c.is_noise() && !c.is_error()
    }
}

/// Returns the full name of a CRI service.
pub const fn service_name(s: Service) -> &'static str {
    match s {
        Service::Runtime => "runtime.v1.RuntimeService",
        Service::Image => "runtime.v1.ImageService",
        Service::RuntimeV1Alpha2 => "runtime.v1alpha2.RuntimeService",
        Service::ImageV1Alpha2 => "runtime.v1alpha2.ImageService",
        Service::Other => "",
        Service::Unknown => "?",
    }
}

/// Returns the status of a call as one word: the gRPC status by name, else how the call ended without one. `?` when the
/// status is unknown, empty while the call is in flight.
pub fn status(c: &Call) -> &'static str {
    match (c.outcome, c.code) {
        (None, _) => "",
        (Some(_), Some(code)) => code_name(code),
        (Some(CallOutcome::Status), None) => "?",
        (Some(CallOutcome::ClientReset), None) => "Canceled",
        (Some(CallOutcome::ServerReset), None) => "Reset",
        (Some(CallOutcome::ConnectionClosed), None) => "ConnectionClosed",
        (Some(CallOutcome::Lost), None) => "Lost",
    }
}

/// Widest column of node names, characters.
const NODE: usize = 32;

#[derive(Default, Serialize)]
struct CallJson<'a> {
    start_ns: Nanos,
    end_ns: Option<Nanos>,
    conn: u32,
    stream: u32,
    service: &'a str,
    method: &'a str,
    outcome: Option<CallOutcome>,
    code: &'a str,
    code_inferred: bool,
    message: &'a str,
    pod_uid: &'a str,
    pod_inferred: bool,
    namespace: &'a str,
    pod: &'a str,
    container: &'a str,
    attempt: Option<u32>,
    sandbox_id: &'a str,
    container_id: &'a str,
    image: &'a str,
    deadline_ns: Option<i64>,
    partial: bool,
    request_bytes: u64,
    response_bytes: u64,
    traceparent: Option<String>,
}

impl<'a> CallJson<'a> {
    fn of(c: &'a Call) -> Self {
        Self {
            start_ns: c.start,
            end_ns: c.end,
            conn: c.key.conn,
            stream: c.key.stream,
            service: service_name(c.service),
            method: &c.method,
            outcome: c.outcome,
            code: status(c),
            code_inferred: c.inferred,
            message: &c.message,
            pod_uid: c.pod_uid.as_str(),
            pod_inferred: c.pod_inferred,
            namespace: &c.namespace,
            pod: &c.pod,
            container: &c.container,
            attempt: c.attempt,
            sandbox_id: c.sandbox_id.as_str(),
            container_id: c.container_id.as_str(),
            image: &c.image,
            deadline_ns: c.timeout_ns,
            partial: c.partial,
            request_bytes: c.request_bytes,
            response_bytes: c.response_bytes,
            traceparent: c.traceparent.map(|(t, s)| format!("00-{t}-{s}-01")),
        }
    }
}

#[derive(Default, Serialize)]
struct Placed<'a> {
    /// Empty when the node is unknown.
    node: &'a str,
    #[serde(flatten)]
    call: CallJson<'a>,
    length_ns: Option<i64>,
}

impl<'a> Placed<'a> {
    fn of(node: &'a str, c: &'a Call) -> Self {
        Self {
            node,
            call: CallJson::of(c),
            length_ns: c.end.map(|end| c.duration(end)),
        }
    }
}

/// Which node a call was made on.
#[derive(Debug)]
pub struct Nodes<'w> {
    world: &'w World,
    /// The only node of the pods that calls are about, or the only known one.
    only: Option<&'w str>,
    /// Width of the longest name, columns; `None` when there are not several.
    several: Option<usize>,
}

impl<'w> Nodes<'w> {
    pub fn of(world: &'w World) -> Self {
        let pods = selected(world).filter_map(|c| world.pod(&c.pod_uid));
        let nodes: BTreeSet<&str> = pods.map(|p| p.node.as_str()).collect();
        let nodes: Vec<&str> = nodes.into_iter().filter(|n| !n.is_empty()).collect();
        let only = match (nodes.as_slice(), world.nodes().as_slice()) {
            ([only], _) => Some(*only),
            ([], [only]) => Some(only.name.as_str()),
            _ => None,
        };
        let widest = nodes.iter().map(|n| clean(n).chars().count()).max();
        Self {
            world,
            only,
            several: widest.filter(|_| nodes.len() > 1),
        }
    }
    /// Returns the node of a call: its pod's; of a call about no pod the only one. Empty when it is unknown.
    pub fn node(&self, call: &Call) -> &'w str {
        let pod = self.world.pod(&call.pod_uid).map(|p| p.node.as_str());
        let known = pod.filter(|node| !node.is_empty());
        known.or(self.only).unwrap_or_default()
    }
}

/// Returns the row of a call.
pub fn row(call: &Call) -> impl Serialize + '_ {
    CallJson::of(call)
}

/// Writes a row per call, without the folded ones.
pub fn rows(
    out: &mut impl Write,
    world: &World,
    filter: &Filter,
    now: Nanos,
    form: Rows,
) -> io::Result<()> {
    let nodes = Nodes::of(world);
    let rows = selected(world)
        .filter(|c| filter.takes(world, c, now) && !filter.folds(c))
        .map(|c| Placed::of(nodes.node(c), c));
    rows::write(out, form, rows)
}

/// The calls of one node, for [`Follow`].
#[derive(Debug)]
pub struct OfNode<'a> {
    /// Empty when the node is unknown.
    pub node: &'a str,
    pub world: &'a World,
    pub filter: Filter,
    /// The current time by the node's clock.
    pub now: Nanos,
    /// How far the node's clock is ahead of the others', ns.
    pub ahead: i64,
}

/// How [`Follow`] writes calls.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// As rows, or with `None` for people.
    pub rows: Option<Rows>,
    pub wide: bool,
    pub colour: bool,
}

/// Writes calls as they end, each once, in the formats that can be continued: all but a JSON array.
#[derive(Debug, Default)]
pub struct Follow {
    /// By node, the written calls that its world still holds, by stream and start: a run that restarts numbers its
    /// connections from 1 again.
    told: HashMap<String, HashSet<(u32, Nanos)>>,
    begun: bool,
    /// The last written head has a column for nodes.
    several: bool,
}

impl Follow {
    /// Writes the calls that ended since the last time, by start; with `last` also those in flight. In the form for
    /// people, each line names the node if there are several.
    pub fn tell(
        &mut self,
        out: &mut impl Write,
        nodes: &[OfNode<'_>],
        several: bool,
        form: Form,
        last: bool,
    ) -> io::Result<()> {
        let mut new = Vec::new();
        for of in nodes {
            let told = self.told.entry(of.node.to_owned()).or_default();
            let mut held = HashSet::with_capacity(told.len());
            for c in selected(of.world).filter(|c| c.end.is_some() || last) {
                let id = (c.key.stream, c.start);
                if !told.contains(&id)
                    && of.filter.takes(of.world, c, of.now)
                    && !of.filter.folds(c)
                {
                    new.push((of, c));
                }
                held.insert(id);
            }
            *told = held;
        }
        if nodes.len() > 1 {
            new.sort_by_key(|(of, c)| c.start.plus(of.ahead.saturating_neg()));
        }
        let first = !self.begun;
        self.begun |= !new.is_empty();
        let Form { rows, wide, colour } = form;
        match rows {
            // A head, or an empty list, is written even if no calls come.
            _ if new.is_empty() && !(first && last) => Ok(()),
            Some(form) => {
                let new = new.into_iter().map(|(of, c)| Placed::of(of.node, c));
                if first {
                    rows::write(out, form, new)
                } else {
                    rows::more(out, form, new)
                }
            }
            None => {
                let paint = Paint { colour };
                let width = several.then(|| {
                    let nodes = self.told.keys().map(|n| clean(n).chars().count());
                    nodes.max().unwrap_or(0).clamp(4, NODE)
                });
                let another = first || self.several != several;
                self.several = several;
                if another && !new.is_empty() {
                    head(out, Times::default(), width, wide, &paint)?;
                }
                new.into_iter().try_for_each(|(of, c)| {
                    let node = width.map(|width| (of.node, width));
                    let times = Times::default();
                    line(out, (of.world, c), (times, node), of.now, wide, &paint)
                })
            }
        }
    }
}

/// Writes calls for people, one per line. Adjacent folded calls share a line.
pub fn text(
    out: &mut impl Write,
    world: &World,
    filter: &Filter,
    now: Nanos,
    wide: bool,
    colour: bool,
) -> io::Result<()> {
    let paint = Paint { colour };
    let nodes = Nodes::of(world);
    let width = match nodes.several {
        Some(width) => Some(width.clamp(4, NODE)),
        None if wide => Some(
            nodes
                .only
                .map_or(4, |n| clean(n).chars().count())
                .clamp(4, NODE),
        ),
        None => None,
    };
    let times = Times::of(chosen(world, filter, now).map(|c| c.start));
    let mut folded = 0_u64;
    for (n, c) in chosen(world, filter, now).enumerate() {
        if n == 0 {
            head(out, times, width, wide, &paint)?;
        }
        if filter.folds(c) {
            folded += 1;
            continue;
        }
        fold(out, &mut folded, times, &paint)?;
        let node = width.map(|width| (nodes.node(c), width));
        line(out, (world, c), (times, node), now, wide, &paint)?;
    }
    fold(out, &mut folded, times, &paint)
}

/// Returns how many calls pass the filter, and how many the world's selection admits.
pub fn matched(world: &World, filter: &Filter, now: Nanos) -> (usize, usize) {
    let (mut passed, mut all) = (0, 0);
    for c in selected(world) {
        all += 1;
        passed += usize::from(filter.takes(world, c, now));
    }
    (passed, all)
}

/// Returns how many calls are left out only because kflow itself made them.
pub fn own(world: &World, filter: &Filter, now: Nanos) -> usize {
    let own = selected(world).filter(|c| world.is_own_call(c));
    own.filter(|c| filter.matches(c, now, true) && !filter.takes(world, c, now))
        .count()
}

/// Returns the calls that the filter takes, by start.
pub fn chosen<'w>(
    world: &'w World,
    filter: &Filter,
    now: Nanos,
) -> impl Iterator<Item = &'w Arc<Call>> {
    selected(world).filter(move |c| filter.takes(world, c, now))
}

/// Returns the calls that the world's selection admits, by start.
pub fn selected(world: &World) -> impl Iterator<Item = &Arc<Call>> {
    world.calls().iter().filter(|c| world.selects_call(c))
}

fn fold(out: &mut impl Write, folded: &mut u64, times: Times, paint: &Paint) -> io::Result<()> {
    if *folded > 0 {
        let s = if *folded == 1 { "" } else { "s" };
        writeln!(
            out,
            "{}",
            paint.dim(&format!(
                "{:>width$}            … {folded} List/Status call{s}",
                "",
                width = times.width(18)
            ))
        )?;
        *folded = 0;
    }
    Ok(())
}

/// Writes the head. `node` is the width of the nodes' column, if there is one.
fn head(
    out: &mut impl Write,
    times: Times,
    node: Option<usize>,
    wide: bool,
    paint: &Paint,
) -> io::Result<()> {
    let more = if wide { wide_head() } else { String::new() };
    let node = node.map(|width| format!("{:<width$} ", "NODE"));
    let head = format!(
        "{:<start$} {:>8} {:<16} {:<24} {}{more}ABOUT",
        "START (UTC)",
        "LENGTH",
        "STATUS",
        "METHOD",
        node.unwrap_or_default(),
        start = times.width(18),
    );
    writeln!(out, "{}", paint.bold(&head))
}

/// Returns the head of the additional columns of the wide form.
fn wide_head() -> String {
    format!(
        "{:>8} {:>9} {:>9} {:>5} {:<13} {:<13} {:<32} ",
        "DEADLINE", "REQUEST", "RESPONSE", "CONN", "SANDBOX", "CONTAINER ID", "TRACE"
    )
}

fn wide_cells(c: &Call) -> String {
    let trace = c.traceparent.map(|(t, _)| t.to_string());
    format!(
        "{:>8} {:>9} {:>9} {:>5} {:<13} {:<13} {:<32} ",
        c.timeout_ns.map(duration).unwrap_or_default(),
        c.request_bytes,
        c.response_bytes,
        c.key.conn,
        cut(&clean(c.sandbox_id.as_str()), 13),
        cut(&clean(c.container_id.as_str()), 13),
        trace.unwrap_or_default(),
    )
}

fn line(
    out: &mut impl Write,
    (world, c): (&World, &Call),
    (times, node): (Times, Option<(&str, usize)>),
    now: Nanos,
    wide: bool,
    paint: &Paint,
) -> io::Result<()> {
    let status = status(c);
    // Padded before it is coloured, as escape codes have no width.
    let mark = if c.inferred { "?" } else { "" };
    let told = format!("{status}{mark}");
    let status = match (status, c.failed()) {
        ("", _) => paint.yellow(&format!("{:<16}", "in flight")),
        (_, Some(true)) => paint.red(&format!("{told:<16}")),
        (_, Some(false)) => format!("{told:<16}"),
        (_, None) => paint.dim(&format!("{told:<16}")),
    };
    let mut about = String::new();
    if !c.pod.is_empty() {
        about.push_str(&format!("{}/{}", clean(&c.namespace), clean(&c.pod)));
    } else if !c.pod_uid.is_empty() {
        about.push_str(&clean(c.pod_uid.as_str()));
    }
    if c.pod_inferred {
        about.push('?');
    }
    if !c.container.is_empty() {
        about.push_str(&format!(" [{}]", clean(&c.container)));
    }
    if let Some(n) = c.attempt.filter(|n| *n > 0) {
        about.push_str(&format!(" #{n}"));
    }
    if !c.image.is_empty() {
        about.push_str(&format!(" {}", clean(&c.image)));
    }
    if about.is_empty() && !c.container_id.is_empty() {
        about.push_str(&cut(&clean(c.container_id.as_str()), 13));
    } else if about.is_empty() && !c.sandbox_id.is_empty() {
        about.push_str(&cut(&clean(c.sandbox_id.as_str()), 13));
    }
    if !c.message.is_empty() {
        about.push_str(&format!("  {}", cut(&clean(&c.message), 160)));
    }
    if let Some(progress) = Progress::of_call(world, c, now) {
        about.push_str(&format!(", {}", progress.whole(now)));
    }
    let node = node.map(|(node, width)| format!("{:<width$} ", cut(&clean(node), width)));
    let row = format!(
        "{:<start$} {:>8} {status} {:<24} {}{}{about}",
        times.at(c.start, 1),
        duration(c.duration(now)),
        clean(&c.method),
        node.unwrap_or_default(),
        if wide { wide_cells(c) } else { String::new() },
        start = times.width(18),
    );
    writeln!(out, "{}", row.trim_end())
}
