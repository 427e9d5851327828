//! The node's own status: version, conditions, capacity, and errors that are not about a pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::banner;
use crate::describe;
use crate::pane::PaneId;
use crate::shared::Ctx;
use crate::text::{count, wrap};
use crate::widget::page::{Lead, Line, column, flow, head, line, list};
use crate::widget::stage;
use kflow_core::correlate::NodeState;
use kflow_core::correlate::conditions::History;
use kflow_core::diagnose::{Verdict, unknown};
use kflow_engine::Snapshot;
use kflow_engine::snapshot::{SourceStatus, own};
use kflow_export::why::standing;
use kflow_model::gap::Failure;
use kflow_model::sample::Sample;
use kflow_model::units::{age, duration, size};
use kflow_model::{Body, Evidence, Nanos, Source, Text, pod::Condition};

/// Shortens a Kubernetes quantity in `Ki`: `24581696Ki` is `23G`. Other quantities are returned unchanged.
fn quantity(v: &str) -> String {
    match v.strip_suffix("Ki").map(str::parse::<u64>) {
        Some(Ok(n)) => size(n.saturating_mul(1024)),
        _ => v.to_owned(),
    }
}

/// History of each node's conditions. Computed now and then only, because a long run has many states of a node.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    by_node: BTreeMap<Text, Vec<History>>,
}

/// Limit on the columns of a condition's lane, and columns of the text beside it.
const LANE: usize = 48;
const LANE_TEXT: usize = 56;

impl Conditions {
    pub(super) fn look(&mut self, snap: &Snapshot) {
        self.by_node.clear();
        for n in snap.world.nodes() {
            let mut changed = n.conditions();
            changed.retain(|h| h.changes.len() > 1);
            if !changed.is_empty() {
                self.by_node.insert(n.name.clone(), changed);
            }
        }
    }
    /// Draws a lane for each condition that ever changed, from when the node was first seen.
    fn draw(&self, ctx: &Ctx<'_>, node: &NodeState, w: u16, out: &mut Vec<Line>) {
        let (t, g) = (ctx.theme, ctx.glyphs);
        let columns = usize::from(w).saturating_sub(LANE_TEXT).min(LANE);
        let first = node.evidence.first().map(|e| e.stamp.at);
        let Some(from) = first.filter(|_| columns >= 8) else {
            return;
        };
        let now = ctx.snap.now;
        let whole = now.since(from).max(1) as f64;
        let place = |at: Nanos| {
            let share = at.since(from).max(0) as f64 / whole;
            ((share * columns as f64) as usize).min(columns.saturating_sub(1))
        };
        for h in self.by_node.get(&node.name).into_iter().flatten() {
            let mut l = line(&[(&column(&format!("  {}", h.kind), 18), t.text)]);
            let ends = h.changes.iter().skip(1).map(|c| place(c.at));
            let ends = ends.chain([columns]);
            let mut x = 0;
            for (change, end) in h.changes.iter().zip(ends) {
                // A bad state that lasted less than a column still gets one.
                let (glyph, style) = if is_good(&change.condition) {
                    (g.thin, t.ok)
                } else if change.condition.status == "Unknown" {
                    (g.bounded, t.wait)
                } else {
                    (g.full, t.fail)
                };
                let least = usize::from(!is_good(&change.condition));
                let end = end.max(x + least).min(columns);
                l.push(glyph.repeat(end.saturating_sub(x)), style);
                x = end.max(x);
            }
            let bad: i64 = (h.changes.iter().enumerate())
                .filter(|(_, c)| !is_good(&c.condition))
                .map(|(n, c)| {
                    let end = h.changes.get(n + 1).map_or(now, |c| c.at);
                    end.since(c.at.max(from)).max(0)
                })
                .sum();
            let changes = h.changes.len() - 1;
            let text = format!(
                "  {} of {} not as it should be, {changes} {}",
                duration(bad),
                age(now.since(from)),
                if changes == 1 { "change" } else { "changes" }
            );
            l.push(text, if bad > 0 { t.warn } else { t.dim });
            let lead = h
                .changes
                .last()
                .map(|c| Lead::Evidence(Arc::clone(&c.evidence)));
            out.push(l.to(lead.unwrap_or_default()));
        }
    }
}

