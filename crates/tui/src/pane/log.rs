//! All observations of the selected pod, of the selected owner or node without its pods, or of everything, in order
//! of time and coloured by source. A detail below the list shows the selected one in full.

mod rows;

use super::{Item, Menu, Pane, PaneId, Reply, named};
use crate::action::{Action, Command};
use crate::canvas::Canvas;
use crate::describe;
use crate::filter::Filter;
use crate::glyph::{Glyphs, UNICODE};
use crate::shared::{Ctx, Shared};
use crate::text::{count, counted, cut_middle, width, wrap};
use crate::widget::details::Details;
use crate::widget::scroll::Scroll;
use kflow_core::query::Field;
use kflow_engine::Snapshot;
use kflow_export::text::clean;
use kflow_model::units::duration;
use kflow_model::{Evidence, Nanos, ObjectRef, Observation, PodUid, Source};
use rows::Rows;

/// Limit on the lines of the selected row; the detail shows the rest.
const WRAPPED: usize = 6;

#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of the user"
)]
#[derive(Debug)]
pub struct Log {
    all: bool,
    pod: Option<PodUid>,
    /// The owner without pods or the node that is selected instead of a pod.
    owner: Option<ObjectRef>,
    /// Observations about `owner`.
    of_owner: Vec<Evidence>,
    off: Vec<Source>,
    filter: Filter,
    /// The listed observations; unused while every observation is listed.
    kept: Rows,
    /// Number of observations in `kept`, including repeats.
    listed: usize,
    /// Whether repeats of a line are folded into one row.
    fold: bool,
    /// Number of observations that were looked through so far.
    upto: usize,
    len: usize,
    /// The first observation at the last update. If it is another one now, the front of the log was dropped.
    first: Option<Evidence>,
    scroll: Scroll,
    /// Visible lines of the list.
    height: usize,
    /// Lines of the selected row, if it takes more than one.
    wrapped: Vec<String>,
    follow: bool,
    detail: bool,
    raw: bool,
    detail_top: usize,
    cursor: Option<Nanos>,
    seen: Option<u64>,
    dirty: bool,
    /// Whether the run is limited to some pods while everything is listed, so that observations about other pods are
    /// left out.
    narrow: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            all: false,
            pod: None,
            owner: None,
            of_owner: Vec::new(),
            off: vec![Source::Metrics],
            filter: Filter::default(),
            kept: Rows::default(),
            listed: 0,
            fold: true,
            upto: 0,
            len: 0,
            first: None,
            scroll: Scroll::default(),
            height: 0,
            wrapped: Vec::new(),
            follow: true,
            detail: false,
            raw: false,
            detail_top: 0,
            cursor: None,
            seen: None,
            dirty: true,
            narrow: false,
        }
    }
}

