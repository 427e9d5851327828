//! A pod as a row, the columns, and the text below the list.

use super::lanes;
use super::order::{self, Sort, Widths};
use crate::canvas::Canvas;
use crate::shared::Ctx;
use crate::text::{cut_middle, width, wrap};
use crate::widget::stage;
use crate::widget::table::{self, Column, Placed};
use kflow_core::correlate::PodView;
use kflow_core::correlate::owners::{makes_pods, word as owner_word};
use kflow_core::diagnose::unknown;
use kflow_core::diagnose::{State, Verdict};
use kflow_export::text::clean;
use kflow_model::pod::PodPhase;
use kflow_model::stamp::SECOND;
use kflow_model::units::{age, counted};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Col {
    Namespace,
    Name,
    Ready,
    Status,
    Stages,
    Since,
    Start,
    Restarts,
    Age,
    Node,
    Verdict,
    /// A label: the entry of the configuration's columns with this index.
    Label(u8),
}

/// A column that the configuration asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen(Which);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    Known(Col),
    /// The value of a label of the pod, by its key.
    Label(String),
}

impl Chosen {
    /// Parses `name`, `status`, `in` or `label:app`; the error names the known columns.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(key) = text.strip_prefix("label:").filter(|k| !k.is_empty()) {
            return Ok(Self(Which::Label(key.to_owned())));
        }
        let known = NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, c)| Self(Which::Known(*c))).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            format!("\"{text}\" is none of {}, label:KEY", names.join(", "))
        })
    }
    /// Returns the names of the columns that are shown by default.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }
}

/// The columns with their names in the configuration.
const NAMES: [(&str, Col); 11] = [
    ("namespace", Col::Namespace),
    ("name", Col::Name),
    ("ready", Col::Ready),
    ("status", Col::Status),
    ("stages", Col::Stages),
    ("in", Col::Since),
    ("start", Col::Start),
    ("restarts", Col::Restarts),
    ("age", Col::Age),
    ("node", Col::Node),
    ("why", Col::Verdict),
];

/// In a narrow pane, name, status and verdict stay longest, because they say where to look; then the namespace, then
/// the stages. What is dropped next gives way to whole names.
const COLUMNS: [Column<'static, Col>; 11] = [
    Column::new(Col::Namespace, "NAMESPACE", 8, 20, 1).short("NS"),
    Column::new(Col::Name, "NAME", LEAST_NAME, 63, 0),
    Column::new(Col::Ready, "READY", 5, 5, 4).right(),
    Column::new(Col::Status, "STATUS", 12, 40, 0),
    Column::new(Col::Stages, "STAGES", 11, 11, STAGES),
    Column::new(Col::Since, "IN", 6, 6, 3).right(),
    Column::new(Col::Start, "START", 6, 7, 6).right(),
    Column::new(Col::Restarts, "RST", 3, 4, 5).right(),
    Column::new(Col::Age, "AGE", 6, 6, 7).right(),
    Column::new(Col::Node, "NODE", 8, 40, 8),
    Column::new(Col::Verdict, "WHY", WHY, 400, 0),
];

/// Least width of the names, as long as the others leave so much.
const LEAST_NAME: u16 = 16;
/// Greatest width that the namespaces get before other columns are shown, that of `default`, and their least one beside
/// a long status.
const NAMESPACE: (u16, u16) = (7, 3);
/// Width of a cause's id.
const WHY: u16 = 5;
/// Rank of the stages.
const STAGES: u8 = 2;

/// Statuses that the columns are chosen for: `ContainerCreating`, which every start has, and
/// `CreateContainerConfigError`, the longest one but for those of init containers.
const STATUSES: (u16, u16) = (17, 26);

/// Returns the widths of name and status that must fit before the columns of this rank are shown; `status` is the width of
/// the widest status. Statuses change every second. So that columns do not come and go with them, only two widths of a
/// status count, and the columns change at most once, because the widths of a list only grow.
const fn budget(rank: u8, status: u16) -> (u16, u16) {
    let status = if status > STATUSES.0 {
        STATUSES.1
    } else {
        STATUSES.0
    };
    match rank {
        0 | 1 => (LEAST_NAME, STATUSES.0),
        STAGES => (23, status),
        3 => (36, status),
        _ => (40, status),
    }
}

