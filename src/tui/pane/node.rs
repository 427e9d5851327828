//! The node: conditions, what the kubelet's loops do, calls in flight, image pulls, and how the sources stand.

use std::sync::LazyLock;

use super::{Pane, PaneId, Reply};
use crate::correlate::Call;
use crate::correlate::machinery::Work;
use crate::engine::Snapshot;
use crate::flow::Stage;
use crate::model::{Nanos, Source, Text};
use crate::timeline::Outcome;
use crate::tui::action::{Action, Command};
use crate::tui::canvas::Canvas;
use crate::tui::describe;
use crate::tui::glyph::Glyphs;
use crate::tui::keys::Keymap;
use crate::tui::shared::{Ctx, Shared};
use crate::tui::text::{age, bytes, count, duration};
use crate::tui::theme::Theme;

/// The node pane.
#[derive(Debug, Default)]
pub struct Node {
    top: usize,
    flying: Vec<std::sync::Arc<Call>>,
    /// Pods and containers whose image waits for its turn, and since when.
    queued: Vec<(String, Text, Nanos)>,
    seen: Option<(u64, Nanos)>,
}

/// Seconds of a sparkline.
const SPARK: usize = 60;

type Line = Vec<(String, ratatui::style::Style)>;

fn line(pieces: &[(&str, ratatui::style::Style)]) -> Line {
    pieces.iter().map(|(t, s)| ((*t).to_owned(), *s)).collect()
}

fn head(ctx: &Ctx<'_>, title: &str) -> Line {
    line(&[(title, ctx.theme.head)])
}

/// Pads or cuts to a width, so that pieces of a line stand in columns.
fn column(t: &str, w: usize) -> String {
    let c = crate::tui::text::cut(t, w);
    let pad = w.saturating_sub(crate::tui::text::width(&c));
    format!("{c}{}", " ".repeat(pad))
}

fn right(t: &str, w: usize) -> String {
    let c = crate::tui::text::cut(t, w);
    format!(
        "{}{c}",
        " ".repeat(w.saturating_sub(crate::tui::text::width(&c)))
    )
}

fn nodes(ctx: &Ctx<'_>, out: &mut Vec<Line>) {
    let t = ctx.theme;
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
        out.push(line(&[
            (&n.name, t.strong),
            ("  ", t.text),
            (&api.kubelet_version, t.dim),
            ("  ", t.text),
            (&api.runtime_version, t.dim),
            (if api.unschedulable { "  cordoned" } else { "" }, t.warn),
        ]));
        let mut l = Line::new();
        for c in &api.conditions {
            let good = (c.kind == "Ready") == (c.status == "True");
            let style = if good { t.ok } else { t.fail };
            l.push((format!("{}={} ", c.kind, c.status), style));
            if !good {
                l.push((format!("{} ", c.reason), t.fail));
            }
        }
        out.push(l);
        let pods = ctx
            .snap
            .world
            .pods()
            .iter()
            .filter(|p| p.node == n.name && p.gone.is_none())
            .count();
        let max = api
            .allocatable
            .iter()
            .find(|(k, _)| k == "pods")
            .map_or("?", |(_, v)| v.as_str());
        let mut l = line(&[(&format!("{pods} of {max} pods"), t.text)]);
        for (k, v) in api
            .allocatable
            .iter()
            .filter(|(k, _)| k == "cpu" || k == "memory")
        {
            l.push((format!("  {k} {}", quantity(v)), t.dim));
        }
        for (k, v, e) in &api.taints {
            l.push((format!("  taint {k}={v}:{e}"), t.warn));
        }
        out.push(l);
    }
    if out.is_empty() {
        out.push(line(&[("no node has been seen", t.faint)]));
    }
}

/// A quantity of Kubernetes in fewer digits: `24581696Ki` is `23G`; others stay as they are.
fn quantity(v: &str) -> String {
    match v.strip_suffix("Ki").map(str::parse::<u64>) {
        Some(Ok(n)) => bytes(n.saturating_mul(1024)),
        _ => v.to_owned(),
    }
}

