//! The whole frame: title, tabs, panes with their rules, scrubber, footer, overlays. Reads the model, changes nothing.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::action::Action;
use super::banner;
use super::canvas::Canvas;
use super::glyph::Glyphs;
use super::layout::{HEAD, LEAST, Slot, has_scrubber};
use super::model::{Model, Overlay, Tone};
use super::pane::PaneId;
use super::shared::Ctx;
use super::text::{count, width};
use super::widget::ruler::Window;
use super::widget::scroll;
use kflow_engine::snapshot::{Mode, SourceStatus, own};
use kflow_engine::{Overview, Snapshot};
use kflow_model::Source;

pub(super) mod overlay;
mod tour;

/// Draws a frame. The model must be in sync with the snapshot.
pub fn draw(model: &Model, snap: &Snapshot, buf: &mut Buffer) {
    let area = *buf.area();
    let ctx = model.ctx(snap, true);
    let mut canvas = Canvas::new(buf, area);
    canvas.clear(ctx.theme.text);
    if area.width < LEAST.0 || area.height < LEAST.1 {
        return too_small(&ctx, &mut canvas);
    }
    title(&ctx, &mut canvas.part(0, 0, area.width, 1));
    tabs(model, &ctx, &mut canvas.part(0, 1, area.width, 1));
    let reasons = banner::reasons(snap);
    banner::draw(&ctx, &mut canvas.part(0, HEAD, area.width, 1), &reasons);
    let slots = model.slots(snap);
    for s in &slots {
        pane(model, snap, s, &mut canvas);
    }
    if let Some(tour) = &model.tour {
        let a = model.places(snap).1;
        tour::draw(
            tour,
            model,
            &ctx,
            &mut canvas.part(a.x, a.y, a.width, a.height),
        );
    }
    if model.strip && model.tour.is_none() {
        let a = model.places(snap).1;
        strip(model, &ctx, &mut canvas.part(a.x, a.y, a.width, a.height));
    }
    let replay = matches!(snap.mode, Mode::Replay { .. });
    if has_scrubber((area.width, area.height), replay) {
        scrubber(&ctx, &mut canvas.part(0, area.height - 2, area.width, 1));
    }
    footer(
        model,
        &ctx,
        &mut canvas.part(0, area.height - 1, area.width, 1),
    );
    for o in &model.overlays {
        match o {
            Overlay::Help(h) => overlay::help(model, &ctx, &mut canvas, h),
            Overlay::Prompt(p) => overlay::prompt(&ctx, &mut canvas, p),
            Overlay::Menu(m) => overlay::menu(&ctx, &mut canvas, m),
        }
    }
    if !ctx.glyphs.is_unicode() {
        to_ascii(buf);
    }
}

/// The line of the demo: as many hints as there is room for, and how to send it away.
fn strip(model: &Model, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
    let t = ctx.theme;
    let w = canvas.width();
    if canvas.height() == 0 {
        return;
    }
    let mut all = super::strip::hints(model.focus, &model.keys);
    let away = all.pop().unwrap_or_default();
    let need = |(key, what): &(String, &str)| (width(key) + width(what) + 3) as u16;
    canvas.line(0, 0, w, ctx.glyphs.rule, t.rule);
    let last = w.saturating_sub(need(&away) + 1);
    let mut x = 2;
    for hint in &all {
        if x + need(hint) > last {
            break;
        }
        canvas.spans(
            x,
            0,
            &[
                (" ", t.text),
                (&hint.0, t.accent),
                (" ", t.text),
                (hint.1, t.text),
            ],
        );
        x += need(hint);
    }
    canvas.spans(
        last,
        0,
        &[
            (" ", t.text),
            (&away.0, t.accent),
            (" ", t.text),
            (away.1, t.dim),
        ],
    );
}