impl Log {
    /// Returns the width of the pod column, and of the text.
    const fn columns(&self, w: u16) -> (u16, u16) {
        let clock = if w >= 100 { 16 } else { 13 };
        let pods = if self.all && w >= 100 { 30 } else { 0 };
        (pods, w.saturating_sub(clock + 10 + pods + 2))
    }
    /// Returns `×584 every 100ms ` for a row of repeats, to precede its text; else an empty text.
    fn often(&self, snap: &Snapshot, n: usize, glyphs: &Glyphs) -> String {
        let (Some((times, since)), Some(o)) = (self.repeats(snap, n), self.row(snap, n)) else {
            return String::new();
        };
        let span = o.stamp.at.since(since);
        let every = duration(span / i64::from(times.saturating_sub(1).max(1)));
        format!("{}{times} every {every} ", glyphs.times)
    }
    /// Returns the lines of the selected row; empty if one line is enough, or if the detail is shown.
    fn wrap(&self, snap: &Snapshot, w: u16) -> Vec<String> {
        let (_, room) = self.columns(w);
        let o = self.row(snap, self.scroll.at).filter(|_| !self.detail);
        let Some(o) = o else {
            return Vec::new();
        };
        // The multiplication sign is one column wide in Unicode and in ASCII.
        let often = self.often(snap, self.scroll.at, &UNICODE);
        let text = format!("{often}{}", clean(&describe::line(o).0));
        let mut lines = wrap(&text, usize::from(room));
        lines.truncate(WRAPPED);
        if lines.len() > 1 { lines } else { Vec::new() }
    }
    /// Returns how many rows above the selected one are skipped, so that all its lines fit on the screen.
    fn skipped(&self) -> usize {
        let above = self.scroll.at.saturating_sub(self.scroll.top);
        let last = above + self.wrapped.len().max(1);
        last.saturating_sub(self.height).min(above)
    }
    fn split(&self, h: u16) -> (u16, u16) {
        if !self.detail || h < 10 {
            return (h, 0);
        }
        let below = h / 2;
        (h - below, below)
    }
    fn draw_detail(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, o: &Observation) {
        let (t, time) = (ctx.theme, ctx.time());
        let (w, h) = (canvas.width(), canvas.height());
        let head = format!(
            "{}  {}  {}",
            time.full(o.stamp.at, o.stamp.precision),
            crate::time::precision(o.stamp.precision),
            o.source.name()
        );
        let used = canvas.text(0, 0, &head, t.strong);
        let seen = format!("seen {} after", duration(o.stamp.seen.since(o.stamp.at)));
        if usize::from(w.saturating_sub(used + 2)) >= width(&seen) {
            canvas.text_right(w, 0, 24, &seen, t.dim);
        }
        let mut below = canvas.part(0, 1, w, h.saturating_sub(1));
        if self.raw {
            let mut raw = Details::default();
            raw.head(describe::whole(o), t.dim);
            raw.draw(ctx, &mut below, self.detail_top);
        } else {
            describe::details(o, &time, t).draw(ctx, &mut below, self.detail_top);
        }
    }
    fn sources_menu(&self) -> Menu {
        Menu {
            title: "Sources".to_owned(),
            items: Source::ALL
                .iter()
                .map(|s| Item {
                    label: s.name().to_owned(),
                    help: String::new(),
                    command: Command {
                        action: Action::LogSources,
                        arg: s.name().to_owned(),
                    },
                    checked: Some(!self.off.contains(s)),
                })
                .collect(),
            at: 0,
            keep: true,
        }
    }
}

