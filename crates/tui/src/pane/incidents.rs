//! Incidents: every interval in which something was not well, in order, each with a lane on a common time axis.
//!
//! Enter goes to the middle of an incident, where its verdict holds, and selects the pod, owner or node that had it.

use std::sync::Arc;

use super::{Menu, Pane, PaneId, Reply, Written};
use crate::action::{Action, Command};
use crate::canvas::Canvas;
use crate::shared::{Ctx, IncidentId, Shared};
use crate::text::{count, cut_middle, width, wrap};
use crate::widget::ruler::{self, Window};
use crate::widget::scroll::Scroll;
use crate::widget::stage;
use kflow_core::diagnose::incidents::weight;
use kflow_core::diagnose::{Incident, Subject};
use kflow_engine::Snapshot;
use kflow_engine::snapshot::Mode;
use kflow_model::stamp::SECOND;
use kflow_model::units::duration;
use kflow_model::{Nanos, PodUid};
use ratatui::style::Style;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sort {
    /// Earliest first.
    #[default]
    Begin,
    /// Longest first.
    Length,
    /// Most severe first; of equally severe ones, the longest first.
    Worst,
}

impl Sort {
    const ALL: [Self; 3] = [Self::Begin, Self::Length, Self::Worst];
    const fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Length => "length",
            Self::Worst => "worst",
        }
    }
    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }
}

#[derive(Debug, Default)]
pub struct Incidents {
    sort: Sort,
    seen: Option<Arc<Vec<Incident>>>,
    sorted: Sort,
    /// Rows, as indices into the list of incidents.
    rows: Vec<usize>,
    scroll: Scroll,
    /// The incident of the selected row, by which the row is found again after the list has changed.
    selected: Option<IncidentId>,
    /// The incident that the user opened last.
    visited: Option<IncidentId>,
    /// Words that all occur in what is listed, in lower case.
    filter: String,
    /// Whether the filter has changed since the rows were built.
    dirty: bool,
    /// Width of the widest subject, in columns.
    subjects: usize,
    /// Width of the column of begins.
    begins: u16,
}

/// Rows above the list: the headings and the axis of the lanes.
const HEAD: u16 = 1;
/// Width of the pane, in columns, from which lanes are drawn beside the list.
const LANES_FROM: u16 = 110;

/// Returns the end of the part of the session that was searched for incidents.
fn upto(snap: &Snapshot) -> Nanos {
    snap.overview.upto.unwrap_or(snap.range.1)
}

/// Formats incidents as `kflow why --ever` does.
fn text(all: &[&Incident], snap: &Snapshot) -> String {
    let node = |uid: &PodUid| snap.world.pod(uid).map(|p| p.node.as_str());
    kflow_export::incidents::text(all, snap.range, upto(snap), node)
}

/// Formats the subject, such as `s29/deployment/quota`, and for an owner the number of its pods that were affected.
fn subject(ctx: &Ctx<'_>, i: &Incident) -> String {
    match (&i.subject, i.pods()) {
        (Subject::Owner(_), n @ 1..) => format!("{} {}{n}", i.subject, ctx.glyphs.times),
        _ => i.subject.to_string(),
    }
}

impl Incidents {
    fn at<'a>(&self, snap: &'a Snapshot, row: usize) -> Option<&'a Incident> {
        snap.overview.incidents.get(*self.rows.get(row)?)
    }
    fn order(&mut self, snap: &Snapshot) {
        let all = &snap.overview.incidents;
        let kept = |n: &usize| all.get(*n).is_some_and(|i| fits(i, &self.filter));
        self.rows = (0..all.len()).filter(kept).collect();
        let now = upto(snap);
        let length = |n: &usize| all.get(*n).map_or(0, |i| -i.length(now));
        match self.sort {
            Sort::Begin => {}
            Sort::Length => self.rows.sort_by_key(length),
            Sort::Worst => self.rows.sort_by_key(|n| {
                let w = all.get(*n).map_or(u8::MAX, |i| weight(i.verdict.state));
                (w, length(n))
            }),
        }
        let shown = self.rows.iter().filter_map(|n| all.get(*n));
        self.subjects = shown
            .map(|i| width(&i.subject.to_string()) + 5 * usize::from(i.pods() > 1))
            .max()
            .unwrap_or(0);
    }
    fn find(&mut self, snap: &Snapshot, id: &IncidentId) -> bool {
        let place = |n: &usize| snap.overview.incidents.get(*n).is_some_and(|i| id.is_of(i));
        let row = self.rows.iter().position(place);
        if let Some(row) = row {
            self.scroll.at = row;
        }
        row.is_some()
    }
    fn keep(&mut self, snap: &Snapshot) {
        self.selected = self.at(snap, self.scroll.at).map(IncidentId::of);
    }
    fn sort_menu(&self) -> Menu {
        let names = Sort::ALL.iter().map(|s| s.name());
        Menu::of_orders(Action::IncidentsSort, names, self.sort.name(), "")
    }
    /// Returns the rows of the list and of the text below it.
    fn heights(h: u16) -> (u16, u16) {
        let below = match h {
            0..=9 => 0,
            10..=15 => 3,
            _ => 4,
        };
        (h.saturating_sub(HEAD + below).max(1), below)
    }
}

