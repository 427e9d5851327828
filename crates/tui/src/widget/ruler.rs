//! A time window on a row of cells, and the ruler above it.

use crate::canvas::Canvas;
use crate::shared::Ctx;
use crate::text::width;
use kflow_model::Nanos;
use kflow_model::stamp::SECOND;
use kflow_model::units::{self, DAY};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first moment.
    pub from: Nanos,
    /// The moment after the last one.
    pub to: Nanos,
}

/// Least and greatest length of a window, ns.
const SHORTEST: i64 = 1_000;
const LONGEST: i64 = 400 * DAY;

impl Window {
    /// Returns the window between two moments, at least 1 µs long.
    pub fn new(from: Nanos, to: Nanos) -> Self {
        let to = to.max(from.plus(SHORTEST));
        Self { from, to }
    }
    /// Returns the length in ns.
    pub const fn length(&self) -> i64 {
        self.to.since(self.from)
    }
    /// Returns the place of a moment, in columns from the left edge; negative or above `columns` if outside the window.
    pub fn place(&self, at: Nanos, columns: u16) -> f64 {
        at.since(self.from) as f64 / self.length() as f64 * f64::from(columns)
    }
    /// Returns the column of a moment; `None` outside the window.
    pub fn column(&self, at: Nanos, columns: u16) -> Option<u16> {
        let p = self.place(at, columns);
        (p >= 0.0 && p < f64::from(columns)).then_some(p as u16)
    }
    /// Returns the moment in the middle of a column.
    pub fn at(&self, column: u16, columns: u16) -> Nanos {
        let share = (f64::from(column) + 0.5) / f64::from(columns.max(1));
        self.from.plus((share * self.length() as f64) as i64)
    }
    /// Returns the window with its length multiplied by `factor`. The moment `around` keeps its place.
    #[must_use]
    pub fn zoom(&self, around: Nanos, factor: f64) -> Self {
        let length = ((self.length() as f64 * factor) as i64).clamp(SHORTEST, LONGEST);
        let around = around.max(self.from).min(self.to);
        let share = around.since(self.from) as f64 / self.length() as f64;
        let from = around.plus(-((share * length as f64) as i64));
        Self::new(from, from.plus(length))
    }
    /// Returns the window moved by a share of its length.
    #[must_use]
    pub fn pan(&self, share: f64) -> Self {
        let by = (self.length() as f64 * share) as i64;
        Self::new(self.from.plus(by), self.to.plus(by))
    }
    /// Returns the distance of ticks in ns: a round number, large enough that labels do not touch.
    pub fn step(&self, columns: u16) -> i64 {
        const ROUND: [i64; 9] = [1, 2, 5, 10, 15, 30, 60, 120, 300];
        let least = self.length() as f64 * 11.0 / f64::from(columns.max(1));
        let mut unit = 1;
        while unit < SECOND {
            for m in [1, 2, 5] {
                if (unit * m) as f64 >= least {
                    return unit * m;
                }
            }
            unit *= 10;
        }
        for m in ROUND {
            if (m * SECOND) as f64 >= least {
                return m * SECOND;
            }
        }
        let mut minutes = 600 * SECOND;
        while (minutes as f64) < least {
            minutes *= 2;
        }
        minutes
    }
}

/// Draws ticks and labels that count from `zero`; the `grid` rows below get a faint line at each tick.
pub fn draw(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, window: Window, zero: Nanos, grid: u16) {
    let w = canvas.width();
    let step = window.step(w);
    let first = window.from.since(zero).div_euclid(step) * step;
    let mut free = 0;
    for i in 0..=i64::from(w) {
        let offset = first + i * step;
        let at = zero.plus(offset);
        if at >= window.to {
            break;
        }
        let Some(x) = window.column(at, w) else {
            continue;
        };
        let text = match offset {
            0 => "0".to_owned(),
            n => label(n, step),
        };
        let len = width(&text) as u16;
        if x >= free && x + len <= w {
            canvas.text(x, 0, &text, ctx.theme.dim);
            free = x + len + 1;
        }
        for y in 1..=grid {
            canvas.symbol(x, y, ctx.glyphs.grid, ctx.theme.rule);
        }
    }
}

/// Returns the shortest exact text of an offset, so that neighbouring ticks never have the same label.
fn label(offset: i64, step: i64) -> String {
    let exact = |text: &String| units::parse_go_duration(text) == Some(offset);
    [units::age(offset), units::duration(offset)]
        .into_iter()
        .find(exact)
        .unwrap_or_else(|| {
            let step = u32::try_from(step).unwrap_or(u32::MAX);
            units::offset(offset, units::digits(step))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn columns_and_moments_agree(from in 0_i64..1_i64 << 60, length in 1000_i64..1_i64 << 50, w in 1_u16..300, x in 0_u16..300) {
            let win = Window::new(Nanos(from), Nanos(from + length));
            let x = x % w;
            let back = win.column(win.at(x, w), w);
            // In a window shorter than its columns, several columns are the same moment.
            prop_assert!(length < i64::from(w) || back == Some(x), "{back:?} {x}");
        }
        #[test]
        fn zooming_keeps_the_moment_where_it_is(share in 0.0_f64..1.0, factor in 0.1_f64..10.0) {
            let win = Window::new(Nanos(0), Nanos(1_000_000_000_000));
            let at = Nanos((share * 1e12) as i64);
            let z = win.zoom(at, factor);
            prop_assert!((z.place(at, 1000) - win.place(at, 1000)).abs() < 1.0);
        }
        #[test]
        fn ticks_are_round_and_labels_have_room(length in 1000_i64..1_i64 << 55, w in 20_u16..300) {
            let win = Window::new(Nanos(0), Nanos(length));
            let step = win.step(w);
            prop_assert!(step as f64 / length as f64 * f64::from(w) >= 10.9);
        }
        #[test]
        fn a_label_loses_nothing(length in 1000_i64..1_i64 << 55, w in 20_u16..300, i in -200_i64..200) {
            let step = Window::new(Nanos(0), Nanos(length)).step(w);
            let text = label(i * step, step);
            prop_assert_eq!(units::parse_go_duration(&text), Some(i * step), "{}", text);
        }
    }
}