/// What a terminal without Unicode cannot show: names and messages from outside, and signs of shortened texts.
fn to_ascii(buf: &mut Buffer) {
    for c in &mut buf.content {
        if !c.symbol().is_ascii() {
            let plain = match c.symbol() {
                "…" => "~",
                "·" => ".",
                "×" => "x",
                "µ" => "u",
                "–" | "—" => "-",
                _ => "?",
            };
            c.set_symbol(plain);
        }
    }
}

/// The place of a pane that is drawn alone: below what is not known.
pub fn alone(snap: &Snapshot, pane: PaneId, area: Rect) -> Slot {
    let top = u16::from(!banner::reasons(snap).is_empty()).min(area.height);
    let area = Rect {
        y: area.y + top,
        height: area.height - top,
        ..area
    };
    Slot { pane, area }
}

/// Draws one pane alone, with its rule: for exports. What is not known stands above it as on the screen.
pub fn draw_pane(model: &Model, snap: &Snapshot, id: PaneId, buf: &mut Buffer) {
    let area = *buf.area();
    let mut canvas = Canvas::new(buf, area);
    canvas.clear(model.look.theme.text);
    let ctx = model.ctx(snap, true);
    let reasons = banner::reasons(snap);
    banner::draw(&ctx, &mut canvas.part(0, 0, area.width, 1), &reasons);
    pane(model, snap, &alone(snap, id, area), &mut canvas);
}

fn too_small(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
    let (w, h) = (canvas.width(), canvas.height());
    let y = h.saturating_sub(2) / 2;
    let need = format!("kflow needs {}x{}", LEAST.0, LEAST.1);
    for (i, (t, s)) in [
        (need, ctx.theme.strong),
        (format!("this is {w}x{h}"), ctx.theme.dim),
    ]
    .iter()
    .enumerate()
    {
        let x = w.saturating_sub(width(t) as u16) / 2;
        canvas.text(x, y + i as u16, t, *s);
    }
}

fn pane(model: &Model, snap: &Snapshot, slot: &Slot, canvas: &mut Canvas<'_>) {
    let focused = slot.pane == model.focus;
    let ctx = model.ctx(snap, focused);
    let Some(p) = model.pane(slot.pane) else {
        return;
    };
    let a = slot.area;
    let t = ctx.theme;
    let rule = if focused { t.rule_on } else { t.rule };
    canvas.line(a.x, a.y, a.width, ctx.glyphs.rule, rule);
    let mut head = canvas.part(a.x, a.y, a.width, 1);
    let name = format!(" {} ", slot.pane.name());
    let mut x = 1 + head.text(1, 0, &name, if focused { t.accent } else { t.dim });
    let about_pod = !matches!(slot.pane, PaneId::Pods | PaneId::Node);
    if about_pod
        && matches!(
            slot.pane,
            PaneId::Timeline | PaneId::Why | PaneId::Sequence | PaneId::Flow
        )
        && let Some(pod) = ctx.shared.view(snap)
    {
        let max = a.width.saturating_sub(x + 20).max(10);
        x += head.text_in(x, 0, max, &pod.key(), t.strong);
        x += head.text(x, 0, " ", t.text);
    } else if slot.pane == PaneId::Why
        && let Some(o) = ctx
            .shared
            .owner
            .as_ref()
            .filter(|_| ctx.shared.pod.is_none())
    {
        let max = a.width.saturating_sub(x + 20).max(10);
        let name = super::pane::named(o);
        x += head.text_in(x, 0, max, &name, t.strong);
        x += head.text(x, 0, " ", t.text);
    }
    let detail = p.title(&ctx);
    // What is said at the left ends where the number of hidden rows begins.
    let (above, below) = p.hidden().unwrap_or_default();
    let more = width(&scroll::more(ctx.glyphs, above, below)) as u16;
    let end = a.width.saturating_sub(if more > 0 { more + 4 } else { 1 });
    if !detail.is_empty() {
        let room = end.saturating_sub(x);
        x += head.text_in(x, 0, room, &format!("{detail} "), t.dim);
    }
    if let Some(f) = p.filter().filter(|f| !f.is_empty()) {
        let room = end.saturating_sub(x + 1);
        head.text_in(x + 1, 0, room, &format!(" /{f} "), t.matched);
    }
    let mut rule = canvas.part(a.x, a.y, a.width.saturating_sub(1), 1);
    scroll::draw_more(&ctx, &mut rule, 0, above, below);
    if a.x > 0 {
        canvas.column(a.x - 1, a.y, a.height, ctx.glyphs.wall, t.rule);
    }
    let i = slot.inner();
    p.draw(&ctx, &mut canvas.part(i.x, i.y, i.width, i.height));
}

