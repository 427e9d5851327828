//! Draws the tour's text about the step of a stop: what happened, what the step does, and the symptoms if it hung.

use crate::action::Action;
use crate::canvas::Canvas;
use crate::describe;
use crate::model::Model;
use crate::shared::Ctx;
use crate::text::{width, wrap};
use crate::tour::{HANGS, HUNG, Tour};
use ratatui::style::Style;

pub(super) fn draw(tour: &Tour, model: &Model, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let Some((part, _)) = tour.here() else { return };
    let Some((_, step)) = tour.step() else { return };
    let w = canvas.width();
    canvas.line(0, 0, w, g.rule, t.rule_on);
    let (which, place) = tour.place();
    let keys = [
        (Action::PlayPause, "on"),
        (Action::StepBack, "back"),
        (Action::Back, "leave"),
    ]
    .map(|(a, what)| format!(" {} {what} ", model.keys.first(a)))
    .concat();
    // The keys have to stay visible, so the title is left out if there is too little room.
    let title = format!(": {}", part.title);
    let needs = " Tour , ".len() + width(&which) + width(&title) + width(&place) + width(&keys) + 4;
    let title = if usize::from(w) >= needs { &title } else { "" };
    canvas.spans(
        1,
        0,
        &[
            (" Tour ", t.accent),
            (&which, t.dim),
            (title, t.strong),
            (", ", t.dim),
            (&place, t.dim),
            (" ", t.dim),
        ],
    );
    canvas.text_right(w.saturating_sub(1), 0, w / 2, &keys, t.key);
    let x = canvas.spans(
        1,
        1,
        &[
            (&step.id, t.accent),
            ("  ", t.text),
            (&step.label, t.strong),
            ("  ", t.text),
        ],
    );
    let source = if step.label == step.function {
        step.file.to_string()
    } else {
        format!("{}  {}", step.function, step.file)
    };
    let room = w.saturating_sub(x + 1);
    canvas.text_in(x, 1, room, &source, t.dim);
    let room = usize::from(w.saturating_sub(2));
    let (before, style) = if tour.is_stuck() {
        (HANGS, t.fail)
    } else {
        (HUNG, t.wait)
    };
    let with = |style: Style| move |l: String| (l, style);
    let mut lines: Vec<(String, Style)> = wrap(&step.does, room)
        .into_iter()
        .map(with(t.text))
        .collect();
    let hangs = wrap(&format!("{before}{}", step.hangs), room);
    lines.extend(hangs.into_iter().map(with(style)));
    let pod = ctx.shared.pod.as_ref();
    let verdict = pod.and_then(|p| ctx.snap.verdicts.get(p));
    let mut y = 3;
    if let Some(v) = verdict.filter(|_| tour.is_stuck()) {
        // The step that hangs was shown where the wait began; here the verdict says what the pod waits for.
        let most = usize::from(canvas.height())
            .saturating_sub(2 + lines.len())
            .max(1);
        let said = wrap(&format!("{}  {}", v.cause_id(), v.sentence), room);
        for (line, at) in said.iter().take(most).zip(2..) {
            canvas.text(1, at, line, t.strong);
            y = at + 1;
        }
    } else if tour.is_on_the_way() {
        let on = model.keys.first(Action::PlayPause);
        let said = format!("The panes play up to this step; {on} goes there at once.");
        canvas.text(1, 2, &said, t.dim);
    } else if let Some(e) = tour.shown(ctx.snap) {
        let at = ctx.time().at(e.stamp.at, e.stamp.precision, 6);
        let (mut what, _) = describe::line(&e);
        // Lines of the runtime name a container by its id only.
        let containers = ctx.shared.view(ctx.snap).map(|p| p.containers.as_slice());
        let whose = containers.unwrap_or_default().iter().find(|c| {
            let id = c.id.as_str().get(..12);
            id.is_some_and(|id| what.contains(id)) && !what.contains(&format!(" {} ", c.name))
        });
        if let Some(c) = whose {
            let kind = if c.init {
                "init container"
            } else {
                "container"
            };
            what = format!("{kind} {}: {what}", c.name);
        }
        let x = canvas.spans(
            1,
            2,
            &[
                (&at, t.dim),
                ("  ", t.text),
                (e.source.name(), t.source(e.source)),
                ("  ", t.text),
            ],
        );
        canvas.text_in(x, 2, w.saturating_sub(x + 1), &what, t.text);
    }
    let room = usize::from(canvas.height().saturating_sub(y));
    for (n, (y, (line, style))) in (y..canvas.height()).zip(&lines).enumerate() {
        if n + 1 == room && lines.len() > room {
            // A text of which the rest has no row ends like one that is cut.
            canvas.text_in(1, y, w.saturating_sub(2), &format!("{line} …"), *style);
            continue;
        }
        canvas.text(1, y, line, *style);
    }
}
