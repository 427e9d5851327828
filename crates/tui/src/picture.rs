//! The whole life of one pod as a picture, for a ticket: what is wrong as of when, and a timeline on which the start, the
//! restarts and the back-offs can be read however long the life is.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::banner;
use super::canvas::Canvas;
use super::glyph::Glyphs;
use super::offscreen;
use super::svg;
use super::text::{width, wrap};
use super::theme::Theme;
use kflow_core::correlate::{Pod, PodView};
use kflow_core::diagnose::State;
use kflow_core::timeline::{Certainty, MarkKind, Outcome, Span, summary};
use kflow_engine::Snapshot;
use kflow_export::life::{self, Axis, Line};
use kflow_export::why;
use kflow_model::Nanos;
use kflow_model::units::{counted, date_and_clock, duration};

/// Columns of a picture, of the names, and of the lengths.
const WIDE: u16 = 160;
const NAMES: u16 = 44;
const LENGTHS: u16 = 18;
/// Columns of the chart.
const CHART: u16 = WIDE - NAMES - LENGTHS - 4;
/// Limit on the rows of the chart.
const TALL: usize = 1000;
/// Least distance of ticks, columns.
const TICKS: u16 = 9;

/// A line of text above the chart: pieces with their styles.
type Text = Vec<(String, Style)>;

/// Returns the picture as SVG, as high as its content; `None` for an unknown theme.
pub fn timeline(snap: &Snapshot, pod: &Pod, theme: &str) -> Option<String> {
    let look = offscreen::look(theme)?;
    let picture = Picture {
        theme: &look.theme,
        glyphs: look.glyphs,
        pod,
        now: snap.now,
    };
    let title = format!("kflow: timeline of {}", pod.key());
    Some(svg::render(&picture.draw(snap), &title))
}

struct Picture<'a> {
    theme: &'a Theme,
    glyphs: &'static Glyphs,
    pod: &'a PodView,
    now: Nanos,
}

