//! The node: what is wrong with it, conditions, what the kubelet's loops do, calls in flight, image pulls, its own start, and how the sources
//! stand.

mod health;
mod lines;
mod loops;
mod runtime;
mod sources;
mod start;
mod unknown;

use std::sync::LazyLock;

use super::{Item, Menu, Pane, PaneId, Reply};
use crate::action::{Action, Command};
use crate::backend::Drive;
use crate::canvas::Canvas;
use crate::glyph::Glyphs;
use crate::keys::Keymap;
use crate::shared::{Ctx, Shared};
use crate::theme::Theme;
use crate::widget::scroll;
use kflow_engine::Snapshot;
use kflow_model::Nanos;
use lines::Line;

/// The node pane.
#[derive(Debug, Default)]
pub struct Node {
    top: usize,
    operations: runtime::Operations,
    startup: start::Startup,
    trouble: health::Trouble,
    /// Picture and time at which each of the two long looks was taken: at the calls, and at the pods.
    seen: [Option<(u64, Nanos)>; 2],
}

/// How often calls and pods are looked through at most, ns.
const LOOK: i64 = 250_000_000;
/// Argument of [`Action::NodeReconnect`] that does it.
const YES: &str = "yes";

/// Asks once more: a call that nobody knows of can fail by it.
fn reconnect_menu() -> Menu {
    let item = |label: &str, help: &str, arg: &str| Item {
        label: label.to_owned(),
        help: help.to_owned(),
        command: Command {
            action: Action::NodeReconnect,
            arg: arg.to_owned(),
        },
        checked: None,
    };
    Menu {
        title: "Make clients of the runtime connect anew?".to_owned(),
        items: vec![
            item("leave them", "names of calls come by and by", "no"),
            item(
                "connect anew",
                "a call from before kflow came can fail; the kubelet tries it again",
                YES,
            ),
        ],
        ..Menu::default()
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
        let other = if wide {
            w.saturating_sub(left + 4)
        } else {
            left
        };
        let (mut a, mut b) = (Vec::new(), Vec::new());
        unknown::draw(ctx, left, &mut a);
        lines::gap(&mut a);
        health::verdicts(ctx, left, &mut a);
        lines::gap(&mut a);
        health::nodes(ctx, left, |n| self.operations.pods_on(n), &mut a);
        let flight = if wide { &mut b } else { &mut a };
        lines::gap(flight);
        self.operations.in_flight(ctx, flight);
        lines::gap(&mut a);
        loops::draw(ctx, left, &mut a);
        lines::gap(&mut a);
        self.operations.methods(ctx, &mut a);
        lines::gap(&mut b);
        sources::draw(ctx, &mut b);
        lines::gap(&mut b);
        self.trouble.draw(ctx, if wide { 10 } else { 20 }, &mut b);
        lines::gap(&mut b);
        self.startup.draw(ctx, other, &mut b);
        lines::gap(&mut b);
        start::pods(ctx, &mut b);
        lines::gap(&mut b);
        health::endpoints(ctx, &mut b);
        if !wide {
            lines::gap(&mut a);
            a.append(&mut b);
        }
        (a, b, left)
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
            .collect();
        let shown: Vec<&str> = names.iter().copied().take(4).collect();
        match names.len() - shown.len() {
            0 => shown.join(", "),
            more => format!("{} and {more} more", shown.join(", ")),
        }
    }
    fn commands(&self) -> &'static [Action] {
        &[Action::Down, Action::Up, Action::PaneCalls, Action::Open]
    }
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        let moves = snap.mode.moves();
        for (what, seen) in self.seen.iter_mut().enumerate() {
            let recent = seen.is_some_and(|(version, at)| {
                version == snap.version || moves && (0..LOOK).contains(&snap.now.since(at))
            });
            if recent {
                continue;
            }
            let first = seen.replace((snap.version, snap.now)).is_none();
            if what == 0 {
                self.operations.look_at_calls(snap);
                self.startup.look(snap);
                self.trouble.look(snap);
            } else {
                self.operations.look_at_pods(snap);
            }
            // While pictures follow each other, a frame takes one of the two; the next one takes the other.
            if moves && !first {
                break;
            }
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
    fn handle(&mut self, command: &Command, snap: &Snapshot, shared: &mut Shared) -> Reply {
        match command.action {
            Action::Down => self.top += 1,
            Action::Up => self.top = self.top.saturating_sub(1),
            Action::PageDown => self.top += 10,
            Action::PageUp => self.top = self.top.saturating_sub(10),
            Action::Top => self.top = 0,
            // Not further than there are lines: the next `sync` sees to that.
            Action::Bottom => self.top = usize::from(u16::MAX),
            Action::Open => {
                let Some(v) = health::unwell(snap).next() else {
                    return Reply::Say("nothing is known to be wrong with a node".to_owned());
                };
                shared.pod = None;
                shared.owner.clone_from(&v.owner);
                shared.sought = true;
                return Reply::Go(PaneId::Why);
            }
            Action::NodeReconnect if command.arg == YES => return Reply::Drive(Drive::Reconnect),
            Action::NodeReconnect if command.arg.is_empty() => {
                return Reply::Menu(reconnect_menu());
            }
            Action::NodeReconnect => {}
            _ => return Reply::Ignored,
        }
        Reply::Done
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let (w, h) = (canvas.width(), canvas.height());
        let (a, b, left) = self.lines(ctx, w);
        let longest = a.len().max(b.len());
        let top = self.top.min(longest.saturating_sub(usize::from(h)));
        lines::draw(&mut canvas.part(1, 0, left, h), &a, top);
        if !b.is_empty() {
            canvas.column(left + 2, 0, h, ctx.glyphs.wall, ctx.theme.faint);
            let x = left + 4;
            lines::draw(&mut canvas.part(x, 0, w - x, h), &b, top);
        }
        let hidden = longest.saturating_sub(top + usize::from(h));
        scroll::draw_more(ctx, canvas, h.saturating_sub(1), top, hidden);
    }
}