/// Returns true if each word of the filter occurs in what an incident is about: its subject, its pods, its cause, its state, its title or
/// its sentence.
fn fits(i: &Incident, filter: &str) -> bool {
    if filter.is_empty() {
        return true;
    }
    let verdicts = std::iter::once(&i.verdict).chain(i.parts.iter().map(|p| &p.verdict));
    let mut text = i.subject.to_string();
    for v in verdicts {
        for part in [
            &*v.pod,
            v.cause_id(),
            stage::word(v.state),
            &v.title,
            &v.sentence,
        ] {
            text.push('\n');
            text.push_str(part);
        }
    }
    let text = text.to_lowercase();
    filter.split_whitespace().all(|word| text.contains(word))
}

/// Columns at which the parts of a row begin, each pair with its width.
struct Columns {
    begin: u16,
    length: u16,
    cause: u16,
    subject: (u16, u16),
    what: (u16, u16),
    lanes: Option<(u16, u16)>,
}

impl Columns {
    fn of(w: u16, subjects: usize, begin: u16, has_axis: bool) -> Self {
        let lanes = (w >= LANES_FROM && has_axis).then(|| w * 2 / 5);
        // One column for the scroll bar.
        let end = w.saturating_sub(lanes.map_or(1, |l| l + 3));
        let (length, cause) = (begin + 2, begin + 10);
        let from = cause + 7;
        let room = end.saturating_sub(from);
        let most = u16::try_from(subjects).unwrap_or(u16::MAX).max(7);
        let share = if room >= 36 { room * 3 / 5 } else { room };
        let subject = most.min(share).min(room);
        let what = from + subject + 2;
        Self {
            begin,
            length,
            cause,
            subject: (from, subject),
            what: (what, end.saturating_sub(what)),
            lanes: lanes.map(|l| (w.saturating_sub(l + 1), l)),
        }
    }
}

fn row(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, c: &Columns, y: u16, i: &Incident) {
    let (t, now) = (ctx.theme, upto(ctx.snap));
    let v = &i.verdict;
    let (word, style) = stage::verdict(ctx, v.state);
    // Of an incident that was there at the first look, it is known only that it began no later.
    let earlier = if i.verdict.at_least {
        ctx.glyphs.not_after
    } else {
        ""
    };
    let room = c.begin - width(earlier) as u16;
    let begin = ctx.time().within(i.begin, 1, 0, room);
    canvas.text_in(1, y, c.begin, &format!("{earlier}{begin}"), t.dim);
    let length = kflow_export::incidents::length(i, now);
    canvas.text_right(c.length + 7, y, 7, &length, t.text);
    let cause = if v.cause_id().is_empty() {
        word
    } else {
        v.cause_id()
    };
    canvas.text_in(c.cause, y, 6, cause, *style);
    let who = match i.subject {
        Subject::Node(_) => t.warn,
        Subject::Owner(_) => t.strong,
        Subject::Pod { .. } => t.text,
    };
    let (x, w) = c.subject;
    let name = subject(ctx, i);
    canvas.text_in(x, y, w, &cut_middle(&name, usize::from(w)), who);
    let (x, w) = c.what;
    if w >= 10 {
        let whole = width(&v.sentence) <= usize::from(w);
        let text = if whole { v.sentence.as_str() } else { &v.title };
        canvas.text_in(x, y, w, text, t.dim);
    }
    if let Some((x, w)) = c.lanes {
        lane(ctx, &mut canvas.part(x, y, w, 1), i, *style);
    }
}

