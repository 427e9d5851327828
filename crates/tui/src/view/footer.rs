//! Draws the last line: a message, which takes more lines where it is long, or hints of keys.

use crate::action::Action;
use crate::canvas::Canvas;
use crate::model::{Model, Tone};
use crate::shared::Ctx;
use crate::text::{width, wrap};
use kflow_engine::snapshot::Mode;
use ratatui::style::Style;

/// Draws into the last lines of the whole screen.
pub(super) fn draw(model: &Model, ctx: &Ctx<'_>, screen: &mut Canvas<'_>) {
    let t = ctx.theme;
    if let Some((m, tone)) = &model.message {
        let style = match tone {
            Tone::Info => t.bar.patch(t.strong),
            Tone::Error => t.bar.patch(t.fail),
        };
        said(ctx, screen, m, style);
        return;
    }
    let (w, h) = (screen.width(), screen.height());
    let canvas = &mut screen.part(0, h.saturating_sub(1), w, 1);
    canvas.clear(t.bar);
    let live = matches!(ctx.snap.mode, Mode::Live { .. });
    for (x, a) in hints(model, canvas.width()) {
        let key = model.keys.first(a);
        let x = x + canvas.text(x, 0, &key, t.bar.patch(t.key)) + 1;
        // As long as the word for a replay, so that hints have the same places.
        let word = match a {
            Action::PlayPause if live => "hold",
            a => word(a),
        };
        canvas.text(x, 0, word, t.bar.patch(t.key_text));
    }
}

/// Draws a text into the last lines of the screen, in half of it at most.
pub(super) fn said(ctx: &Ctx<'_>, screen: &mut Canvas<'_>, text: &str, style: Style) {
    let (w, h) = (screen.width(), screen.height());
    let mut lines = wrap(text, usize::from(w.saturating_sub(2)));
    let most = usize::from(h / 2).max(1);
    if lines.len() > most {
        // The last line is cut with the sign for it.
        let rest = lines.split_off(most - 1).join(" ");
        lines.push(rest);
    }
    let n = lines.len() as u16;
    let mut canvas = screen.part(0, h.saturating_sub(n), w, n);
    canvas.clear(ctx.theme.bar);
    for (line, y) in lines.iter().zip(0..) {
        canvas.text(1, y, line, style);
    }
}

/// Returns the commands of the footer, each with its first column.
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
    // Help and quit are always shown; the pane's own keys get the remaining room first, then the general ones.
    let fixed = [Action::Help, Action::Quit];
    let last: u16 = fixed.into_iter().map(need).sum();
    let limit = w.saturating_sub(last + 1);
    let mut all = Vec::new();
    let mut x = 1;
    // Keys that the tour uses are shown in the tour's own lines.
    let guided = |a: Action| {
        model.tour.is_some() && matches!(a, Action::PlayPause | Action::Layout | Action::NextPod)
    };
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

/// Returns the command at this column of the footer; `None` between commands, or while a message is shown.
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

/// Returns one or two words about a command, for the footer.
const fn word(a: Action) -> &'static str {
    match a {
        Action::PaneWhy => "why",
        Action::SortNext | Action::CallsSort => "sort",
        Action::ToggleGone => "gone",
        Action::ToggleDone => "completed",
        Action::ToggleOwners => "owners",
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
        Action::NodeList => "nodes",
        a => a.name(),
    }
}