/// Returns the column whose heading shows the order; `None` for trouble, which depends on several
/// columns, and for stages.
pub(super) const fn sorted_by(sort: Sort) -> Option<Col> {
    Some(match sort {
        Sort::Trouble | Sort::Took(_) => return None,
        Sort::Start => Col::Start,
        Sort::Name => Col::Name,
        Sort::Namespace => Col::Namespace,
        Sort::Age => Col::Age,
        Sort::Status => Col::Status,
        Sort::Restarts => Col::Restarts,
        Sort::Since => Col::Since,
        Sort::Ready => Col::Ready,
        Sort::Node => Col::Node,
        Sort::Verdict => Col::Verdict,
    })
}

/// Returns the order that a click on the heading of a column chooses; `None` for a label.
pub(super) const fn sorting(column: Col) -> Option<Sort> {
    Some(match column {
        Col::Label(_) => return None,
        Col::Namespace => Sort::Namespace,
        Col::Name => Sort::Name,
        Col::Ready => Sort::Ready,
        Col::Status => Sort::Status,
        Col::Stages => Sort::Trouble,
        Col::Since => Sort::Since,
        Col::Start => Sort::Start,
        Col::Restarts => Sort::Restarts,
        Col::Age => Sort::Age,
        Col::Node => Sort::Node,
        Col::Verdict => Sort::Verdict,
    })
}

/// Least and greatest width of a label's value, in columns.
const LABEL: (u16, u16) = (8, 24);

/// Returns the columns that fit: of all columns, or of the chosen ones, of which the last is dropped first. They depend on
/// the width of the pane, the longest name and namespace, and whether a status was long, and on no other cell.
pub(super) fn columns(width: u16, cells: Widths, chosen: &[Chosen]) -> Vec<Placed<'_, Col>> {
    // One column for the mark at the left, one for the scroll bar at the right, and a space.
    let width = width.saturating_sub(3);
    let of_chosen = (0..).zip(chosen).filter_map(|(n, Chosen(which))| {
        let column = match which {
            Which::Known(id) => COLUMNS.iter().find(|c| c.id == *id).copied()?,
            Which::Label(key) => Column::new(Col::Label(n), key, LABEL.0, LABEL.1, n),
        };
        // The name identifies the row, so it is dropped last.
        let rank = if column.id == Col::Name { 0 } else { n + 1 };
        Some(Column { rank, ..column })
    });
    let mut columns: Vec<Column<'_, Col>> = if chosen.is_empty() {
        COLUMNS.to_vec()
    } else {
        of_chosen.collect()
    };
    if !columns.iter().any(|c| c.id == Col::Name) {
        columns.extend(COLUMNS.iter().find(|c| c.id == Col::Name));
    }
    let has = |id: Col, of: &[Column<'_, Col>]| of.iter().any(|c| c.id == id);
    // Without a column of its own, the namespace stands before the name.
    let before = if has(Col::Namespace, &columns) {
        0
    } else {
        cells.namespace.saturating_add(1)
    };
    let names = cells.name.saturating_add(before);
    let need = |rank: u8| -> u16 {
        let of = if chosen.is_empty() { rank } else { STAGES };
        let (name, status) = budget(of, cells.status);
        let shown = columns.iter().filter(|c| c.rank <= rank);
        let widths = shown.map(|c| match c.id {
            Col::Namespace => cells.namespace.clamp(NAMESPACE.1, NAMESPACE.0),
            Col::Name => names.clamp(LEAST_NAME, name),
            Col::Status => status,
            _ => c.min,
        });
        widths.map(|w| w + 1).sum::<u16>().saturating_sub(1)
    };
    let last = columns.iter().map(|c| c.rank).max().unwrap_or(0);
    let rank = (1..=last).take_while(|r| need(*r) <= width).last();
    columns.retain(|c| c.rank <= rank.unwrap_or(0));
    share(&mut columns, cells, names, width);
    table::place(&columns, width)
}