fn is_good(c: &Condition) -> bool {
    (c.kind == "Ready") == (c.is_true())
}

fn condition(ctx: &Ctx<'_>, c: &Condition) -> Line {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let (symbol, style) = if is_good(c) {
        (g.on, t.ok)
    } else {
        (g.failing, t.fail)
    };
    let since = c
        .transition
        .map(|at: Nanos| format!(" {}", age(ctx.snap.now.since(at))))
        .unwrap_or_default();
    line(&[
        (symbol, style),
        (" ", t.text),
        (&format!("{}={}", c.kind, c.status), style),
        (&since, t.dim),
    ])
}

/// Limit on the verdicts shown, to leave room for the rest of the page.
const VERDICTS: usize = 4;

/// Returns the verdicts on nodes that are not well, in the order of the diagnosis.
pub(super) fn unwell(snap: &Snapshot) -> impl Iterator<Item = &Verdict> {
    let all = snap.owner_verdicts.iter().map(|v| &**v);
    all.filter(|v| v.owner.as_ref().is_some_and(|o| o.kind == "Node"))
}

/// Draws the verdicts on nodes.
pub(super) fn verdicts(ctx: &Ctx<'_>, w: u16, out: &mut Vec<Line>) {
    let t = ctx.theme;
    let mut all = unwell(ctx.snap);
    for v in all.by_ref().take(VERDICTS) {
        let (_, style) = stage::verdict(ctx, v.state);
        let name = v.owner.as_ref().map_or("", |o| o.name.as_str());
        let head = line(&[
            (name, t.strong),
            ("  ", t.text),
            (v.cause_id(), t.strong),
            (" ", t.text),
            (&v.title, t.strong),
        ]);
        let standing = line(&[(&standing(v, ctx.snap.now), *style)]);
        let lead = v.owner.clone().map_or(Lead::None, Lead::Verdict);
        flow(ctx, vec![head.to(lead), standing], w, out);
        let room = usize::from(w.saturating_sub(2));
        let text = wrap(&v.sentence, room);
        out.extend(text.iter().map(|l| line(&[("  ", t.text), (l, t.text)])));
    }
    let more = all.count();
    if more > 0 {
        let text = format!("  {} {} more", ctx.glyphs.down, count(more));
        out.push(line(&[(&text, t.faint)]));
    }
}

/// Draws every node that was seen; `pods` returns the number of pods on a node that have not ended.
pub(super) fn nodes(
    ctx: &Ctx<'_>,
    w: u16,
    pods: impl Fn(&str) -> usize,
    conditions: &Conditions,
    out: &mut Vec<Line>,
) {
    let t = ctx.theme;
    let before = out.len();
    for n in ctx.snap.world.nodes() {
        let Some(api) = &n.api else {
            if !n.name.is_empty() {
                out.push(line(&[
                    (&n.name, t.strong),
                    ("  not seen in the API", t.faint),
                ]));
            }
            continue;
        };
        let max = api
            .allocatable
            .iter()
            .find(|(k, _)| k == "pods")
            .map_or("?", |(_, v)| v.as_str());
        let mut l = line(&[
            (&n.name, t.strong),
            ("  kubelet ", t.dim),
            (&api.kubelet_version, t.text),
            ("  ", t.text),
            (&api.runtime_version, t.text),
            ("  ", t.text),
            (&count(pods(&n.name)), t.strong),
            (&format!(" of {max} pods"), t.dim),
        ]);
        for (k, v) in api
            .allocatable
            .iter()
            .filter(|(k, _)| k == "cpu" || k == "memory")
        {
            l.push(format!("  {k} "), t.dim);
            l.push(quantity(v), t.text);
        }
        if api.unschedulable {
            l.push("  cordoned", t.warn);
        }
        out.push(l.to(Lead::List(PaneId::Pods, format!("node:{}", n.name))));
        // Ready comes first, because the other conditions explain it.
        let mut stand: Vec<&Condition> = api.conditions.iter().collect();
        stand.sort_by_key(|c| c.kind != "Ready");
        let pieces = stand.iter().map(|c| condition(ctx, c));
        let newest = n.evidence.iter().rev();
        let state = newest.into_iter().find(|e| matches!(e.body, Body::Node(_)));
        let lead = state.map_or(Lead::None, |e| Lead::Evidence(Arc::clone(e)));
        let pieces = pieces.map(|l| l.to(lead.clone())).collect();
        flow(ctx, pieces, w, out);
        conditions.draw(ctx, n, w, out);
        for c in stand.iter().filter(|c| !is_good(c)) {
            out.push(line(&[
                ("  ", t.text),
                (&c.reason, t.fail),
                ("  ", t.text),
                (&c.message, t.text),
            ]));
        }
        for (k, v, e) in &api.taints {
            out.push(line(&[
                ("  taint ", t.dim),
                (&format!("{k}={v}:{e}"), t.warn),
            ]));
        }
    }
    if out.len() == before {
        // Why nothing is known stands above already.
        let unknown = !banner::reasons(ctx.snap).is_empty();
        let (text, hint) = if unknown {
            ("No node has been seen.".to_owned(), String::new())
        } else {
            banner::no_nodes(ctx.snap)
        };
        for (text, style) in [(text, t.dim), (hint, t.faint)] {
            if text.is_empty() {
                continue;
            }
            for l in wrap(&text, usize::from(w.saturating_sub(2))) {
                out.push(line(&[(&l, style)]));
            }
        }
    }
}

