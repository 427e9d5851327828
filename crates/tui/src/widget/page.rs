//! A page of lines in one or two columns that scrolls. Lines that lead somewhere are rows that can be selected.

use std::sync::LazyLock;

use ratatui::style::Style;

use crate::action::Action;
use crate::canvas::Canvas;
use crate::glyph::Glyphs;
use crate::keys::Keymap;
use crate::pane::PaneId;
use crate::shared::{Ctx, Shared};
use crate::text::{count, cut, width, wrap};
use crate::theme::Theme;
use kflow_core::diagnose::awaited::Awaited;
use kflow_core::diagnose::pulls::{Fate, Progress};
use kflow_engine::Snapshot;
use kflow_model::cri::CallKey;
use kflow_model::{Evidence, Nanos, ObjectRef, Text};

/// The target of a line: what opening it shows or does.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Lead {
    /// The line cannot be selected.
    #[default]
    None,
    /// The line belongs to the row above it.
    Above,
    /// The verdict on an owner or a node.
    Verdict(ObjectRef),
    Call(CallKey),
    /// A pod, by its UID or `namespace/name`, in a pane.
    Pod(Text, PaneId),
    /// An observation, in the log.
    Evidence(Evidence),
    /// All observations around a moment.
    Moment(Nanos),
    /// A pane with a filter.
    List(PaneId, String),
    /// What the selected pod waits for.
    Awaited(Awaited),
    /// A text for the clipboard.
    Copy(String),
    /// There is no target, for this reason.
    Say(&'static str),
    /// Opens or closes a part of the page.
    Fold,
}

#[derive(Clone, Debug, Default)]
pub struct Line {
    pieces: Vec<(String, Style)>,
    lead: Lead,
}