fn loops(ctx: &Ctx<'_>, width: u16, out: &mut Vec<Line>) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let m = ctx.snap.world.machinery();
    // A second a column, as many as there is room for.
    let spark = SPARK.min(usize::from(width).saturating_sub(57));
    out.push(line(&[
        (&column("KUBELET", 24), t.head),
        (&right("COUNT", 8), t.head),
        (&right("LAST", 7), t.head),
        (&right("MEAN", 8), t.head),
        (&right("WORST", 8), t.head),
        (
            if spark < SPARK {
                "  UP TO NOW"
            } else {
                "  LAST MINUTE"
            },
            t.head,
        ),
    ]));
    let mut any = false;
    for w in Work::ALL {
        let Some(a) = m.work(w) else { continue };
        any = true;
        let mean = a.mean_ns().map(duration).unwrap_or_default();
        let worst = if a.timed > 0 {
            duration(a.worst_ns)
        } else {
            String::new()
        };
        let last = a
            .last
            .map(|l| age(ctx.snap.now.since(l)))
            .unwrap_or_default();
        let series = a.series.last(ctx.snap.now, spark);
        let top = series.iter().copied().max().unwrap_or(0).max(1);
        let spark: String = series
            .iter()
            .map(|n| {
                g.level(if *n == 0 {
                    0
                } else {
                    (*n * 8).div_ceil(top) as usize
                })
            })
            .collect();
        let trouble = w.is_trouble();
        out.push(line(&[
            (&column(w.name(), 24), if trouble { t.fail } else { t.text }),
            (&right(&count(a.count as usize), 8), t.text),
            (&right(&last, 7), t.dim),
            (&right(&mean, 8), t.dim),
            (&right(&worst, 8), t.dim),
            ("  ", t.text),
            (&spark, if trouble { t.fail } else { t.accent }),
        ]));
    }
    if !any {
        out.push(line(&[(
            "nothing was seen of the kubelet's loops (its log, or the tap, shows them)",
            t.faint,
        )]));
    }
    if let Some(n) = m.busy_workers() {
        out.push(line(&[(&format!("{n} pod workers busy"), t.text)]));
    }
    for (label, family) in [
        ("PLEG relist", "kubelet_pleg_relist_duration_seconds"),
        ("PLEG interval", "kubelet_pleg_relist_interval_seconds"),
        ("pod worker", "kubelet_pod_worker_duration_seconds"),
    ] {
        if let Some(mean) = m.histogram_mean(family) {
            out.push(line(&[
                (&column(label, 24), t.text),
                (
                    &format!("mean {} by its metrics", duration((mean * 1e9) as i64)),
                    t.dim,
                ),
            ]));
        }
    }
}

/// Lines are counted without a terminal: how they look does not change how many there are.
static COUNTING: LazyLock<(Theme, Keymap)> = LazyLock::new(Default::default);

impl Node {
    /// The lines of one or two columns, and the width of the first.
    fn lines(&self, ctx: &Ctx<'_>, w: u16) -> (Vec<Line>, Vec<Line>, u16) {
        let wide = w >= 150;
        let left = if wide {
            120.min(w * 3 / 5 - 2)
        } else {
            w.saturating_sub(1)
        };
        let mut a = Vec::new();
        nodes(ctx, &mut a);
        a.push(Line::new());
        loops(ctx, left, &mut a);
        let mut b = Vec::new();
        self.draw_flying(ctx, &mut b);
        b.push(Line::new());
        sources(ctx, &mut b);
        b.push(Line::new());
        trouble(ctx, &mut b);
        if !wide {
            a.push(Line::new());
            a.append(&mut b);
        }
        (a, b, left)
    }