/// Said of an endpoint of the kubelet that gave no answer while the apiserver gave none either.
const AWAY: &str = "not known: the apiserver, which is between, does not answer";
/// Said of what the apiserver answers in the place of a kubelet that it does not reach (apimachinery,
/// `pkg/util/proxy/transport.go`, `RoundTrip`: 503). A kubelet that is not well answers 500 itself.
const UNREACHED: &str = "the apiserver does not reach it";

/// What the answer of a health endpoint means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Well,
    Unknown,
    Bad,
}

/// Returns what an endpoint answered, in words. `away`: the apiserver gives no answer, by way of which a kubelet is asked
/// that has not been given an address.
fn answer(s: &Sample, away: bool) -> (Answer, String) {
    let took = duration(i64::try_from(s.took_ns).unwrap_or(i64::MAX));
    let of_kubelet = s.what.starts_with("kubelet");
    match s.code {
        200 => (Answer::Well, format!("200 in {took}")),
        0 if of_kubelet && away => (Answer::Unknown, AWAY.to_owned()),
        0 => (Answer::Bad, "no answer".to_owned()),
        code @ 502..=504 if of_kubelet => (Answer::Bad, format!("{code} in {took}: {UNREACHED}")),
        code => (Answer::Bad, format!("{code} in {took}")),
    }
}

/// True while the apiserver gives no answer at all, and the kubelet is not known to be asked at an address of its own.
fn apiserver_is_away(snap: &Snapshot) -> bool {
    let gives_none = |f| {
        matches!(
            f,
            Failure::Unreachable | Failure::TimedOut | Failure::Interrupted
        )
    };
    let direct = |s: &SourceStatus| s.source == Source::Metrics && s.name == own::KUBELET;
    if snap.sources.iter().any(direct) {
        return false;
    }
    let troubles = unknown::troubles(snap.world.coverage(), snap.now);
    let mut of_all = troubles.iter().filter(|t| t.concerns("pods"));
    of_all.any(|t| gives_none(t.failure))
}

/// Draws the responses of the kubelet's health endpoints, with the checks that fail.
pub(super) fn endpoints(ctx: &Ctx<'_>, out: &mut Vec<Line>) {
    let t = ctx.theme;
    let mut first = true;
    let away = apiserver_is_away(ctx.snap);
    for h in ctx.snap.world.kubelet().health() {
        let Body::Sample(s) = &h.body else { continue };
        if std::mem::take(&mut first) {
            out.push(head(ctx, "HEALTH ENDPOINTS"));
        }
        let (answer, said) = answer(s, away);
        let style = match answer {
            Answer::Well => t.ok,
            Answer::Unknown => t.wait,
            Answer::Bad => t.fail,
        };
        out.push(
            line(&[
                (&column(&format!("  {}", s.what), 34), t.text),
                (&said, style),
            ])
            .to(Lead::Evidence(Arc::clone(h))),
        );
        for l in s.lines.iter().filter(|l| l.starts_with("[-]")) {
            out.push(line(&[("    ", t.text), (l, t.fail)]));
        }
    }
}