/// How fast, for people: `1×`, `0.5×`, `max`.
fn speed(permille: u32, times: &str) -> String {
    match permille {
        0 => "max".to_owned(),
        p if p % 1000 == 0 => format!("{}{times}", p / 1000),
        p => format!("{}{times}", f64::from(p) / 1000.0),
    }
}

fn title(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
    let (t, g, snap) = (ctx.theme, ctx.glyphs, ctx.snap);
    let w = canvas.width();
    canvas.clear(t.bar);
    let on_bar = |s: Style| t.bar.patch(s);
    let mut x = 1 + canvas.text(1, 0, "kflow", on_bar(t.accent));
    x += 1;
    match &snap.mode {
        Mode::Replay {
            name,
            playing,
            speed_permille,
            loading_permille,
        } => {
            x += canvas.text(x, 0, " REPLAY ", t.replay) + 1;
            let room = if w >= 100 { 30 } else { 14 };
            x += canvas.text_in(x, 0, room, name, t.bar) + 1;
            let scope = snap.world.selection().scope().short();
            if !scope.is_empty() {
                x += canvas.text_in(x, 0, 24, &scope, t.bar) + 1;
            }
            let (symbol, style) = if *playing {
                (g.play, on_bar(t.ok))
            } else {
                (g.pause, on_bar(t.wait))
            };
            x += canvas.text(x, 0, symbol, style) + 1;
            x += canvas.text(x, 0, &speed(*speed_permille, g.times), on_bar(t.dim)) + 1;
            if *loading_permille < 1000 {
                x += canvas.text(
                    x,
                    0,
                    &format!("reading {}%", loading_permille / 10),
                    on_bar(t.run),
                ) + 1;
            }
        }
        Mode::Live {
            scope,
            following,
            recording,
        } => {
            let (badge, style) = if *following {
                (" LIVE ", t.live)
            } else {
                (" PAUSED ", t.paused)
            };
            x += canvas.text(x, 0, badge, style) + 1;
            x += canvas.text_in(x, 0, 24, scope, t.bar) + 1;
            if !recording.is_empty() {
                x += canvas.text(x, 0, g.record, on_bar(t.fail)) + 1;
                x += canvas.text_in(x, 0, 24, recording, on_bar(t.dim)) + 1;
            }
        }
    }
    // Not everywhere: the banner says where the moment that is looked at is not known.
    let damaged =
        |s: &SourceStatus| s.source == Source::Kflow && s.is_off() && s.name == own::SESSION;
    if snap.sources.iter().any(damaged) {
        x += canvas.text(x, 0, " INCOMPLETE ", t.alarm) + 1;
    }
    let time = ctx.time();
    let clock = if w >= 90 {
        time.full(snap.now, 1_000_000)
    } else {
        time.wall(snap.now, 1)
    };
    x += canvas.text(x, 0, &clock, on_bar(t.strong)) + 2;
    sources(ctx, canvas, x);
}