/// Sets least and greatest widths so that statuses and names are whole where there is room: a status that is cut could
/// be read as another one, and the verdict does not always explain it.
fn share(columns: &mut [Column<'_, Col>], cells: Widths, names: u16, room: u16) {
    let heading = |t: &str| u16::try_from(width(t)).unwrap_or(u16::MAX);
    for c in columns.iter_mut() {
        let (content, least) = match c.id {
            Col::Namespace => (cells.namespace, NAMESPACE.0),
            Col::Status => {
                let rest = room.saturating_sub(LEAST_NAME + WHY + 2);
                (cells.status, rest.max(c.min))
            }
            Col::Node => (cells.node, c.min),
            Col::Verdict => (cells.why, c.min),
            Col::Name => (names, 0),
            _ => (c.max, c.min),
        };
        c.rank = 0;
        c.min = content.max(heading(c.short)).min(least);
        c.max = c.max.min(content.max(heading(c.title))).max(c.min);
    }
    let gaps = u16::try_from(columns.len()).unwrap_or(0).saturating_sub(1);
    let others: u16 = columns.iter().map(|c| c.min).sum::<u16>() + gaps;
    let mut rest = room.saturating_sub(others);
    // A long status leaves little: then namespaces are cut before names.
    let short = LEAST_NAME.min(names).saturating_sub(rest);
    if let Some(c) = columns.iter_mut().find(|c| c.id == Col::Namespace) {
        let given = short.min(c.min.saturating_sub(NAMESPACE.1));
        c.min -= given;
        rest += given;
    }
    if let Some(c) = columns.iter_mut().find(|c| c.id == Col::Name) {
        c.min = c.max.min(rest);
    }
}

/// Draws the verdict: its cause, and the sentence if it fits whole, or else the title.
fn why(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, (x, y, w): (u16, u16, u16), v: &Verdict) {
    let (word, style) = stage::verdict(ctx, v.state);
    let mut used = canvas.text_in(x, y, w, v.cause_id(), *style);
    // For a pod that is up at this moment or has recovered, the state matters more than the cause.
    if matches!(
        v.state,
        State::CrashLooping | State::Flapping | State::Recovered
    ) {
        let up = v.recurrence.and_then(|r| r.up);
        let text = match up {
            Some(up) => format!("{word}, up {}", age(ctx.snap.now.since(up))),
            None => word.to_owned(),
        };
        used += u16::from(used > 0);
        used += canvas.text_in(x + used, y, w.saturating_sub(used), &text, *style);
    }
    let room = w.saturating_sub(used + 1);
    let fits = |t: &str| width(t) <= usize::from(room);
    let text = if v.state == State::Recovered {
        ""
    } else if fits(&v.sentence) {
        v.sentence.as_str()
    } else {
        &v.title
    };
    // A title that is cut to a few letters is of no use.
    if fits(text) || room >= 12 {
        canvas.text_in(x + used + 1, y, room, text, ctx.theme.dim);
    }
}

/// Says how many pods there are of an owner that has a verdict of its own. An object that makes none has those that it is about: a
/// claim those that mount it.
fn pods_of(ctx: &Ctx<'_>, v: &Verdict) -> String {
    let Some(owner) = &v.owner else {
        return String::new();
    };
    if owner.kind == "Node" {
        return "node".to_owned();
    }
    let pods = kflow_core::diagnose::pods_of(&ctx.snap.world, owner);
    let there = pods.iter().filter(|p| p.gone.is_none() && !p.past).count();
    match there {
        0 if v.state == State::Failed || !pods.is_empty() => "no pod left".to_owned(),
        0 if !makes_pods(&owner_word(&owner.kind)) => "no pod".to_owned(),
        0 => "no pod yet".to_owned(),
        n => counted(n as u64, "pod"),
    }
}

/// Draws the row of an owner that has a verdict of its own.
pub(super) fn owner(
    ctx: &Ctx<'_>,
    canvas: &mut Canvas<'_>,
    columns: &[Placed<'_, Col>],
    y: u16,
    v: &Verdict,
) {
    let t = ctx.theme;
    let (word, style) = stage::verdict(ctx, v.state);
    for c in columns {
        let (x, w, end) = (c.x + 2, c.w, c.x + 2 + c.w);
        match c.column.id {
            Col::Namespace => {
                canvas.text_in(x, y, w, &v.namespace, t.dim);
            }
            Col::Name => {
                let name = order::owner_name(v);
                canvas.text_in(x, y, w, &cut_middle(&name, usize::from(w)), t.strong);
            }
            Col::Status => {
                canvas.text_in(x, y, w, word, *style);
            }
            Col::Stages => {
                canvas.text_in(x, y, w, &pods_of(ctx, v), t.faint);
            }
            Col::Since => {
                canvas.text_right(end, y, w, &age(ctx.snap.now.since(v.since)), *style);
            }
            Col::Verdict => why(ctx, canvas, (x, y, w), v),
            Col::Ready | Col::Start | Col::Restarts | Col::Age | Col::Node | Col::Label(_) => {}
        }
    }
}

pub(super) fn pod(
    ctx: &Ctx<'_>,
    canvas: &mut Canvas<'_>,
    columns: &[Placed<'_, Col>],
    y: u16,
    p: &PodView,
) {
    let (snap, t, g) = (ctx.snap, ctx.theme, ctx.glyphs);
    let gone = p.gone.is_some();
    let verdict = snap.verdicts.get(&p.uid).map(|v| &**v);
    let base = if gone { t.gone } else { t.text };
    let dim = if gone { t.gone } else { t.dim };
    let quiet = snap.now.since(p.changed);
    if !gone && (0..10 * SECOND).contains(&snap.now.since(p.created)) {
        canvas.symbol(1, y, g.fresh, t.fresh);
    } else if (0..3 * SECOND).contains(&quiet) {
        canvas.symbol(1, y, g.dot, t.fresh);
    }
    let shows_namespace = columns.iter().any(|c| c.column.id == Col::Namespace);
    for c in columns {
        let (x, w, end) = (c.x + 2, c.w, c.x + 2 + c.w);
        match c.column.id {
            Col::Namespace => {
                canvas.text_in(x, y, w, &p.namespace, dim);
            }
            Col::Name => {
                let cleaned = clean(if p.name.is_empty() {
                    p.uid.as_str()
                } else {
                    &p.name
                });
                let style = if p.node.is_empty() && p.phase == PodPhase::Pending {
                    t.dim
                } else {
                    base
                };
                if shows_namespace || p.namespace.is_empty() || w < 32 {
                    canvas.text_in(x, y, w, &cut_middle(&cleaned, usize::from(w)), style);
                } else {
                    let used = canvas.text_in(x, y, w / 2, &format!("{}/", p.namespace), dim);
                    let room = w - used;
                    canvas.text_in(
                        x + used,
                        y,
                        room,
                        &cut_middle(&cleaned, usize::from(room)),
                        style,
                    );
                }
            }
            Col::Ready if p.ready.1 > 0 => {
                let style = if gone {
                    t.gone
                } else if p.ready.0 == p.ready.1 || order::is_finished(p) {
                    t.dim
                } else {
                    t.wait
                };
                canvas.text_right(end, y, w, &format!("{}/{}", p.ready.0, p.ready.1), style);
            }
            Col::Ready => {}
            Col::Status => {
                let style = match order::tone(verdict, p) {
                    order::Tone::Gone => t.gone,
                    order::Tone::Bad => t.fail,
                    order::Tone::Waiting => t.wait,
                    order::Tone::Moving => t.run,
                    order::Tone::Well => t.ok,
                    order::Tone::Over => t.dim,
                };
                let text = if gone { "Gone" } else { p.status.as_str() };
                canvas.text_in(x, y, w, text, style);
            }
            Col::Stages => stage::strip(ctx, canvas, x, y, p),
            Col::Since => {
                if let Some((_, since)) = p.current.filter(|_| !gone) {
                    let slow = verdict.is_some_and(|v| order::is_trouble(v.state));
                    let style = if slow { t.fail } else { t.run };
                    canvas.text_right(end, y, w, &age(snap.now.since(since)), style);
                }
            }
            Col::Start => {
                if let Some(text) = lanes::start(p) {
                    canvas.text_right(end, y, w, &text, dim);
                }
            }
            Col::Restarts => {
                if p.restarts > 0 {
                    let style = if gone { t.gone } else { t.warn };
                    canvas.text_right(end, y, w, &p.restarts.to_string(), style);
                } else {
                    canvas.text_right(end, y, w, g.absent, t.faint);
                }
            }
            Col::Age => {
                canvas.text_right(end, y, w, &age(snap.now.since(p.zero())), dim);
            }
            Col::Node => {
                if p.node.is_empty() {
                    canvas.text_in(x, y, w, g.absent, t.faint);
                } else {
                    canvas.text_in(x, y, w, &p.node, dim);
                }
            }
            Col::Label(n) => {
                let chosen = ctx.shared.columns.get(usize::from(n));
                let Some(Chosen(Which::Label(key))) = chosen else {
                    continue;
                };
                let labels = p.api.as_ref().map(|a| a.labels.as_slice());
                let mut labels = labels.unwrap_or_default().iter();
                if let Some((_, value)) = labels.find(|(k, _)| k == key.as_str()) {
                    canvas.text_in(x, y, w, value, base);
                }
            }
            Col::Verdict => {
                if let Some(v) = verdict {
                    why(ctx, canvas, (x, y, w), v);
                } else if let Some((s, _)) = p.current.filter(|_| !gone) {
                    canvas.text_in(x, y, w, s.name(), t.faint);
                }
            }
        }
    }
}

/// Draws the text about the selected pod or owner below the list.
pub(super) fn below(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, y: u16, owner: Option<&Verdict>) {
    let (w, t) = (canvas.width(), ctx.theme);
    canvas.line(0, y, w, ctx.glyphs.rule, t.rule);
    let y = y + 1;
    if let Some(v) = owner {
        return sentence(ctx, canvas, y, v);
    }
    let Some(p) = ctx.shared.view(ctx.snap) else {
        return;
    };
    if let Some(v) = ctx.snap.verdicts.get(&p.uid) {
        sentence(ctx, canvas, y, v);
    } else {
        let text = match p.current {
            Some((s, since)) if p.gone.is_none() => {
                format!("in {} for {}", s.name(), age(ctx.snap.now.since(since)))
            }
            _ if p.gone.is_some() => "gone".to_owned(),
            _ if unknown::known(ctx.snap.asked(), p).is_some() => {
                format!(
                    "{} when it was last seen; how it is now is not known",
                    p.status
                )
            }
            _ => format!("{}, nothing to say", p.status),
        };
        let x = canvas.spans(1, y, &[(&p.key(), t.dim), ("  ", t.text)]);
        canvas.text(x, y, &text, t.faint);
    }
}

/// Draws cause, state and sentence on two rows; the second ends with `…` if the sentence is longer.
fn sentence(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, y: u16, v: &Verdict) {
    let (w, t) = (canvas.width(), ctx.theme);
    let (word, style) = stage::verdict(ctx, v.state);
    let x = canvas.spans(
        1,
        y,
        &[
            (v.cause_id(), *style),
            (" ", t.text),
            (word, *style),
            ("  ", t.text),
        ],
    );
    let room = usize::from(w.saturating_sub(x + 1));
    let mut lines = wrap(&v.sentence, room).into_iter();
    canvas.text(x, y, &lines.next().unwrap_or_default(), t.text);
    let rest = lines.collect::<Vec<_>>().join(" ");
    canvas.text_in(1, y + 1, w.saturating_sub(2), &rest, t.text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cells(namespace: u16, name: u16, status: u16, node: u16) -> Widths {
        Widths {
            namespace,
            name,
            status,
            node,
            why: 80,
        }
    }

    proptest! {
        #[test]
        fn a_list_keeps_its_columns_whatever_its_pods_do(
            width in 40_u16..240,
            name in 3_u16..64,
            (namespace, node) in (3_u16..30, 0_u16..50),
        ) {
            let of = |status| {
                let placed = columns(width, cells(namespace, name, status, node), &[]);
                placed.iter().map(|c| c.column.id).collect::<Vec<_>>()
            };
            for (status, other) in [
                ("Running", "ContainerCreating"),
                ("Running", "CrashLoopBackOff"),
                ("Init:CrashLoopBackOff", "CreateContainerConfigError"),
                ("Init:CrashLoopBackOff", "Init:CreateContainerConfigError"),
            ] {
                prop_assert_eq!(of(status.len() as u16), of(other.len() as u16));
            }
        }
        #[test]
        fn a_name_is_cut_only_where_no_column_has_room_to_give(
            width in 60_u16..240,
            (namespace, name, status, node) in (3_u16..30, 3_u16..64, 7_u16..32, 0_u16..50),
        ) {
            let placed = columns(width, cells(namespace, name, status, node), &[]);
            let of = |id: Col| placed.iter().find(|c| c.column.id == id).map_or(0, |c| c.w);
            let end = placed.last().map_or(0, |c| c.x + c.w);
            prop_assert!(end <= width - 3, "{placed:?}");
            prop_assert!(of(Col::Status) >= status, "{placed:?}");
            if of(Col::Name) < name {
                prop_assert!(of(Col::Status) <= status.max(6), "{placed:?}");
                prop_assert!(of(Col::Namespace) <= NAMESPACE.0, "{placed:?}");
                prop_assert_eq!(of(Col::Verdict), WHY, "{:?}", placed);
                // The columns are chosen for statuses of at most this width: what one has more, the name has less.
                let more = status.saturating_sub(STATUSES.1);
                prop_assert!(of(Col::Since) == 0 || of(Col::Name) >= budget(3, status).0.min(name) - more, "{placed:?}");
            }
        }
    }
}