/// Errors of the kubelet that are not about a pod.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// For each distinct message, newest first: its newest observation, the text, and how often it occurred.
    said: Vec<(Evidence, String, u32)>,
    newest: Option<Evidence>,
}

impl Trouble {
    /// Searches again if there are new errors. Equal messages near each other are folded, because a failing loop
    /// repeats its error.
    pub(super) fn look(&mut self, snap: &Snapshot) {
        let newest = snap.world.kubelet().troubles().next_back();
        if newest == self.newest.as_ref() {
            return;
        }
        self.newest = newest.cloned();
        self.said.clear();
        for e in snap.world.kubelet().troubles().rev().take(120) {
            let (text, _) = describe::line(e);
            let near = self.said.iter_mut().rev().take(3);
            match near.into_iter().find(|(_, t, _)| *t == text) {
                Some((_, _, n)) => *n += 1,
                None => self.said.push((Arc::clone(e), text, 1)),
            }
        }
    }
    pub(super) fn draw(&self, ctx: &Ctx<'_>, most: usize, out: &mut Vec<Line>) {
        let t = ctx.theme;
        if self.said.is_empty() {
            return;
        }
        let time = ctx.time();
        out.push(head(ctx, "TROUBLE OF THE NODE, NEWEST FIRST"));
        list(ctx, &self.said, most, out, |(e, text, n)| {
            let times = if *n > 1 {
                format!("{}{n} ", ctx.glyphs.times)
            } else {
                String::new()
            };
            line(&[
                ("  ", t.text),
                (&time.at(e.stamp.at, e.stamp.precision, 3), t.dim),
                (" ", t.text),
                (&times, t.warn),
                (text, t.fail),
            ])
            .to(Lead::Evidence(Arc::clone(e)))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_engine::Pipeline;
    use kflow_engine::snapshot::Mode;
    use kflow_model::gap::{WatchKind, WatchNote};
    use kflow_model::stamp::SECOND;
    use kflow_model::{Observation, Stamp};

    fn sample(what: &str, code: u16) -> Sample {
        Sample {
            what: what.into(),
            code,
            took_ns: 2_000_000,
            ..Sample::default()
        }
    }

    #[test]
    fn a_kubelet_behind_an_apiserver_that_is_away_is_not_known() {
        for (what, code, away, means, said) in [
            ("kubelet-healthz", 200, true, Answer::Well, "200 in 2.00ms"),
            ("kubelet-healthz", 0, true, Answer::Unknown, AWAY),
            ("kubelet-healthz", 0, false, Answer::Bad, "no answer"),
            ("apiserver-readyz", 0, true, Answer::Bad, "no answer"),
            ("kubelet-healthz", 500, true, Answer::Bad, "500 in 2.00ms"),
            (
                "kubelet-healthz",
                503,
                false,
                Answer::Bad,
                "503 in 2.00ms: the apiserver does not reach it",
            ),
            ("scheduler-readyz", 503, false, Answer::Bad, "503 in 2.00ms"),
        ] {
            assert_eq!(
                answer(&sample(what, code), away),
                (means, said.to_owned()),
                "{what} {code} {away}"
            );
        }
    }

    #[test]
    fn an_apiserver_that_refuses_is_not_away() {
        let away = |failure| {
            let mut pipeline = Pipeline::new();
            let at = Nanos(100 * SECOND);
            let note = WatchNote {
                resource: "pods".into(),
                kind: WatchKind::Broken,
                scope: Text::default(),
                detail: "told".into(),
                failure: Some(failure),
            };
            pipeline.observe(Arc::new(Observation {
                stamp: Stamp::exact(at),
                source: Source::Kube,
                body: Body::Watch(Box::new(note)),
            }));
            let later = at.plus(20 * SECOND);
            apiserver_is_away(&pipeline.snapshot(later, Mode::paused(""), (at, later), Vec::new()))
        };
        for failure in [
            Failure::Unreachable,
            Failure::TimedOut,
            Failure::Interrupted,
        ] {
            assert!(away(failure), "{failure:?}");
        }
        for failure in [Failure::Forbidden, Failure::Throttled, Failure::NotFound] {
            assert!(!away(failure), "{failure:?}");
        }
    }
}