    /// What flies and what waits: looked for among all calls and pods, so only a few times a second.
    fn look(&mut self, snap: &Snapshot) {
        self.flying = snap.world.calls().in_flight().take(50).cloned().collect();
        self.queued.clear();
        // A pull that waits has no call yet: the pod's image step is open without one.
        for p in snap.world.pods().iter().filter(|p| p.gone.is_none()) {
            if !matches!(p.current, Some((Stage::Image, _))) {
                continue;
            }
            for s in &p.timeline.spans {
                let pulls =
                    s.stage == Stage::Image && !s.is_stage() && s.outcome == Outcome::InFlight;
                if pulls && s.call.is_none() {
                    self.queued.push((p.key(), s.container.clone(), s.start.at));
                }
            }
        }
    }
    fn draw_flying(&self, ctx: &Ctx<'_>, out: &mut Vec<Line>) {
        let t = ctx.theme;
        let now = ctx.snap.now;
        out.push(head(ctx, "RUNTIME OPERATIONS IN FLIGHT"));
        for c in &self.flying {
            let deadline = c
                .timeout_ns
                .map(|d| format!(" of {}", duration(d)))
                .unwrap_or_default();
            out.push(line(&[
                (&column(&c.method, 22), t.run),
                (&right(&duration(c.duration(now)), 8), t.run),
                (&column(&deadline, 9), t.dim),
                (" ", t.text),
                (&c.pod, t.text),
                (" ", t.text),
                (
                    if c.container.is_empty() {
                        &c.image
                    } else {
                        &c.container
                    },
                    t.accent,
                ),
            ]));
        }
        if self.flying.is_empty() {
            out.push(line(&[("none", t.faint)]));
        }
        out.push(Line::new());
        out.push(head(ctx, "IMAGE PULLS QUEUED"));
        for (pod, container, since) in self.queued.iter().take(20) {
            out.push(line(&[
                (&column(pod, 30), t.text),
                (container, t.accent),
                (" waits ", t.dim),
                (&duration(now.since(*since)), t.wait),
            ]));
        }
        if self.queued.is_empty() {
            out.push(line(&[("none", t.faint)]));
        }
    }
}

fn sources(ctx: &Ctx<'_>, out: &mut Vec<Line>) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    out.push(line(&[
        (&column("SOURCE", 20), t.head),
        (&right("SEEN", 10), t.head),
        (&right("LAST", 8), t.head),
        (&right("LAG", 8), t.head),
        (&right("LOST", 8), t.head),
    ]));
    for s in &ctx.snap.sources {
        let last = ctx
            .snap
            .world
            .source(s.source)
            .last
            .map(|l: Nanos| age(ctx.snap.now.since(l)))
            .unwrap_or_default();
        let (symbol, style) = if s.lost > 0 {
            (g.on, t.fail)
        } else if s.on {
            (g.on, t.ok)
        } else {
            (g.off, t.faint)
        };
        let name = if s.name.is_empty() || s.name == s.source.name() {
            s.source.name().to_owned()
        } else {
            format!("{} {}", s.source.name(), s.name)
        };
        out.push(line(&[
            (symbol, style),
            (" ", t.text),
            (&column(&name, 18), t.source(s.source)),
            (&right(&count(s.count as usize), 10), t.text),
            (&right(&last, 8), t.dim),
            (
                &right(&s.lag_ns.map(duration).unwrap_or_default(), 8),
                t.dim,
            ),
            (
                &right(
                    &if s.lost > 0 {
                        count(s.lost as usize)
                    } else {
                        String::new()
                    },
                    8,
                ),
                t.alarm,
            ),
            ("  ", t.text),
            (&s.detail, if s.on { t.dim } else { t.wait }),
        ]));
    }
    let off: Vec<&str> = Source::ALL
        .iter()
        .filter(|s| !ctx.snap.sources.iter().any(|x| x.source == **s))
        .map(|s| s.name())
        .collect();
    if !off.is_empty() {
        out.push(line(&[
            (g.off, t.faint),
            (" nothing from ", t.faint),
            (&off.join(", "), t.faint),
        ]));
    }
    let skew = ctx.snap.world.skew();
    if let Some(ns) = skew.api_ns {
        out.push(line(&[(
            &format!(
                "apiserver's clock is {} {} the node's, within {} ({} pairs)",
                duration(ns.saturating_abs()),
                if ns < 0 { "behind" } else { "ahead of" },
                duration(skew.api_within_ns),
                skew.pairs
            ),
            t.dim,
        )]));
    }
}