/// Returns the time window of the lanes, and the moment that its labels count from: the whole session from its begin. A
/// session of one moment has no length; its lanes show how long before that moment each incident began. `None` where
/// nothing tells it of any.
fn window(snap: &Snapshot) -> Option<(Window, Nanos)> {
    let (begin, end) = snap.range;
    if !snap.is_of_one_moment() {
        return Some((Window::new(begin, end), begin));
    }
    let all = snap.overview.incidents.iter();
    let first = all.map(|i| i.begin).min()?;
    let length = end.since(first);
    // The lanes end at the moment; what begins with the first of them is not at the very edge.
    (length >= SECOND).then(|| (Window::new(first.plus(-length / 40), end), end))
}

/// Draws the lane of an incident: lighter until the diagnosis first reported it, with an arrow at the end
/// if it still lasts.
fn lane(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, i: &Incident, style: Style) {
    let (g, w) = (ctx.glyphs, canvas.width());
    let Some((window, _)) = window(ctx.snap) else {
        return;
    };
    let cells = |from: Nanos, to: Nanos| {
        let last = w.saturating_sub(1);
        let a = (window.place(from, w).max(0.0) as u16).min(last);
        let z = (window.place(to, w).max(0.0).ceil() as u16).min(w);
        (a, z.saturating_sub(a).max(1))
    };
    let end = upto(ctx.snap);
    for p in &i.parts {
        let (x, n) = cells(p.begin, p.told);
        canvas.line(x, 0, n, g.bounded, style);
    }
    for p in &i.parts {
        let (x, n) = cells(p.told, p.end.unwrap_or(end));
        canvas.line(x, 0, n, g.full, style);
        if p.end.is_none() {
            canvas.symbol(x + n - 1, 0, g.growing, style);
        }
    }
}