impl Pane for Log {
    fn id(&self) -> PaneId {
        PaneId::Log
    }
    fn title(&self, ctx: &Ctx<'_>) -> String {
        let g = ctx.glyphs;
        let whose = if self.all {
            "everything".to_owned()
        } else {
            let pod = ctx.shared.view(ctx.snap).map(|p| p.key());
            pod.or_else(|| self.owner.as_ref().map(named))
                .unwrap_or_else(|| "no pod".to_owned())
        };
        let listed = if self.plain() { self.len } else { self.listed };
        let mut s = format!("{whose} {} {}", g.dot, count(listed));
        if listed != self.len {
            s.push_str(&format!(" of {}", count(self.len)));
        }
        if listed != self.rows() {
            s.push_str(&format!(" in {}", counted(self.rows(), "row")));
        }
        if self.upto < self.len {
            s.push_str(&format!(
                " {} filtering {}%",
                g.dot,
                self.upto * 100 / self.len.max(1)
            ));
        }
        if !self.off.is_empty() {
            let off: Vec<&str> = self.off.iter().map(|s| s.name()).collect();
            s.push_str(&format!(" {} without {}", g.dot, off.join(", ")));
        }
        if self.follow {
            s.push_str(&format!(" {} follows", g.dot));
        }
        s
    }
    fn commands(&self) -> &'static [Action] {
        &[
            Action::LogScope,
            Action::LogSources,
            Action::LogDetail,
            Action::LogFold,
            Action::LogRaw,
            Action::LogFollow,
            Action::Filter,
            Action::Open,
        ]
    }
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        if self.pod != shared.pod || self.owner != shared.owner {
            self.pod.clone_from(&shared.pod);
            self.owner.clone_from(&shared.owner);
            if !self.all {
                self.dirty = true;
                self.follow = shared.cursor.is_none();
            }
        }
        if shared.wants_everything(PaneId::Log) {
            self.all = true;
            self.off.clear();
            self.dirty = true;
            self.cursor = None;
        }
        if self.dirty || self.seen != Some(snap.version) || self.upto < self.len {
            self.update(snap);
            self.seen = Some(snap.version);
        }
        let (h, _) = self.split(size.1);
        let h = usize::from(h.max(1));
        if let Some(e) = shared.evidence.take() {
            let find = |log: &Self| {
                let near = log.nearest(snap, e.stamp.at);
                (near.saturating_sub(200)..(near + 200).min(log.rows()))
                    .find(|n| log.holds(snap, *n, &e))
            };
            let mut found = find(self);
            if found.is_none() {
                // The observation is hidden: remove the filter and show all sources.
                self.off.clear();
                self.filter = Filter::default();
                self.dirty = true;
                self.update(snap);
                found = find(self);
            }
            if found.is_none() && !self.all {
                // The observation is about another pod, or about none: show those of all pods.
                self.all = true;
                self.dirty = true;
                self.update(snap);
                found = find(self);
            }
            self.scroll.fit(self.rows(), h);
            self.scroll
                .select(found.unwrap_or_else(|| self.nearest(snap, e.stamp.at)));
            self.follow = false;
            self.detail = true;
            shared.cursor = Some(e.stamp.at);
            self.cursor = shared.cursor;
        }
        if shared.cursor != self.cursor {
            self.cursor = shared.cursor;
            // Without a time cursor, the list follows the newest observation.
            self.follow = shared.cursor.is_none();
            if let Some(at) = shared.cursor {
                self.scroll.at = self.nearest(snap, at);
            }
        }
        if self.follow {
            self.scroll.at = self.rows().saturating_sub(1);
        }
        self.scroll.fit(self.rows(), h);
        self.height = h;
        self.wrapped = self.wrap(snap, size.0);
    }
    fn handle(&mut self, command: &Command, snap: &Snapshot, shared: &mut Shared) -> Reply {
        if self.scroll.handle(command.action) {
            self.detail_top = 0;
            self.follow = self.scroll.at_end() && command.action == Action::Bottom;
            shared.cursor = if self.follow {
                None
            } else {
                self.row(snap, self.scroll.at).map(|o| o.stamp.at)
            };
            self.cursor = shared.cursor;
            return Reply::Done;
        }
        match command.action {
            Action::LogScope => {
                self.all = !self.all;
                self.follow = shared.cursor.is_none();
                self.dirty = true;
                self.cursor = None;
            }
            Action::LogFollow => {
                self.follow = !self.follow;
                if self.follow {
                    shared.cursor = None;
                    self.cursor = None;
                }
            }
            Action::LogFold => {
                let here = self.row(snap, self.scroll.at).map(|o| o.stamp.at);
                self.fold = !self.fold;
                self.dirty = true;
                self.update(snap);
                if let Some(at) = here.filter(|_| !self.follow) {
                    self.scroll.at = self.nearest(snap, at);
                }
                return Reply::Say(if self.fold {
                    "repeats of a line are one row".to_owned()
                } else {
                    "every line has its row".to_owned()
                });
            }
            Action::LogDetail => self.detail = !self.detail,
            Action::LogRaw => {
                // The first command while the detail is closed opens it in raw form.
                self.raw = !self.raw || !self.detail;
                self.detail = true;
                self.detail_top = 0;
            }
            Action::LogSources => match Source::ALL.iter().find(|s| s.name() == command.arg) {
                Some(s) => {
                    if self.off.contains(s) {
                        self.off.retain(|o| o != s);
                    } else {
                        self.off.push(*s);
                    }
                    self.dirty = true;
                }
                None => return Reply::Menu(self.sources_menu()),
            },
            Action::Right => self.detail_top += 1,
            Action::Left => self.detail_top = self.detail_top.saturating_sub(1),
            Action::Open if !self.detail => self.detail = true,
            Action::Open => {
                let Some(o) = self.row(snap, self.scroll.at) else {
                    return Reply::Done;
                };
                let key = describe::pod(o);
                let pod = snap.world.find(&key).first().map(|p| p.uid.clone());
                if self.all
                    && let Some(p) = pod
                {
                    shared.pod = Some(p);
                }
                shared.evidence = Some(o.clone());
                return Reply::Go(PaneId::Timeline);
            }
            Action::Back if self.detail => self.detail = false,
            _ => return Reply::Ignored,
        }
        Reply::Done
    }
    fn hidden(&self) -> Option<(usize, usize)> {
        Some(self.scroll.hidden())
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let (w, h) = (canvas.width(), canvas.height());
        let t = ctx.theme;
        if self.rows() == 0 {
            let (text, hint) = if self.upto < self.len {
                ("Filtering…", "")
            } else if self.len == 0 {
                ("No observation yet.", "a shows those of everything.")
            } else {
                (
                    "No observation is shown.",
                    "f chooses sources, esc clears the filter.",
                )
            };
            return super::empty(ctx, canvas, text, hint);
        }
        let (list, below) = self.split(h);
        let (pods, _) = self.columns(w);
        let digits = if w >= 100 { 6 } else { 3 };
        let clock = if w >= 100 { 16 } else { 13 };
        let time = ctx.time();
        let mut y = 0;
        for n in self.scroll.visible().skip(self.skipped()) {
            if y >= list {
                break;
            }
            let Some(o) = self.row(ctx.snap, n) else {
                continue;
            };
            let (text, tone) = describe::line(o);
            let style = describe::style(t, tone);
            let at = time.within(o.stamp.at, o.stamp.precision, digits, clock - 1);
            canvas.text_in(1, y, clock - 1, &at, t.dim);
            canvas.text_in(1 + clock, y, 8, o.source.name(), t.source(o.source));
            let mut x = clock + 10;
            if pods > 0 {
                let key = describe::pod(o);
                let cleaned = clean(&key);
                let cut = cut_middle(&cleaned, usize::from(pods - 1));
                canvas.text_in(x, y, pods - 1, &cut, t.dim);
                x += pods;
            }
            let often = self.often(ctx.snap, n, ctx.glyphs);
            let text = format!("{often}{}", clean(&text));
            let one = [text];
            let lines = if n == self.scroll.at && !self.wrapped.is_empty() {
                &self.wrapped
            } else {
                &one[..]
            };
            for (i, line) in lines.iter().enumerate() {
                if y >= list {
                    break;
                }
                let room = w.saturating_sub(x + 2);
                canvas.text_in(x, y, room, line, style);
                if i == 0 {
                    canvas.text_in(x, y, room, &often, t.warn);
                }
                for part in self.filter.parts(line) {
                    let before = line.get(..part.start).map_or(0, width) as u16;
                    let wide = line.get(part).map_or(0, width) as u16;
                    let wide = wide.min(room.saturating_sub(before));
                    canvas.style(x + before.min(room), y, wide, 1, t.matched);
                }
                if n == self.scroll.at {
                    super::calls::select(ctx, canvas, y);
                }
                y += 1;
            }
        }
        self.scroll.draw(ctx, &mut canvas.part(0, 0, w, list), 0);
        if below > 0 {
            canvas.line(0, list, w, ctx.glyphs.rule, t.rule);
            if let Some(o) = self.row(ctx.snap, self.scroll.at) {
                let mut part = canvas.part(1, list + 1, w.saturating_sub(2), below - 1);
                self.draw_detail(ctx, &mut part, o);
            }
        }
    }
    fn filter(&self) -> Option<&str> {
        Some(self.filter.text())
    }
    fn matches(&self) -> Option<usize> {
        let listed = if self.plain() { self.len } else { self.listed };
        (self.upto == self.len || self.rows() > 0).then_some(listed)
    }
    fn set_filter(&mut self, text: &str) -> Result<(), String> {
        self.filter = Filter::parse(text)?;
        self.dirty = true;
        Ok(())
    }
    fn click(&mut self, _x: u16, y: u16, snap: &Snapshot, shared: &mut Shared) -> bool {
        let more = self.wrapped.len().saturating_sub(1);
        let row = self.scroll.top + self.skipped() + usize::from(y);
        let row = if row > self.scroll.at {
            row.saturating_sub(more).max(self.scroll.at)
        } else {
            row
        };
        if row >= self.rows() {
            return false;
        }
        self.scroll.select(row);
        self.follow = false;
        shared.cursor = self.row(snap, row).map(|o| o.stamp.at);
        self.cursor = shared.cursor;
        true
    }
    fn known(&self, field: Field, snap: &Snapshot) -> Vec<String> {
        match field {
            Field::Pod => snap
                .world
                .pods()
                .iter()
                .take(2000)
                .map(|p| p.name.to_string())
                .collect(),
            Field::Namespace => snap
                .world
                .pods()
                .iter()
                .take(2000)
                .map(|p| p.namespace.to_string())
                .collect(),
            _ => Vec::new(),
        }
    }
    fn copy(&self, snap: &Snapshot, _shared: &Shared) -> Option<String> {
        self.row(snap, self.scroll.at).map(|o| describe::whole(o))
    }
}
