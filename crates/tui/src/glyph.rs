//! The symbols that panes draw with, in Unicode and in ASCII for terminals and fonts that have nothing else.

macro_rules! glyphs {
    ($($(#[$doc:meta])* $name:ident: $unicode:literal, $ascii:literal;)*) => {
        /// Symbols, one column each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Glyphs { $($(#[$doc])* pub $name: &'static str,)* }

        /// Symbols with box drawing, blocks and arrows.
        pub const UNICODE: Glyphs = Glyphs { $($name: $unicode,)* };
        /// Symbols of ASCII only.
        pub const ASCII: Glyphs = Glyphs { $($name: $ascii,)* };

        impl Glyphs {
            /// Returns the name and the symbol of each.
            pub fn all(&self) -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

glyphs! {
    /// A stage that is done.
    done: "■", "#";
    /// A stage that is in progress.
    running: "▶", ">";
    /// A stage that failed.
    failing: "✖", "X";
    /// A stage that waits: back-off, queue or gate.
    waiting: "◷", "~";
    /// A stage that passed without any source observing it.
    unseen: "□", "-";
    /// A stage that was not reached.
    absent: "·", ".";
    /// Horizontal rule.
    rule: "─", "-";
    /// Vertical rule.
    wall: "│", "|";
    /// Faint vertical grid line.
    grid: "┊", ":";
    /// Branch of a tree.
    branch: "├", "+";
    /// Last branch of a tree.
    last: "└", "`";
    /// Corners of a box.
    top_left: "╭", "+";
    /// Corners of a box.
    top_right: "╮", "+";
    /// Corners of a box.
    bottom_left: "╰", "+";
    /// Corners of a box.
    bottom_right: "╯", "+";
    /// Open node of a tree.
    open: "▾", "v";
    /// Closed node of a tree.
    closed: "▸", "+";
    /// Measured part of a bar.
    full: "█", "#";
    /// A bar of the timeline whose parts have rows of their own below it.
    thin: "▄", "_";
    /// Inferred part of a bar.
    inferred: "▓", "=";
    /// Bounded part of a bar.
    bounded: "▒", "-";
    /// A gap that no evidence explains.
    unknown: "╱", "/";
    /// End of a bar that is still growing.
    growing: "▶", ">";
    /// Before a moment: it, or an earlier one.
    not_after: "≤", "<";
    /// A bar shorter than one column.
    tick: "▏", "|";
    /// A mark.
    mark: "◆", "*";
    /// A mark of something bad.
    bad_mark: "▲", "!";
    /// End of a deletion's grace period.
    due: "◇", "o";
    /// Time cursor.
    cursor: "┃", "|";
    /// Track of a scroll bar.
    track: "│", "|";
    /// Thumb of a scroll bar.
    thumb: "┃", "#";
    /// A source that is on.
    on: "●", "*";
    /// A source that is off.
    off: "○", "o";
    /// The session plays.
    play: "▶", ">";
    /// The session is paused, or the picture frozen.
    pause: "‖", "=";
    /// A recording is being written.
    record: "●", "*";
    /// The column is sorted in ascending order.
    up: "↑", "^";
    /// The column is sorted in descending order.
    down: "↓", "v";
    /// Arrow to the right.
    right: "▶", ">";
    /// Arrow to the left.
    left: "◀", "<";
    /// Shaft of an arrow.
    shaft: "─", "-";
    /// Shaft of the arrow of an answer.
    dashed: "┄", ".";
    /// Head of an arrow for a call that is not answered yet.
    open_right: "▷", ")";
    /// A lifeline while a call is in progress.
    active: "┃", "#";
    /// A lifeline while no call is in progress.
    silent: "⋮", ":";
    /// A pod that appeared a moment ago.
    fresh: "✦", "+";
    /// Multiplication sign for counts, as in ×14.
    times: "×", "x";
    /// Selected row.
    here: "▌", ">";
    /// Separator of facts in a line.
    dot: "·", "-";
    /// A box that is checked.
    checked: "☑", "x";
    /// A box that is not checked.
    unchecked: "☐", " ";
}

impl Glyphs {
    /// Returns the Unicode or the ASCII symbols.
    pub const fn new(unicode: bool) -> &'static Self {
        if unicode { &UNICODE } else { &ASCII }
    }
    /// Returns true for the Unicode symbols.
    pub fn is_unicode(&self) -> bool {
        self.done == UNICODE.done
    }
    /// Returns a block of `n` eighths of a column, 0 to 7, for the end of a bar.
    pub fn eighth(&self, n: usize) -> &'static str {
        const E: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        if self.is_unicode() {
            E.get(n).copied().unwrap_or("")
        } else if n >= 4 {
            self.full
        } else {
            ""
        }
    }
    /// Returns a block of height `n`, 0 to 8 eighths of a row, for sparklines and histograms.
    pub fn level(&self, n: usize) -> &'static str {
        const U: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
        const A: [&str; 9] = [" ", "_", "_", ".", "-", "-", "=", "+", "#"];
        let t = if self.is_unicode() { U } else { A };
        t.get(n.min(8)).copied().unwrap_or(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::width;

    #[test]
    fn every_symbol_takes_one_column_and_the_ascii_ones_are_ascii() {
        for (name, g) in UNICODE.all().into_iter().chain(ASCII.all()) {
            assert_eq!(width(g), 1, "{name}");
        }
        assert!(ASCII.all().iter().all(|(_, g)| g.is_ascii()));
        for n in 0..9 {
            assert_eq!(width(UNICODE.level(n)), 1);
            assert!(ASCII.level(n).is_ascii() && ASCII.eighth(n).is_ascii());
        }
    }
}