/// Sources at the right: what is on, what is off and why as far as there is room, and what was lost.
fn sources(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, from: u16) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let on_bar = |s: Style| t.bar.patch(s);
    // Each source once: whether a part of it works, whether one does not, and what was lost.
    let mut by: Vec<(Source, bool, bool, u64)> = Vec::new();
    for s in &ctx.snap.sources {
        // An address is no source yet.
        let on = s.is_on() && s.name != own::KUBECONFIG;
        match by.iter_mut().find(|b| b.0 == s.source) {
            Some(b) => {
                b.1 |= on;
                b.2 |= s.is_off();
                b.3 += s.lost;
            }
            None => by.push((s.source, on, s.is_off(), s.lost)),
        }
    }
    let lost: u64 = by.iter().map(|b| b.3).sum();
    let mut end = canvas.width().saturating_sub(1);
    if lost > 0 {
        let text = format!(" {} lost ", count(lost as usize));
        let used = canvas.text_right(end, 0, 20, &text, t.alarm);
        end = end.saturating_sub(used + 1);
    }
    let full: usize = by.iter().map(|b| width(b.0.name()) + 3).sum();
    let names = usize::from(end.saturating_sub(from)) >= full;
    let total = if names { full } else { by.len() };
    if usize::from(end.saturating_sub(from)) < total {
        return;
    }
    let mut x = end.saturating_sub(total as u16);
    for (source, on, off, lost) in by {
        let (symbol, style) = match (on, off, lost) {
            (_, _, 1..) => (g.on, t.fail),
            (true, false, 0) => (g.on, t.ok),
            (true, true, 0) => (g.on, t.wait),
            (false, _, 0) => (g.off, t.faint),
        };
        x += canvas.text(x, 0, symbol, on_bar(style));
        if names {
            let s = if on { on_bar(t.dim) } else { on_bar(t.faint) };
            x += canvas.text(x, 0, source.name(), s) + 2;
        }
    }
}

/// Columns that the selected pod takes beside the tabs, at least.
const SELECTED: usize = 28;

fn tab_places(model: &Model, w: u16) -> Vec<(PaneId, u16, String)> {
    let all: Vec<PaneId> = model.panes.iter().map(|p| p.id()).collect();
    let label = |id: PaneId, short: bool| {
        let key = model.keys.first(id.action());
        match (key.is_empty(), short) {
            (true, _) => id.name().to_owned(),
            (false, false) => format!("{key} {}", id.name()),
            (false, true) => format!("{key}{}", id.name().chars().take(4).collect::<String>()),
        }
    };
    // The selected pod needs room beside them; the name of the focused pane stays whole where it can.
    let wide = |p: PaneId, short: bool| width(&label(p, short)) + 2;
    let full: usize = all.iter().map(|p| wide(*p, false)).sum();
    let short = full + SELECTED > usize::from(w);
    let least: usize = all.iter().map(|p| wide(*p, true)).sum();
    let more = wide(model.focus, false).saturating_sub(wide(model.focus, true));
    let whole = least + more + 2 <= usize::from(w);
    let mut x = 1;
    all.into_iter()
        .map(|p| {
            let l = format!(" {} ", label(p, short && !(whole && p == model.focus)));
            let at = x;
            x += width(&l) as u16;
            (p, at, l)
        })
        .collect()
}

/// The pane whose tab lies at this column.
pub fn tab_at(model: &Model, x: u16) -> Option<PaneId> {
    tab_places(model, model.size.0)
        .into_iter()
        .find(|(_, at, l)| (*at..at + width(l) as u16).contains(&x))
        .map(|(p, _, _)| p)
}

fn tabs(model: &Model, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
    let t = ctx.theme;
    let mut end = 0;
    for (p, x, label) in tab_places(model, canvas.width()) {
        let style = if p == model.focus { t.tab_on } else { t.tab };
        end = x + canvas.text(x, 0, &label, style);
    }
    // The selected pod, when its list is not on the screen.
    if let Some(p) = ctx.shared.view(ctx.snap) {
        let room = canvas.width().saturating_sub(end + 14);
        if room >= 12 {
            super::widget::stage::strip(ctx, canvas, canvas.width() - 12, 0, p);
            let right = canvas.width() - 13;
            canvas.text_right(right, 0, room - 1, &p.key(), t.dim);
        }
    }
}