impl Line {
    pub fn push(&mut self, text: impl Into<String>, style: Style) {
        self.pieces.push((text.into(), style));
    }
    /// Returns the line with a target, so that it can be selected.
    #[must_use]
    pub fn to(mut self, lead: Lead) -> Self {
        self.lead = lead;
        self
    }
    pub fn width(&self) -> usize {
        self.pieces.iter().map(|(t, _)| width(t)).sum()
    }
    pub const fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

pub fn line(pieces: &[(&str, Style)]) -> Line {
    Line {
        pieces: pieces.iter().map(|(t, s)| ((*t).to_owned(), *s)).collect(),
        lead: Lead::None,
    }
}

/// Adds a line whose last piece is wrapped at `w` columns and continues below its own beginning.
pub fn wrapped(start: Line, text: &str, style: Style, w: usize, out: &mut Vec<Line>) {
    let indent = start.width();
    let mut parts = wrap(text, w.saturating_sub(indent).max(8)).into_iter();
    let rest = if start.lead == Lead::None {
        Lead::None
    } else {
        Lead::Above
    };
    let mut first = start;
    first.push(parts.next().unwrap_or_default(), style);
    out.push(first);
    out.extend(parts.map(|part| {
        let mut l = Line::default().to(rest.clone());
        l.push(" ".repeat(indent), style);
        l.push(part, style);
        l
    }));
}

pub fn head(ctx: &Ctx<'_>, title: &str) -> Line {
    line(&[(title, ctx.theme.head)])
}

/// Returns a heading with a remark.
pub fn heading(ctx: &Ctx<'_>, title: &str, about: &str) -> Line {
    line(&[
        (title, ctx.theme.head),
        ("  ", ctx.theme.text),
        (about, ctx.theme.faint),
    ])
}

/// Pads or cuts a text to `w` columns, aligned left.
pub fn column(t: &str, w: usize) -> String {
    let c = cut(t, w);
    let pad = w.saturating_sub(width(&c));
    format!("{c}{}", " ".repeat(pad))
}

/// Pads or cuts a text to `w` columns, aligned right.
pub fn right(t: &str, w: usize) -> String {
    let c = cut(t, w);
    format!("{}{c}", " ".repeat(w.saturating_sub(width(&c))))
}

/// Adds the first `most` items, one line each, and a line with the number of the others.
pub fn list<T>(
    ctx: &Ctx<'_>,
    items: impl IntoIterator<Item = T>,
    most: usize,
    out: &mut Vec<Line>,
    mut draw: impl FnMut(T) -> Line,
) {
    lists(ctx, items, most, out, |item, out| out.push(draw(item)));
}

/// Like [`list`], for items that may have several lines each.
pub fn lists<T>(
    ctx: &Ctx<'_>,
    items: impl IntoIterator<Item = T>,
    most: usize,
    out: &mut Vec<Line>,
    mut draw: impl FnMut(T, &mut Vec<Line>),
) {
    let mut items = items.into_iter();
    for item in items.by_ref().take(most) {
        draw(item, out);
    }
    let more = items.count();
    if more > 0 {
        let text = format!("  {} {} more", ctx.glyphs.down, count(more));
        out.push(line(&[(&text, ctx.theme.faint)]));
    }
}

/// Adds the layers of an image pull that are being fetched.
pub fn layers(ctx: &Ctx<'_>, p: &Progress, indent: usize, out: &mut Vec<Line>) {
    let t = ctx.theme;
    for (layer, number, text) in p.fetching(ctx.snap.now) {
        let style = match layer.fate {
            Fate::Still(_) => t.fail,
            _ => t.run,
        };
        let number = format!("{:indent$}layer {number}  ", "");
        out.push(line(&[(&number, t.dim), (&text, style)]));
    }
}

/// Returns a sparkline with one column per count; the highest count has full height.
pub fn spark(g: &Glyphs, series: &[u64]) -> String {
    let top = series.iter().copied().max().unwrap_or(0).max(1);
    series
        .iter()
        .map(|n| g.level((*n * 8).div_ceil(top) as usize))
        .collect()
}

/// Lays pieces into lines of at most `w` columns. Pieces are not broken, and are two spaces apart.
pub fn flow(ctx: &Ctx<'_>, pieces: Vec<Line>, w: u16, out: &mut Vec<Line>) {
    let mut now = Line::default();
    let mut used = 0;
    for p in pieces {
        let long: usize = p.pieces.iter().map(|(t, _)| width(t)).sum();
        if used > 0 && used + 2 + long > usize::from(w) {
            out.push(std::mem::take(&mut now));
            used = 0;
        }
        if used > 0 {
            now.push("  ", ctx.theme.text);
            used += 2;
        }
        used += long;
        now.pieces.extend(p.pieces);
        if now.lead == Lead::None {
            now.lead = p.lead;
        }
    }
    if !now.pieces.is_empty() {
        out.push(now);
    }
}

/// Adds an empty line, unless the page is empty or ends with one.
pub fn gap(out: &mut Vec<Line>) {
    if out.last().is_some_and(|l| !l.pieces.is_empty()) {
        out.push(Line::default());
    }
}

/// Returns a context without a theme, which suffices to lay out lines: styles change neither the number of lines nor
/// their targets.
pub fn unstyled<'a>(snap: &'a Snapshot, shared: &'a Shared) -> Ctx<'a> {
    static LOOK: LazyLock<(Theme, Keymap)> = LazyLock::new(Default::default);
    let (theme, keys) = &*LOOK;
    Ctx {
        snap,
        shared,
        theme,
        glyphs: Glyphs::new(true),
        keys,
        focused: true,
    }
}

/// The lines of each column, and the width of the first one, including its column for the cursor.
#[derive(Debug, Default)]
pub struct Columns {
    pub lines: [Vec<Line>; 2],
    pub left: u16,
}

impl Columns {
    /// Returns a page of one column.
    pub const fn one(lines: Vec<Line>) -> Self {
        Self {
            lines: [lines, Vec::new()],
            left: u16::MAX,
        }
    }
    fn height(&self) -> usize {
        self.lines.iter().map(Vec::len).max().unwrap_or(0)
    }
    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for (column, lines) in self.lines.iter().enumerate() {
            for (line, l) in lines.iter().enumerate() {
                match (&l.lead, rows.last_mut()) {
                    (Lead::None, _) | (Lead::Above, None) => {}
                    (Lead::Above, Some(row)) => row.lines += 1,
                    (lead, _) => rows.push(Row {
                        column,
                        line,
                        lines: 1,
                        lead: lead.clone(),
                    }),
                }
            }
        }
        rows
    }
}

