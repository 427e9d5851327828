//! Which panes are on the screen, and where.

use ratatui::layout::Rect;

use super::pane::PaneId;

/// How the screen is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// One pane.
    #[default]
    Single,
    /// Pods and one other: side by side when wide, one above the other when not.
    Split,
    /// Pods, timeline, calls and why.
    Dashboard,
}

impl Layout {
    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Single => Self::Split,
            Self::Split => Self::Dashboard,
            Self::Dashboard => Self::Single,
        }
    }
    /// Name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Split => "split",
            Self::Dashboard => "dashboard",
        }
    }
    /// The one of a name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Single, Self::Split, Self::Dashboard]
            .into_iter()
            .find(|l| l.name() == name)
    }
}

/// The least screen that panes can be read on.
pub const LEAST: (u16, u16) = (40, 10);

/// A pane with its rule (first row) and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Which.
    pub pane: PaneId,
    /// Where, with the rule.
    pub area: Rect,
}

impl Slot {
    /// Where the pane itself is drawn.
    pub fn inner(&self) -> Rect {
        let a = self.area;
        Rect::new(a.x, a.y + 1, a.width, a.height.saturating_sub(1))
    }
}

/// The body: the screen without title, tabs, scrubber and footer.
pub fn body(size: (u16, u16), scrubber: bool) -> Rect {
    let top = 2;
    let bottom = 1 + u16::from(scrubber);
    Rect::new(0, top, size.0, size.1.saturating_sub(top + bottom))
}

/// True when there is room for the scrubber.
pub const fn has_scrubber(size: (u16, u16), replay: bool) -> bool {
    replay && size.1 >= 16
}

/// Panes and places. `focus` is the focused pane, `other` the one shown beside the pods.
pub fn slots(layout: Layout, focus: PaneId, other: PaneId, body: Rect) -> Vec<Slot> {
    let one = |pane, area| Slot { pane, area };
    let wide = body.width >= 140;
    let layout = match layout {
        Layout::Dashboard if body.width < 120 || body.height < 30 => Layout::Split,
        l => l,
    };
    match layout {
        Layout::Split if wide || body.height >= 16 => {
            let other = if other == PaneId::Pods {
                PaneId::Timeline
            } else {
                other
            };
            if wide {
                let left = body.width * 2 / 5;
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
            // A pane that is asked for and not among the four takes the place of the calls.
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
        _ => vec![one(focus, body)],
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
                    let b = body((w, h), true);
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