/// First column and width of the bar that can be scrubbed.
pub const fn scrub_bar(w: u16) -> (u16, u16) {
    (10, w.saturating_sub(22))
}

fn scrubber(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
    let (t, g, snap) = (ctx.theme, ctx.glyphs, ctx.snap);
    let w = canvas.width();
    let time = ctx.time();
    let (x, bar) = scrub_bar(w);
    canvas.text(1, 0, &time.wall(snap.range.0, 0), t.dim);
    canvas.text_right(
        w.saturating_sub(1),
        0,
        9,
        &time.wall(snap.range.1, 0),
        t.dim,
    );
    let length = snap.range.1.since(snap.range.0).max(1) as f64;
    let place = |at: kflow_model::Nanos| {
        let share = at.since(snap.range.0) as f64 / length;
        (share.clamp(0.0, 1.0) * f64::from(bar.saturating_sub(1))) as u16
    };
    let here = place(snap.now);
    canvas.line(x, 0, bar, g.rule, t.faint);
    canvas.line(x, 0, here, g.rule, t.accent);
    // How much was observed, and in red when something was not well.
    let dense = density(&snap.overview, bar);
    let most = dense.iter().copied().max().unwrap_or(0);
    let ill = ill(snap, bar);
    for (n, (count, ill)) in (0..bar).zip(dense.into_iter().zip(ill)) {
        let style = match (ill, n < here) {
            (true, _) => t.fail,
            (false, true) => t.accent,
            (false, false) => t.faint,
        };
        if let Some(symbol) = level(g, count, most) {
            canvas.symbol(x + n, 0, symbol, style);
        } else if ill {
            canvas.symbol(x + n, 0, g.rule, style);
        }
    }
    for at in snap.overview.notes.iter() {
        canvas.symbol(x + place(*at), 0, g.mark, t.delta);
    }
    for m in &ctx.shared.marks {
        canvas.symbol(x + place(*m), 0, g.mark, t.delta);
    }
    canvas.symbol(x + here, 0, g.on, t.accent);
}

/// Observations of each cell of the bar.
fn density(overview: &Overview, cells: u16) -> Vec<u32> {
    let (cells, parts) = (usize::from(cells), overview.density.len());
    (0..cells)
        .map(|n| {
            let from = n * parts / cells.max(1);
            let to = ((n + 1) * parts / cells.max(1)).max(from + 1).min(parts);
            overview.density.get(from..to).unwrap_or(&[]).iter().sum()
        })
        .collect()
}

/// A level for so many observations, by how often it can be halved: a burst does not hide the rest.
fn level(g: &Glyphs, count: u32, most: u32) -> Option<&'static str> {
    if count == 0 {
        return None;
    }
    let bits = |n: u32| f64::from(n).ln_1p();
    let share = bits(count) / bits(most).max(f64::MIN_POSITIVE);
    Some(g.level(((share * 6.0) as usize + 1).min(7)))
}

/// The cells of the bar in which something was not well.
fn ill(snap: &Snapshot, cells: u16) -> Vec<bool> {
    let overview = &snap.overview;
    let window = Window::new(snap.range.0, snap.range.1);
    let end = overview.upto.unwrap_or(snap.range.1);
    let mut out = vec![false; usize::from(cells)];
    for i in overview.incidents.iter() {
        let a = window.place(i.begin, cells).max(0.0) as usize;
        let z = window.place(i.end.unwrap_or(end), cells).max(0.0).ceil() as usize;
        for cell in out.iter_mut().take(z.max(a + 1)).skip(a) {
            *cell = true;
        }
    }
    out
}

fn footer(model: &Model, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
    let t = ctx.theme;
    canvas.clear(t.bar);
    if let Some((m, tone)) = &model.message {
        let style = match tone {
            Tone::Info => t.bar.patch(t.strong),
            Tone::Error => t.bar.patch(t.fail),
        };
        canvas.text(1, 0, m, style);
        return;
    }
    for (x, a) in hints(model, canvas.width()) {
        let key = model.keys.first(a);
        let x = x + canvas.text(x, 0, &key, t.bar.patch(t.key)) + 1;
        canvas.text(x, 0, word(a), t.bar.patch(t.key_text));
    }
}

