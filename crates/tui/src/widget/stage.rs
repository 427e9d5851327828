//! The strip of a pod's eleven stages, and words and styles of states.

use ratatui::style::Style;

use crate::canvas::Canvas;
use crate::shared::Ctx;
use kflow_core::correlate::{PodView, StageState};
use kflow_core::diagnose::State;
use kflow_core::flow::Stage;

/// Returns symbol and style of a stage's state.
pub fn cell(ctx: &Ctx<'_>, state: StageState) -> (&'static str, Style) {
    let (g, t) = (ctx.glyphs, ctx.theme);
    match state {
        StageState::NotReached => (g.absent, t.faint),
        StageState::Unseen => (g.unseen, t.dim),
        StageState::Running => (g.running, t.run),
        StageState::Waiting => (g.waiting, t.wait),
        StageState::Failing => (g.failing, t.fail),
        StageState::Done => (g.done, t.ok),
    }
}

/// Draws the strip: eleven columns, one per stage.
pub fn strip(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, x: u16, y: u16, pod: &PodView) {
    for stage in Stage::ALL {
        let (symbol, mut style) = cell(ctx, pod.stage(stage));
        if pod.gone.is_some() && pod.stage(stage) == StageState::Done {
            style = ctx.theme.gone;
        }
        canvas.symbol(x + stage.index() as u16, y, symbol, style);
    }
}

/// Returns the word for a verdict's state, as `kflow why` has it.
pub const fn word(state: State) -> &'static str {
    match state {
        State::Stuck => "stuck",
        State::Slow => "slow",
        State::BackingOff => "backing off",
        State::CrashLooping => "crash-looping",
        State::Flapping => "flapping",
        State::Blocked => "waiting",
        State::Failed => "failed",
        State::Recovered => "recovered",
        State::Healthy => "healthy",
        State::Gone => "gone",
    }
}

/// Returns word and style of a verdict's state.
pub const fn verdict<'a>(ctx: &Ctx<'a>, state: State) -> (&'static str, &'a Style) {
    let t = ctx.theme;
    let style = match state {
        State::Stuck | State::CrashLooping | State::Failed => &t.fail,
        State::Slow | State::Flapping => &t.warn,
        State::BackingOff | State::Blocked => &t.wait,
        State::Recovered | State::Healthy => &t.ok,
        State::Gone => &t.gone,
    };
    (word(state), style)
}