impl Picture<'_> {
    fn draw(&self, snap: &Snapshot) -> Buffer {
        let t = self.theme;
        let axis = Axis::of(&self.pod.timeline, self.now);
        let mut rows = life::lines(&self.pod.timeline);
        let hidden = rows.len().saturating_sub(TALL);
        rows.truncate(TALL);
        let mut above = self.head(axis.as_ref());
        above.extend(self.verdict(snap));
        above.extend(self.unknown(snap));
        above.push(Text::new());
        let mut below = vec![Text::new()];
        match &axis {
            None => above.push(vec![(
                "Nothing has been seen of this pod yet.".to_owned(),
                t.dim,
            )]),
            Some(axis) => below.push(self.legend(axis)),
        }
        if hidden > 0 {
            let text = format!("{} more are not drawn", counted(hidden as u64, "row"));
            below.push(vec![(text, t.warn)]);
        }
        let folded = axis.as_ref().is_some_and(|a| a.folds().next().is_some());
        let head = if axis.is_some() {
            2 + u16::from(folded)
        } else {
            0
        };
        let tall = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        let top = tall(above.len());
        let height = top + head + tall(rows.len()) + tall(below.len());
        let mut buf = Buffer::empty(Rect::new(0, 0, WIDE, height));
        let mut canvas = Canvas::new(&mut buf, Rect::new(0, 0, WIDE, height));
        canvas.clear(t.text);
        let texts = (0..)
            .zip(above)
            .chain((top + head + tall(rows.len())..).zip(below));
        for (y, text) in texts {
            let pieces: Vec<(&str, Style)> = text.iter().map(|(s, st)| (s.as_str(), *st)).collect();
            canvas.spans(1, y, &pieces);
        }
        let Some(axis) = axis else { return buf };
        canvas.text(1, top, "STAGE  STEP", t.head);
        canvas.text_right(WIDE - 1, top, LENGTHS, "TIME", t.head);
        let marks = counted(self.pod.timeline.marks.len() as u64, "mark");
        canvas.text_in(1, top + head - 1, NAMES, &marks, t.faint);
        let grid = head + tall(rows.len());
        self.ruler(&mut canvas.part(NAMES + 2, top, CHART, grid), &axis, folded);
        self.marks(&mut canvas.part(NAMES + 2, top + head - 1, CHART, 1), &axis);
        for (y, line) in (top + head..).zip(&rows) {
            self.row(&mut canvas.part(0, y, WIDE, 1), line, &axis);
        }
        buf
    }
    /// The pod, how it is, and as of when.
    fn head(&self, axis: Option<&Axis>) -> Vec<Text> {
        let (t, p, dot) = (self.theme, self.pod, self.glyphs.dot);
        let mut how = format!("   {}/{} ready", p.ready.0, p.ready.1);
        if !p.status.is_empty() {
            how = format!("   {} {dot} {}", p.status, how.trim_start());
        }
        if p.restarts > 0 {
            let restarts = counted(u64::from(p.restarts), "restart");
            how.push_str(&format!(" {dot} {restarts}"));
        }
        if !p.node.is_empty() {
            how.push_str(&format!(" {dot} on {}", p.node));
        }
        let mut when = format!("as of {} UTC", date_and_clock(self.now, 0, 0));
        if let Some(axis) = axis {
            when.push_str(&format!(
                " {dot} {} from {}",
                duration(axis.length()),
                date_and_clock(axis.first, 3, 0)
            ));
        }
        if let Some((ns, _)) = p.start() {
            when.push_str(&format!(" {dot} Ready after {}", duration(ns)));
        }
        vec![
            vec![(p.key(), t.strong), (how, t.text)],
            vec![(when, t.dim)],
        ]
    }
    fn verdict(&self, snap: &Snapshot) -> Vec<Text> {
        let t = self.theme;
        let Some(v) = snap.verdicts.get(&self.pod.uid) else {
            return Vec::new();
        };
        let style = match v.state {
            s if s.is_well() => t.ok,
            State::Slow | State::Blocked => t.wait,
            _ => t.fail,
        };
        let mut what = why::standing(v, self.now);
        if v.cause.is_some() {
            what = format!("{} {} {} {what}", v.cause_id(), v.title, self.glyphs.dot);
        }
        let said = wrap(&v.sentence, usize::from(WIDE - 2)).into_iter();
        let mut all = vec![Text::new(), vec![(what, style)]];
        all.extend(said.map(|line| vec![(line, t.text)]));
        all
    }
    /// What kflow could not read.
    fn unknown(&self, snap: &Snapshot) -> Vec<Text> {
        let t = self.theme;
        let reasons = banner::reasons(snap).into_iter();
        let worst = reasons
            .filter(|r| r.weight == banner::Weight::Unknown)
            .take(1);
        let told = worst.flat_map(|r| {
            let text = format!("{}: {}{}; {}", r.badge, r.what, r.times(self.now), r.said);
            wrap(&text, usize::from(WIDE - 2))
        });
        told.map(|line| vec![(line, t.warn)]).collect()
    }
    fn legend(&self, axis: &Axis) -> Text {
        let (t, g) = (self.theme, self.glyphs);
        let mut signs = vec![
            (g.full, t.text, "measured"),
            (g.inferred, t.text, "concluded"),
            (g.bounded, t.text, "known within bounds"),
            (g.unknown, t.unknown, "nothing explains it"),
            (g.mark, t.source_kube, "event"),
            (g.bad_mark, t.fail, "something went wrong"),
        ];
        if axis.folds().next().is_some() {
            let what = "drawn shorter: nothing begins or ends";
            signs.push((g.dashed, t.dim, what));
        }
        let pieces = signs.into_iter().flat_map(|(sign, style, what)| {
            [(sign.to_owned(), style), (format!(" {what}   "), t.dim)]
        });
        pieces.collect()
    }
    /// Draws ticks with the grid below them and, in a row of their own, the lengths of folded times.
    fn ruler(&self, canvas: &mut Canvas<'_>, axis: &Axis, folded: bool) {
        let (t, g) = (self.theme, self.glyphs);
        let h = canvas.height();
        let mut free = 0;
        for (at, place) in axis.ticks(f64::from(TICKS) / f64::from(CHART)) {
            let x = column(place);
            let label = life::tick(at);
            let len = width(&label) as u16;
            let left = x.min(CHART.saturating_sub(len));
            if left >= free {
                canvas.text(left, 0, &label, t.dim);
                free = left + len + 1;
            }
            for y in 1 + u16::from(folded)..h {
                canvas.symbol(x, y, g.grid, t.rule);
            }
        }
        for p in axis.folds() {
            let (a, z) = (column(p.x), column(p.x + p.width));
            let wide = z.saturating_sub(a);
            canvas.line(a, 1, wide, g.dashed, t.faint);
            let length = duration(p.to - p.from);
            let labels = [format!(" {length} "), format!("{length} ")];
            let fits = |l: &&String| width(l) as u16 <= wide;
            if let Some(label) = labels.iter().find(fits) {
                let len = width(label) as u16;
                canvas.text(a + (wide - len) / 2, 1, label, t.dim);
            }
        }
    }
    /// Draws the row of marks. In the same cell, a bad mark hides others.
    fn marks(&self, canvas: &mut Canvas<'_>, axis: &Axis) {
        let (t, g) = (self.theme, self.glyphs);
        for bad in [false, true] {
            let marks = self.pod.timeline.marks.iter();
            for m in marks.filter(|m| m.bad == bad && m.kind != MarkKind::Due) {
                let (symbol, style) = match m.kind {
                    MarkKind::Note => (g.mark, t.delta),
                    _ if bad => (g.bad_mark, t.fail),
                    MarkKind::Restart => (g.mark, t.warn),
                    MarkKind::Event => (g.mark, t.source_kube),
                    _ => (g.dot, t.dim),
                };
                canvas.symbol(column(axis.place(m.at.at)), 0, symbol, style);
            }
        }
    }
    fn row(&self, canvas: &mut Canvas<'_>, line: &Line, axis: &Axis) {
        let t = self.theme;
        let timeline = &self.pod.timeline;
        self.name(&mut canvas.part(0, 0, NAMES + 1, 1), line);
        let lane = &mut canvas.part(NAMES + 2, 0, CHART, 1);
        for s in line.spans(timeline) {
            if s.is_stage() {
                self.stage(lane, s, axis);
            } else {
                self.bar(lane, s, line, axis);
            }
        }
        let took = life::lengths(timeline, line, self.now);
        let style = match line.outcome(timeline) {
            Outcome::InFlight if line.spans(timeline).all(|s| !s.is_run()) => t.run,
            _ => t.dim,
        };
        canvas.text_right(WIDE - 1, 0, LENGTHS, &took, style);
    }
    fn name(&self, canvas: &mut Canvas<'_>, line: &Line) {
        let t = self.theme;
        let timeline = &self.pod.timeline;
        let Some(s) = line.spans(timeline).next() else {
            return;
        };
        let outcome = line.outcome(timeline);
        let style = match outcome {
            Outcome::Error if !s.is_stage() => t.fail,
            Outcome::InFlight if !s.is_run() => t.run,
            _ if s.is_stage() => t.stage(s.stage),
            _ => t.text,
        };
        let mut x = 1 + line.depth.saturating_mul(2);
        x += canvas.text(x, 0, &s.step, style) + 1;
        if !s.container.is_empty() {
            x += canvas.text(x, 0, &s.container, t.accent) + 1;
        }
        if line.spans.len() > 1 {
            let times = format!("{}{}", self.glyphs.times, line.spans.len());
            x += canvas.text(x, 0, &times, t.warn) + 1;
        }
        if s.is_stage() {
            return;
        }
        // How the newest attempt failed, or what the step was about.
        let failed = line.spans(timeline).filter(|s| s.outcome == Outcome::Error);
        if let Some(s) = failed.last() {
            let code = if s.is_run() { "exit " } else { "" };
            canvas.text(x, 0, &format!("{code}{} {}", s.code, s.message), t.fail);
        } else if !s.message.is_empty() && s.message.len() <= 64 && line.spans.len() == 1 {
            let what = s.message.strip_prefix("volume ").unwrap_or(&s.message);
            canvas.text(x, 0, what, t.dim);
        }
    }
    /// Draws the intervals in which a stage worked, and hatches what nothing explains.
    fn stage(&self, canvas: &mut Canvas<'_>, s: &Span, axis: &Axis) {
        let (t, g) = (self.theme, self.glyphs);
        let timeline = &self.pod.timeline;
        let open = s.end.is_none();
        let work = summary::work(timeline, s, self.now);
        for (n, (from, to)) in work.iter().enumerate() {
            let style = match (open && n + 1 == work.len(), s.outcome) {
                (true, Outcome::InFlight) => t.run,
                _ => t.stage(s.stage),
            };
            let goes_on = open && *to >= self.now;
            self.lane(canvas, axis, (*from, *to), (g.thin, style), goes_on);
        }
        for gap in timeline.gaps.iter().filter(|gap| gap.stage == s.stage) {
            let a = column(axis.place(gap.start));
            let z = column(axis.place(gap.end.unwrap_or(self.now)));
            canvas.line(a, 0, (z - a).max(1), g.unknown, t.unknown);
        }
    }
    /// Draws an attempt of a step, with its length if there are others and there is room.
    fn bar(&self, canvas: &mut Canvas<'_>, s: &Span, line: &Line, axis: &Axis) {
        let (t, g) = (self.theme, self.glyphs);
        let style = match s.outcome {
            Outcome::Error => t.fail,
            Outcome::Cancelled => t.wait,
            // A back-off is a wait, and not work of its stage.
            _ if s.step.ends_with("BackOff") => t.wait,
            Outcome::InFlight if !s.is_run() => t.run,
            _ => t.stage(s.stage),
        };
        let fill = match s.certainty {
            _ if line.children => g.thin,
            Certainty::Measured => g.full,
            Certainty::Inferred => g.inferred,
            Certainty::Bounded => g.bounded,
        };
        let end = s.end.map_or(self.now, |e| e.at).max(s.start.at);
        let interval = (s.start.at, end);
        let (from, wide) = self.lane(canvas, axis, interval, (fill, style), s.end.is_none());
        let label = format!(" {} ", duration(s.duration(self.now)));
        let len = width(&label) as u16;
        if line.spans.len() > 1 && !line.children && wide >= len + 2 {
            canvas.text(from + (wide - len) / 2, 0, &label, style);
        }
    }
    /// Draws an interval; returns its first column and how many it fills.
    fn lane(
        &self,
        canvas: &mut Canvas<'_>,
        axis: &Axis,
        (from, to): (Nanos, Nanos),
        (fill, style): (&str, Style),
        goes_on: bool,
    ) -> (u16, u16) {
        let g = self.glyphs;
        let place = |at| axis.place(at) * f64::from(CHART);
        let (a, z) = (place(from), place(to));
        if z - a < 0.5 {
            let symbol = if goes_on { g.growing } else { g.tick };
            canvas.symbol(column(axis.place(from)), 0, symbol, style);
            return (column(axis.place(from)), 0);
        }
        let (first, last) = (a as u16, z as u16);
        canvas.line(first, 0, last.saturating_sub(first), fill, style);
        let cap = g.eighth(((z - f64::from(last)) * 8.0) as usize);
        if goes_on {
            canvas.symbol(last.min(CHART - 1), 0, g.growing, style);
        } else if !cap.is_empty() && fill == g.full {
            canvas.symbol(last, 0, cap, style);
        }
        (first, last.saturating_sub(first))
    }
}

/// Returns the column of the chart for a place of the axis.
fn column(place: f64) -> u16 {
    ((place * f64::from(CHART)) as u16).min(CHART - 1)
}