impl Pane for Incidents {
    fn id(&self) -> PaneId {
        PaneId::Incidents
    }
    fn title(&self, ctx: &Ctx<'_>) -> String {
        let overview = &ctx.snap.overview;
        let dot = ctx.glyphs.dot;
        let all = overview.incidents.len();
        let mut s = if self.rows.len() == all {
            count(all)
        } else {
            format!("{} of {}", count(self.rows.len()), count(all))
        };
        let last = overview
            .incidents
            .iter()
            .filter(|i| i.end.is_none())
            .count();
        if last > 0 && matches!(ctx.snap.mode, Mode::Live { .. }) {
            s.push_str(&format!(" {dot} {} now", count(last)));
        } else if last > 0 {
            s.push_str(&format!(" {dot} {} to the end", count(last)));
        }
        if self.sort != Sort::Begin {
            s.push_str(&format!(" {dot} by {}", self.sort.name()));
        }
        if !overview.whole {
            let at = overview.upto.map_or_else(
                || "the session is being read".to_owned(),
                |u| format!("looked up to {} so far", ctx.time().dated(u, 0)),
            );
            s.push_str(&format!(" {dot} {at}"));
        }
        let (_, unknown) = overview.knowledge.unknown(ctx.snap.now.max(upto(ctx.snap)));
        if unknown > 0 {
            s.push_str(&format!(" {dot} {} unknown", duration(unknown)));
        }
        if overview.forgotten > 0 {
            s.push_str(&format!(
                " {dot} {} older forgotten",
                count(overview.forgotten)
            ));
        }
        s
    }
    fn commands(&self) -> &'static [Action] {
        &[
            Action::Open,
            Action::IncidentsSort,
            Action::NextIncident,
            Action::PreviousIncident,
            Action::PanePods,
        ]
    }
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        let same = |old: &Arc<Vec<Incident>>| Arc::ptr_eq(old, &snap.overview.incidents);
        let dirty = std::mem::take(&mut self.dirty);
        if !self.seen.as_ref().is_some_and(same) || self.sorted != self.sort || dirty {
            self.seen = Some(Arc::clone(&snap.overview.incidents));
            self.sorted = self.sort;
            self.order(snap);
            if let Some(id) = self.selected.clone() {
                self.find(snap, &id);
            }
        }
        let visited = shared.incident.as_ref().map(|(id, _)| id.clone());
        if visited != self.visited {
            self.visited.clone_from(&visited);
            if let Some(id) = visited {
                self.find(snap, &id);
            }
        }
        let time = shared.time(snap);
        let begins = snap.overview.incidents.iter();
        let wide = |i: &Incident| {
            let time = if time.is_far(i.begin) { 11 } else { 8 };
            time + u16::from(i.verdict.at_least)
        };
        self.begins = begins.map(wide).max().unwrap_or(8);
        let (list, _) = Self::heights(size.1);
        self.scroll.fit(self.rows.len(), usize::from(list));
        self.keep(snap);
    }
    fn handle(&mut self, command: &Command, snap: &Snapshot, shared: &mut Shared) -> Reply {
        if self.scroll.handle(command.action) {
            self.keep(snap);
            return Reply::Done;
        }
        match command.action {
            Action::Open | Action::Right => {
                let Some(i) = self.at(snap, self.scroll.at) else {
                    return Reply::Say("there is no incident to go to".to_owned());
                };
                let at = shared.visit(i, upto(snap));
                Reply::Visit(PaneId::Why, at)
            }
            Action::IncidentsSave => {
                let all: Vec<&Incident> = snap.overview.incidents.iter().collect();
                Reply::Write(Written {
                    about: "incidents".to_owned(),
                    ending: "txt",
                    text: text(&all, snap),
                })
            }
            Action::IncidentsSort => match Sort::parse(&command.arg) {
                Some(s) => {
                    self.sort = s;
                    // After a change of the order, the first row is selected.
                    self.selected = None;
                    self.scroll.at = 0;
                    Reply::Done
                }
                None if command.arg.is_empty() => Reply::Menu(self.sort_menu()),
                None => Reply::Say("sort by: begin, length, worst".to_owned()),
            },
            _ => Reply::Ignored,
        }
    }
    fn hidden(&self) -> Option<(usize, usize)> {
        Some(self.scroll.hidden())
    }
    fn filter(&self) -> Option<&str> {
        Some(&self.filter)
    }
    fn filter_hint(&self) -> Option<&'static str> {
        Some("words of the subject, the pods, the cause or the sentence: kf601 shop")
    }
    fn matches(&self) -> Option<usize> {
        Some(self.rows.len())
    }
    fn set_filter(&mut self, text: &str) -> Result<(), String> {
        self.filter = text.trim().to_lowercase();
        self.dirty = true;
        Ok(())
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let snap = ctx.snap;
        if self.rows.is_empty() {
            let (text, hint) = if snap.overview.incidents.is_empty() {
                nothing(ctx)
            } else {
                let none = "No incident matches the filter.";
                (none.to_owned(), "esc clears it.".to_owned())
            };
            return super::empty(ctx, canvas, &text, &hint);
        }
        let (w, t) = (canvas.width(), ctx.theme);
        let (list, below) = Self::heights(canvas.height());
        let axis = window(snap);
        let c = Columns::of(w, self.subjects, self.begins, axis.is_some());
        let sorted = |by: Sort| {
            if self.sort == by { t.head_on } else { t.head }
        };
        canvas.text(1, 0, "BEGIN", sorted(Sort::Begin));
        canvas.text_right(c.length + 7, 0, 7, "LENGTH", sorted(Sort::Length));
        canvas.text(c.cause, 0, "CAUSE", sorted(Sort::Worst));
        canvas.text_in(c.subject.0, 0, c.subject.1, "SUBJECT", t.head);
        if c.what.1 >= 10 {
            canvas.text(c.what.0, 0, "WHAT", t.head);
        }
        if let (Some((x, w)), Some((window, zero))) = (c.lanes, axis) {
            let shown = self.scroll.visible().len() as u16;
            let mut lanes = canvas.part(x, 0, w, HEAD + shown);
            ruler::draw(ctx, &mut lanes, window, zero, shown);
        }
        for (n, r) in self.scroll.visible().enumerate() {
            let y = HEAD + n as u16;
            if let Some(i) = self.at(snap, r) {
                row(ctx, canvas, &c, y, i);
            }
            if r == self.scroll.at {
                super::calls::select(ctx, canvas, y);
            }
        }
        if let (Some((x, w)), Some((window, _))) = (c.lanes, axis) {
            let shown = self.scroll.visible().len() as u16;
            let mut lanes = canvas.part(x, HEAD, w, shown);
            if let Some(x) = window.column(snap.now, w) {
                lanes.overlay_column(x, 0, shown, ctx.glyphs.cursor, t.cursor, ctx.glyphs.grid);
            }
        }
        self.scroll
            .draw(ctx, &mut canvas.part(0, 0, w, HEAD + list), HEAD);
        let shown = self.at(snap, self.scroll.at).filter(|_| below > 1);
        if let Some(i) = shown {
            let y = HEAD + list;
            canvas.line(0, y, w, ctx.glyphs.rule, t.rule);
            said(ctx, &mut canvas.part(0, y + 1, w, below - 1), i);
        }
    }
    fn click(&mut self, _x: u16, y: u16, snap: &Snapshot, _shared: &mut Shared) -> bool {
        let Some(row) = y.checked_sub(HEAD) else {
            return false;
        };
        let row = self.scroll.top + usize::from(row);
        if !self.scroll.visible().contains(&row) {
            return false;
        }
        self.scroll.at = row;
        self.keep(snap);
        true
    }
    fn copy(&self, snap: &Snapshot, _shared: &Shared) -> Option<String> {
        let i = self.at(snap, self.scroll.at)?;
        Some(text(&[i], snap))
    }
}