/// Lines that are selected together.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    column: usize,
    /// Index of the first of the lines.
    line: usize,
    lines: usize,
    lead: Lead,
}

/// The scroll position and the selection of a page.
#[derive(Debug, Default)]
pub struct Page {
    /// First visible line.
    top: usize,
    /// Index of the selected row.
    at: usize,
    /// Target of the row that the user selected, by which the row is found again when the lines change.
    chosen: Option<Lead>,
    rows: Vec<Row>,
    /// Number of lines of the longest column, and height of the pane.
    extent: (usize, usize),
    left: u16,
}

impl Page {
    /// Takes the current lines and the height of the pane; keeps the selection.
    pub fn fit(&mut self, columns: &Columns, height: u16) {
        self.rows = columns.rows();
        self.extent = (columns.height(), usize::from(height));
        self.left = columns.left;
        self.top = self.top.min(self.last_top());
        let same = |r: &Row| self.chosen.as_ref() == Some(&r.lead);
        self.at = match self.rows.iter().position(same) {
            Some(n) => n,
            None => self.at.min(self.rows.len().saturating_sub(1)),
        };
    }
    const fn last_top(&self) -> usize {
        self.extent.0.saturating_sub(self.extent.1)
    }
    /// Returns the target of the selected row.
    pub fn lead(&self) -> Option<&Lead> {
        self.rows.get(self.at).map(|r| &r.lead)
    }
    /// Moves the selection; returns false if the action is not a movement.
    pub fn handle(&mut self, action: Action) -> bool {
        let page = self.extent.1.saturating_sub(2).max(2);
        let column = self.rows.get(self.at).map_or(0, |r| r.column);
        match action {
            Action::Down => self.step(true, 1),
            Action::Up => self.step(false, 1),
            Action::PageDown => self.step(true, page),
            Action::PageUp => self.step(false, page),
            Action::Top => {
                self.select(self.first_of(column));
                self.top = 0;
            }
            Action::Bottom => {
                self.select(self.last_of(column));
                self.top = self.last_top();
            }
            Action::Left => self.aside(0),
            Action::Right => self.aside(1),
            _ => return false,
        }
        true
    }
    /// Selects a row and scrolls it onto the screen.
    fn select(&mut self, n: usize) {
        let Some(row) = self.rows.get(n) else {
            return;
        };
        self.at = n;
        self.chosen = Some(row.lead.clone());
        let (line, end) = (row.line, row.line + row.lines);
        // Lines above the first row cannot be selected, so selecting the first row scrolls to the top.
        let first = self.rows.iter().all(|r| r.line >= line);
        let least = (end + 1).min(self.extent.0).saturating_sub(self.extent.1);
        let most = if first { 0 } else { line.saturating_sub(1) };
        self.top = self.top.max(least).min(most.max(least.min(line)));
    }
    /// Moves to a row of the same column that is at least `by` lines away; scrolls if there is none.
    fn step(&mut self, down: bool, by: usize) {
        let Some(here) = self.rows.get(self.at).cloned() else {
            self.scroll(down, by);
            return;
        };
        let column = self.rows.iter().enumerate();
        let column = column.filter(|(_, r)| r.column == here.column);
        let next = if down {
            let after = column.filter(|(_, r)| r.line >= here.line + by);
            after.min_by_key(|(_, r)| r.line)
        } else {
            let before = column.filter(|(_, r)| r.line + by <= here.line);
            before.max_by_key(|(_, r)| r.line)
        };
        match next.map(|(n, _)| n) {
            // Two rows may be more than a screen apart; then the page scrolls by lines.
            Some(n) if by > 1 || self.is_near(n) => self.select(n),
            Some(_) => self.scroll(down, 1),
            None => {
                if by > 1 {
                    self.select(if down {
                        self.last_of(here.column)
                    } else {
                        self.first_of(here.column)
                    });
                }
                self.scroll(down, by);
            }
        }
    }
    /// Returns true if a row is visible or would be after scrolling by one line, or if the selected row is not visible.
    fn is_near(&self, n: usize) -> bool {
        let shown = self.top.saturating_sub(1)..self.top + self.extent.1 + 1;
        self.rows.get(n).is_some_and(|r| shown.contains(&r.line))
            || !self
                .rows
                .get(self.at)
                .is_some_and(|r| shown.contains(&r.line))
    }
    fn scroll(&mut self, down: bool, by: usize) {
        self.top = if down {
            (self.top + by).min(self.last_top())
        } else {
            self.top.saturating_sub(by)
        };
    }
    fn first_of(&self, column: usize) -> usize {
        let found = self.rows.iter().position(|r| r.column == column);
        found.unwrap_or(0)
    }
    fn last_of(&self, column: usize) -> usize {
        let found = self.rows.iter().rposition(|r| r.column == column);
        found.unwrap_or(0)
    }
    /// Selects the row of the other column that is nearest in height.
    fn aside(&mut self, column: usize) {
        let here = self.rows.get(self.at).map_or(0, |r| r.line);
        let of_it = self.rows.iter().enumerate();
        let of_it = of_it.filter(|(_, r)| r.column == column);
        let nearest = of_it.min_by_key(|(_, r)| r.line.abs_diff(here));
        if let Some(n) = nearest.map(|(n, _)| n) {
            self.select(n);
        }
    }
    /// Selects the row at a place in the pane; returns false if there is none.
    pub fn click(&mut self, x: u16, y: u16) -> bool {
        let line = self.top + usize::from(y);
        let column = usize::from(x > self.left);
        let here = |r: &Row| r.column == column && (r.line..r.line + r.lines).contains(&line);
        let found = self.rows.iter().position(here);
        if let Some(n) = found {
            self.select(n);
        }
        found.is_some()
    }
    /// Draws the columns; each has a column for the cursor at its left.
    pub fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, columns: &Columns) {
        let (w, h) = (canvas.width(), canvas.height());
        let longest = columns.height();
        let top = self.top.min(longest.saturating_sub(usize::from(h)));
        let left = columns.left.min(w);
        let [a, b] = &columns.lines;
        self.draw_column(ctx, &mut canvas.part(0, 0, left, h), a, (0, top));
        if !b.is_empty() {
            canvas.column(left + 1, 0, h, ctx.glyphs.wall, ctx.theme.rule);
            let x = left + 2;
            let mut part = canvas.part(x, 0, w.saturating_sub(x), h);
            self.draw_column(ctx, &mut part, b, (1, top));
        }
    }
    /// Returns the number of lines above and below the visible ones. The pane's rule shows them: a marker among the
    /// lines would cover their ends.
    pub fn hidden(&self) -> (usize, usize) {
        let top = self.top.min(self.last_top());
        (top, self.last_top() - top)
    }
    fn draw_column(
        &self,
        ctx: &Ctx<'_>,
        canvas: &mut Canvas<'_>,
        lines: &[Line],
        (column, top): (usize, usize),
    ) {
        let selected = self.rows.get(self.at).filter(|r| r.column == column);
        let shown = lines.iter().enumerate().skip(top);
        for (y, (n, l)) in (0..canvas.height()).zip(shown) {
            let mut x = 1;
            for (text, style) in &l.pieces {
                x += canvas.text(x, y, text, *style);
            }
            if selected.is_some_and(|r| (r.line..r.line + r.lines).contains(&n)) {
                crate::pane::calls::select(ctx, canvas, y);
            }
        }
    }
}