/// The commands of the footer, each with its first column.
fn hints(model: &Model, w: u16) -> Vec<(u16, Action)> {
    let own: &[Action] = model.pane(model.focus).map_or(&[], |p| p.commands());
    let general = [
        Action::Palette,
        Action::PlayPause,
        Action::Seek,
        Action::NextError,
        Action::Layout,
    ];
    let need = |a: Action| (width(&model.keys.first(a)) + width(word(a)) + 3) as u16;
    // Help and quit stay; the pane's own keys take what is left, then the general ones.
    let fixed = [Action::Help, Action::Quit];
    let last: u16 = fixed.into_iter().map(need).sum();
    let limit = w.saturating_sub(last + 1);
    let mut all = Vec::new();
    let mut x = 1;
    // What the tour takes for itself stands in its lines.
    let guided =
        |a: Action| model.tour.is_some() && matches!(a, Action::PlayPause | Action::Layout);
    for a in own.iter().chain(&general).copied() {
        if model.keys.first(a).is_empty() || guided(a) {
            continue;
        }
        if x + need(a) > limit {
            break;
        }
        all.push((x, a));
        x += need(a);
    }
    let mut x = w.saturating_sub(last);
    for a in fixed {
        all.push((x, a));
        x += need(a);
    }
    all
}

/// The command of the footer at this column.
pub fn hint_at(model: &Model, x: u16) -> Option<Action> {
    if model.message.is_some() {
        return None;
    }
    let all = hints(model, model.size.0);
    let end = |a: Action| (width(&model.keys.first(a)) + width(word(a)) + 1) as u16;
    all.into_iter()
        .find(|(at, a)| (*at..*at + end(*a)).contains(&x))
        .map(|(_, a)| a)
}

/// One or two words for the footer.
const fn word(a: Action) -> &'static str {
    match a {
        Action::PaneWhy => "why",
        Action::SortNext | Action::CallsSort => "sort",
        Action::ToggleGone => "gone",
        Action::ToggleDone => "completed",
        Action::SortStuck => "trouble first",
        Action::PodLanes => "lanes",
        Action::SortReverse => "reverse",
        Action::CallsDetail | Action::Detail | Action::LogDetail | Action::RequestsDetail => {
            "detail"
        }
        Action::CallsScope | Action::LogScope | Action::RequestsScope => "all/pod",
        Action::CallsErrors | Action::RequestsErrors => "errors",
        Action::RequestsGroups => "groups",
        Action::RequestsSlow => "slow",
        Action::CallsFlight => "in flight",
        Action::CallsNoise | Action::LogFold => "fold",
        Action::CallsStats => "percentiles",
        Action::LogSources => "sources",
        Action::LogRaw => "raw",
        Action::LogFollow => "follow",
        Action::PlayPause => "play",
        Action::NextError => "next error",
        Action::NextIncident => "next",
        Action::PreviousIncident => "previous",
        Action::IncidentsSort => "sort",
        Action::MarkA => "mark",
        Action::Critical => "critical",
        Action::FitSelection => "zoom to it",
        Action::ZoomIn => "in",
        Action::ZoomOut => "out",
        Action::SpanNextError => "error",
        Action::WhyCopy => "copy",
        Action::SequenceNoise => "fold",
        Action::FlowExplain => "explain",
        Action::FlowOnlyReached => "reached",
        Action::FlowFoldAll | Action::FoldAll => "fold all",
        Action::NextPod => "next pod",
        a => a.name(),
    }
}

/// The area of a box in the middle.
fn middle((cw, ch): (u16, u16), w: u16, h: u16) -> Rect {
    let (w, h) = (w.min(cw), h.min(ch));
    Rect::new((cw - w) / 2, (ch - h) / 2, w, h)
}