/// Draws the verdict of the selected incident below the list.
fn said(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, i: &Incident) {
    let t = ctx.theme;
    let v = &i.verdict;
    let (word, style) = stage::verdict(ctx, v.state);
    let x = canvas.spans(
        1,
        0,
        &[
            (v.cause_id(), *style),
            (" ", t.text),
            (word, *style),
            ("  ", t.text),
            (&subject(ctx, i), t.strong),
            ("  ", t.text),
        ],
    );
    let names = matches!(i.subject, Subject::Owner(_)) && i.pods() > 0;
    if names {
        let mut pods: Vec<&str> = i.parts.iter().map(|p| p.verdict.pod.as_str()).collect();
        pods.sort_unstable();
        pods.dedup();
        let room = canvas.width().saturating_sub(x + 1);
        canvas.text_in(x, 0, room, &pods.join(", "), t.dim);
    }
    let room = usize::from(canvas.width().saturating_sub(2));
    let rows = usize::from(canvas.height().saturating_sub(1));
    let mut lines = wrap(&v.sentence, room).into_iter();
    for y in 0..rows {
        let last = y + 1 == rows;
        let text = if last {
            lines.by_ref().collect::<Vec<_>>().join(" ")
        } else {
            lines.next().unwrap_or_default()
        };
        canvas.text_in(1, y as u16 + 1, room as u16, &text, t.text);
    }
}

/// Returns the sentence and hint for an empty list.
fn nothing(ctx: &Ctx<'_>) -> (String, String) {
    let snap = ctx.snap;
    let overview = &snap.overview;
    if !overview.whole {
        return (
            "Looking for what was ever wrong.".to_owned(),
            match overview.upto {
                Some(u) => format!("Nothing up to {} so far.", ctx.time().dated(u, 0)),
                None => "The session is being read.".to_owned(),
            },
        );
    }
    let (from, to) = match overview.knowledge.known() {
        Ok((from, to)) => (ctx.time().dated(from, 0), ctx.time().dated(to, 0)),
        Err(u) => {
            return (
                format!(
                    "Nothing that was wrong was seen. Unknown {}: {}.",
                    u.what, u.why
                ),
                crate::banner::advice(&u),
            );
        }
    };
    match snap.mode {
        Mode::Live { .. } => (
            format!("Nothing was wrong since {from}."),
            "What goes wrong is listed here, and stays when it is over.".to_owned(),
        ),
        Mode::Replay { .. } => {
            let key = ctx.keys.first(PaneId::Pods.action());
            (
                format!("Nothing was ever wrong between {from} and {to}."),
                format!("{key} shows the pods."),
            )
        }
    }
}

/// Returns true for a recording that was searched completely and is known to have no incident.
pub fn none_ever(snap: &Snapshot) -> bool {
    let overview = &snap.overview;
    matches!(snap.mode, Mode::Replay { .. })
        && overview.whole
        && overview.incidents.is_empty()
        && overview.knowledge.known().is_ok()
}
