//! Which panes are on the screen, and where.

use ratatui::layout::Rect;

use super::pane::PaneId;

/// How the screen is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// One pane.
    #[default]
    Single,
    /// Pods and one other pane: side by side on a wide screen, else one above the other.
    Split,
    /// Pods, timeline, calls and why.
    Dashboard,
}

impl Layout {
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Single => Self::Split,
            Self::Split => Self::Dashboard,
            Self::Dashboard => Self::Single,
        }
    }
    /// Returns the layout for a screen of this size (columns, rows) if the user has chosen none.
    #[must_use]
    pub const fn of_size((w, h): (u16, u16)) -> Self {
        if w >= LARGE.0 && h >= LARGE.1 {
            Self::Dashboard
        } else {
            Self::Single
        }
    }
    /// Returns the layout that fits a body of this size: this one, or else the next smaller one that has room.
    #[must_use]
    pub const fn fitting(self, body: Rect) -> Self {
        match self {
            Self::Dashboard if body.width < DASHBOARD.0 || body.height < DASHBOARD.1 => {
                Self::Split.fitting(body)
            }
            Self::Split if body.width < WIDE && body.height < SPLIT => Self::Single,
            l => l,
        }
    }
    /// Returns the next layout, in the order of [`next`](Self::next), that fits the body.
    #[must_use]
    pub fn next_fitting(self, body: Rect) -> Self {
        let here = self.fitting(body);
        let mut next = here.next();
        while next.fitting(body) != next && next != here {
            next = next.next();
        }
        next.fitting(body)
    }
    /// Returns the room that the layout needs, in words; empty if it always fits.
    pub fn needs(self) -> String {
        match self {
            Self::Single => String::new(),
            Self::Split => format!("{WIDE} columns, or {SPLIT} rows between tabs and footer"),
            Self::Dashboard => format!(
                "{} columns and {} rows between tabs and footer",
                DASHBOARD.0, DASHBOARD.1
            ),
        }
    }
    /// Returns the name that the configuration and the status bar use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Split => "split",
            Self::Dashboard => "dashboard",
        }
    }
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Single, Self::Split, Self::Dashboard]
            .into_iter()
            .find(|l| l.name() == name)
    }
}

/// Width of a body, in columns, from which a split shows its panes side by side.
const WIDE: u16 = 140;
/// Columns of a small screen.
const SMALL: u16 = 80;
/// Least height of a body, in rows, for two panes one above the other.
const SPLIT: u16 = 16;
/// Least screen (columns, rows) for which the dashboard is the default: each of its four panes is then as large as a
/// single one at 80x24.
const LARGE: (u16, u16) = (162, 50);
/// Least body (columns, rows) for four panes.
const DASHBOARD: (u16, u16) = (120, 30);

/// Least screen (columns, rows) on which a pane can be read.
pub const LEAST: (u16, u16) = (40, 10);

/// A pane with its place on the screen. The first row of the place is the rule with the pane's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub pane: PaneId,
    /// The place, including the rule.
    pub area: Rect,
}

impl Slot {
    /// Returns the place below the rule, where the pane draws.
    pub fn inner(&self) -> Rect {
        let a = self.area;
        Rect::new(a.x, a.y + 1, a.width, a.height.saturating_sub(1))
    }
}

/// Rows above the body: the title and the tabs.
pub const HEAD: u16 = 2;

/// Returns the body: the screen without title, tabs, banner, scrubber and footer.
pub fn body(size: (u16, u16), banner: bool, scrubber: bool) -> Rect {
    let top = HEAD + u16::from(banner);
    let bottom = 1 + u16::from(scrubber);
    Rect::new(0, top, size.0, size.1.saturating_sub(top + bottom))
}

/// Returns true if the screen has room for the scrubber, which only a replay shows.
pub const fn has_scrubber(size: (u16, u16), replay: bool) -> bool {
    replay && size.1 >= 16
}

/// Returns the panes with their places. `focus` is the focused pane, `other` the one shown beside the pods.
pub fn slots(layout: Layout, focus: PaneId, other: PaneId, body: Rect) -> Vec<Slot> {
    let one = |pane, area| Slot { pane, area };
    let wide = body.width >= WIDE;
    match layout.fitting(body) {
        Layout::Split => {
            let other = if other == PaneId::Pods {
                PaneId::Timeline
            } else {
                other
            };
            if wide {
                // Half each, but the other pane keeps the columns of a small screen.
                let left = (body.width / 2).min(body.width.saturating_sub(SMALL + 1));
                vec![
                    one(
                        PaneId::Pods,
                        Rect {
                            width: left,
                            ..body
                        },
                    ),
                    one(
                        other,
                        Rect {
                            x: body.x + left + 1,
                            width: body.width - left - 1,
                            ..body
                        },
                    ),
                ]
            } else {
                let top = (body.height * 2 / 5).max(7);
                vec![
                    one(
                        PaneId::Pods,
                        Rect {
                            height: top,
                            ..body
                        },
                    ),
                    one(
                        other,
                        Rect {
                            y: body.y + top,
                            height: body.height - top,
                            ..body
                        },
                    ),
                ]
            }
        }
        Layout::Dashboard => {
            let left = body.width / 2;
            let top = body.height / 2;
            let rest = (body.width - left - 1, body.height - top);
            // A requested pane that is not among the four replaces the calls.
            let third = match other {
                PaneId::Pods | PaneId::Timeline | PaneId::Why => PaneId::Calls,
                p => p,
            };
            vec![
                one(PaneId::Pods, Rect::new(body.x, body.y, left, top)),
                one(
                    PaneId::Timeline,
                    Rect::new(body.x + left + 1, body.y, rest.0, top),
                ),
                one(third, Rect::new(body.x, body.y + top, left, rest.1)),
                one(
                    PaneId::Why,
                    Rect::new(body.x + left + 1, body.y + top, rest.0, rest.1),
                ),
            ]
        }
        Layout::Single => vec![one(focus, body)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_never_overlap_and_stay_inside_the_body() {
        for w in (40..240).step_by(7) {
            for h in 10..70 {
                for l in [Layout::Single, Layout::Split, Layout::Dashboard] {
                    let b = body((w, h), h % 2 == 0, true);
                    let s = slots(l, PaneId::Log, PaneId::Log, b);
                    for (i, x) in s.iter().enumerate() {
                        assert_eq!(x.area.intersection(b), x.area);
                        assert!(s.iter().skip(i + 1).all(|y| !x.area.intersects(y.area)));
                    }
                    assert!(s.iter().any(|x| x.pane == PaneId::Log));
                }
            }
        }
    }
}