fn trouble(ctx: &Ctx<'_>, out: &mut Vec<Line>) {
    let t = ctx.theme;
    let m = ctx.snap.world.machinery();
    for h in m.health() {
        if let crate::model::Body::Sample(s) = &h.body {
            let style = if s.code == 200 { t.ok } else { t.fail };
            out.push(line(&[
                (&column(&s.what, 24), t.text),
                (
                    &format!("{} in {}", s.code, duration(s.took_ns as i64)),
                    style,
                ),
            ]));
            for l in s.lines.iter().filter(|l| l.starts_with("[-]")) {
                out.push(line(&[("  ", t.text), (l, t.fail)]));
            }
        }
    }
    let time = ctx.time();
    // Equal neighbours are one line: a loop that fails says the same again and again.
    let mut said: Vec<(String, String, u32)> = Vec::new();
    for e in m.troubles().rev().take(120) {
        let (text, _) = describe::line(e);
        match said.iter_mut().rev().take(3).find(|(_, t, _)| *t == text) {
            Some((_, _, n)) => *n += 1,
            None => said.push((time.at(e.stamp.at, e.stamp.precision, 3), text, 1)),
        }
    }
    if !said.is_empty() {
        out.push(head(ctx, "TROUBLE OF THE NODE, NEWEST FIRST"));
    }
    for (at, text, n) in said.iter().take(30) {
        let times = if *n > 1 {
            format!("{}{n} ", ctx.glyphs.times)
        } else {
            String::new()
        };
        out.push(line(&[
            (at, t.dim),
            (" ", t.text),
            (&times, t.warn),
            (text, t.fail),
        ]));
    }
    let mut starts: Vec<_> = m.starts().rev().take(12).collect();
    starts.sort_by_key(|s| std::cmp::Reverse(s.total_ns));
    if !starts.is_empty() {
        out.push(Line::new());
        out.push(head(
            ctx,
            "POD STARTS AS THE KUBELET MEASURED THEM, SLOWEST OF THE LAST 12 FIRST",
        ));
        for s in starts {
            out.push(line(&[
                (&column(&s.pod, 34), t.text),
                (&right(&duration(s.total_ns), 8), t.text),
                (&format!("  SLI {}", duration(s.sli_ns)), t.dim),
                (
                    &if s.pulling_ns > 0 {
                        format!("  pulling {}", duration(s.pulling_ns))
                    } else {
                        String::new()
                    },
                    t.dim,
                ),
            ]));
        }
    }
}

fn draw_lines(canvas: &mut Canvas<'_>, lines: &[Line], top: usize) {
    for (y, l) in lines
        .iter()
        .skip(top)
        .take(usize::from(canvas.height()))
        .enumerate()
    {
        let mut x = 0;
        for (text, style) in l {
            x += canvas.text(x, y as u16, text, *style);
        }
    }
}

impl Pane for Node {
    fn id(&self) -> PaneId {
        PaneId::Node
    }
    fn title(&self, ctx: &Ctx<'_>) -> String {
        let names: Vec<&str> = ctx
            .snap
            .world
            .nodes()
            .iter()
            .map(|n| n.name.as_str())
            .filter(|n| !n.is_empty())
            .take(4)
            .collect();
        names.join(", ")
    }
    fn commands(&self) -> &'static [Action] {
        &[Action::Down, Action::Up, Action::PaneCalls]
    }
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        let recent = self.seen.is_some_and(|(version, at)| {
            version == snap.version || (0..250_000_000).contains(&snap.now.since(at))
        });
        if !recent {
            self.look(snap);
            self.seen = Some((snap.version, snap.now));
        }
        if self.top > 0 {
            let (theme, keys) = &*COUNTING;
            let glyphs = Glyphs::new(true);
            let ctx = Ctx {
                snap,
                shared,
                theme,
                glyphs,
                keys,
                focused: true,
            };
            let (a, b, _) = self.lines(&ctx, size.0);
            let longest = a.len().max(b.len());
            self.top = self.top.min(longest.saturating_sub(usize::from(size.1)));
        }
    }
    fn handle(&mut self, command: &Command, _snap: &Snapshot, _shared: &mut Shared) -> Reply {
        match command.action {
            Action::Down => self.top += 1,
            Action::Up => self.top = self.top.saturating_sub(1),
            Action::PageDown => self.top += 10,
            Action::PageUp => self.top = self.top.saturating_sub(10),
            Action::Top => self.top = 0,
            // Not further than there are lines: the next `sync` sees to that.
            Action::Bottom => self.top = usize::from(u16::MAX),
            _ => return Reply::Ignored,
        }
        Reply::Done
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let (w, h) = (canvas.width(), canvas.height());
        let (a, b, left) = self.lines(ctx, w);
        let longest = a.len().max(b.len());
        let top = self.top.min(longest.saturating_sub(usize::from(h)));
        draw_lines(&mut canvas.part(1, 0, left, h), &a, top);
        if !b.is_empty() {
            canvas.column(left + 2, 0, h, ctx.glyphs.wall, ctx.theme.faint);
            let x = left + 4;
            draw_lines(&mut canvas.part(x, 0, w - x, h), &b, top);
        }
    }
}
