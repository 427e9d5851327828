//! What a line begins, ends or goes on with.

use super::super::super::{Fed, LineDecoder};
use super::command::{self, Command};
use super::fragment;
use super::gone::Answer;
use super::held::{Held, Told, is_second, is_terminated};
use super::outline::indent;
use super::piece::{self, Begun, Piece};
use super::pods::{self, Taken};
use super::table::{Columns, Row};
use super::ticket::{self, Other};
use super::waiting::Waiting;
use super::{CUT, KubectlText, LONGEST, UNKNOWN, crictl, listed, object, sentence};
use kflow_model::{Nanos, Observation, Text};

/// Stands for a node that nothing names.
pub(super) const NODE: &str = "NODE";

const TOO_LONG: Fed = Fed::Malformed("description is too long");

/// Returns when a command ended whose output stands below this line (azure-cli: src/azure-cli/azure/cli/command_modules/acs/custom.py,
/// `_print_command_result`).
fn ran_until(line: &str) -> Option<Nanos> {
    let rest = line.strip_prefix("command started at ")?;
    let (_, rest) = rest.split_once(", finished at ")?;
    let (at, _) = rest.split_once(" with exitcode=")?;
    let (at, _) = Nanos::parse_rfc3339(&at.replacen(' ', "T", 1))?;
    Some(at)
}

impl LineDecoder for KubectlText {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        let line = String::from_utf8_lossy(line);
        let text = ticket::unquoted(&line);
        self.in_quotation = text.len() < line.len();
        self.next(text.trim_end(), out)
    }

    fn finish(&mut self, out: &mut Vec<Observation>) -> Fed {
        let mut fed = Fed::Partial;
        self.is_end = true;
        while let Some(held) = self.held.take() {
            fed = both(fed, self.again(&held.end(), out), &mut self.left);
        }
        both(fed, self.flush(out), &mut self.left)
    }
}

impl KubectlText {
    /// Takes a line, after those that are held back.
    fn next(&mut self, text: &str, out: &mut Vec<Observation>) -> Fed {
        let Some(held) = &mut self.held else {
            return self.text(text, out);
        };
        let told = held.next(text);
        if matches!(told, Told::Nothing) {
            return Fed::Partial;
        }
        self.held = None;
        let fed = match told {
            Told::Message(message) => {
                self.after_blank = false;
                self.keep(&message)
            }
            Told::Description(name) => self.description(&name, out),
            Told::Neither(lines) => self.again(&lines, out),
            Told::Nothing => Fed::Partial,
        };
        both(fed, self.next(text, out), &mut self.left)
    }

    fn text(&mut self, text: &str, out: &mut Vec<Observation>) -> Fed {
        let after_blank = std::mem::replace(&mut self.after_blank, text.is_empty());
        if text.is_empty() {
            self.of_others = false;
            return if self.is_open() {
                Fed::Partial
            } else {
                Fed::Ignored("blank line")
            };
        }
        if let Some(state) = self.state.filter(|state| indent(text) > *state)
            && text.trim_start().starts_with("Message:")
        {
            self.held = Some(Held::message(text, state));
            return Fed::Partial;
        }
        if ticket::is_fence(text) {
            self.in_block = !self.in_block;
            return or_ignored(self.flush(out), "code fence");
        }
        // A quotation or the prompt `>` begins. A mail wraps long lines of a quotation, and then has no mark before the rest.
        let is_behind = self.is_quoted && self.has_rows() && !self.has_ended;
        if self.is_open()
            && (self.in_quotation && !self.is_quoted || !self.in_quotation && is_behind)
        {
            self.pods.is_cut = true;
            let ended = self.end(out);
            return both(ended, self.text(text, out), &mut self.left);
        }
        if let Some(ran) = ran_until(text) {
            let fed = self.flush(out);
            self.ran = Some(ran);
            return or_ignored(fed, "when the command below ran");
        }
        let command = Command::of(text);
        let is_command = command.is_some();
        if let Some(command) = command {
            let is_apart = after_blank || command.is_prompted;
            if !self.is_text() || (is_apart && indent(text) <= self.base) {
                let fed = self.flush(out);
                self.namespace = command.namespace;
                self.described = command.described;
                self.lists_claims = command.of_claims;
                self.logged = command.logged;
                self.whole = command.scope_if_complete;
                self.ran = None;
                return or_ignored(fed, "command");
            }
        } else if let Some(other) = ticket::begins_other_text(text)
            && let Some(fed) = self.other_text(other, text, after_blank, out)
        {
            return fed;
        }
        if !self.is_text()
            && let Some(answer) = Answer::of(text, &self.namespace)
        {
            let fed = self.flush(out);
            let moment = self.moment(&[], &[]);
            self.answers.push((answer, out.len(), moment.0));
            return or_ignored(fed, "answer about an object that is gone");
        }
        if let [name] = self.lines.as_mut_slice()
            && is_name(name)
            && indent(text) > self.base
            && is_second(text)
        {
            // Whoever copied it began behind the blanks of the first line.
            self.base = indent(text);
            *name = format!("{:blanks$}{}", "", name.trim_start(), blanks = self.base);
        }
        // What a command prints follows it at once.
        let whole = self.whole.take();
        let is_of_claims = std::mem::take(&mut self.lists_claims);
        if self.has_ended && indent(text) == self.rows_indent {
            let row = self.columns.as_ref().and_then(|c| c.row(text));
            if let Some(row) = row {
                self.has_ended = false;
                return self.event_row(row, text, out);
            }
        }
        if is_name(text) && (!self.is_open() || indent(text) <= self.base) {
            if after_blank || !self.is_open() {
                return self.description(text, out);
            }
            // kubectl leaves a blank line between two descriptions, two kubectls do not. A message of several lines may
            // look like the first line of one.
            if self.is_text() {
                self.held = Some(Held::name(text));
                return Fed::Partial;
            }
        }
        let lines = After {
            blank: after_blank,
            is_command,
            whole,
            is_of_claims,
        };
        self.part(text, lines, out)
    }

    /// Takes a line of other text; `None` where it may be a part of what is being read.
    fn other_text(
        &mut self,
        other: Other,
        text: &str,
        after_blank: bool,
        out: &mut Vec<Observation>,
    ) -> Option<Fed> {
        const OTHER: &str = "text of a ticket";
        // What follows may still be of the same object.
        if other == Other::Mark {
            let ends = self.has_rows() && !self.has_ended;
            return ends.then(|| or_ignored(self.end(out), OTHER));
        }
        let is_apart = after_blank || other == Other::Prompt || !self.is_open();
        let is_beside = indent(text) <= self.base;
        let may_end = if self.has_rows() {
            is_beside
        } else {
            is_apart && (is_beside || !self.is_text())
        };
        if !may_end {
            return None;
        }
        self.namespace.clear();
        self.whole = None;
        Some(or_ignored(self.end(out), OTHER))
    }

    /// Ends what is being read. A program's output may be the message of an Event: more rows may follow.
    fn end(&mut self, out: &mut Vec<Observation>) -> Fed {
        if self.has_rows() {
            self.has_ended = true;
            return Fed::Partial;
        }
        self.flush(out)
    }

    fn has_rows(&self) -> bool {
        self.columns.is_some() && !self.rows.is_empty()
    }

    /// Takes a line that begins a table, or is a part of what is being read.
    fn part(&mut self, text: &str, after: After, out: &mut Vec<Observation>) -> Fed {
        if let Some(columns) = pods::Columns::of_titles(text) {
            let fed = self.begin(text, out);
            self.pods.begin(columns, &self.namespace, after.whole);
            return fed;
        }
        if let Some(table) = listed::Table::of_titles(text) {
            let fed = self.begin(text, out);
            self.listed = Some(table);
            return fed;
        }
        if let Some(table) = crictl::Table::of_titles(text) {
            let fed = self.begin(text, out);
            self.runtime = Some(table);
            return fed;
        }
        if let Some(columns) = Columns::of_titles(text) {
            let of_description = !self.lines.is_empty()
                && self.rows.is_empty()
                && !self.has_ended
                && !columns.has_objects();
            let fed = if of_description {
                Fed::Partial
            } else {
                let fed = self.begin(text, out);
                self.of_list.clone_from(&self.namespace);
                fed
            };
            self.columns = Some(columns);
            return fed;
        }
        if let Some(taken) = self.row(text) {
            return match taken {
                Taken::Row => Fed::Partial,
                Taken::Unread if !after.blank => {
                    Fed::Malformed("row whose cells cannot be told apart")
                }
                Taken::Unread | Taken::No => {
                    self.pods.is_cut |= !after.blank && !is_titles(text);
                    let rows = self.flush(out);
                    both(rows, self.text(text, out), &mut self.left)
                }
            };
        }
        if !self.is_open() && object::is_condition_of_node(text) {
            let name = format!("Name: {}", self.node());
            let fed = self.begin(text, out);
            let kept = both(self.keep(&name), self.keep(text), &mut self.left);
            return both(fed, kept, &mut self.left);
        }
        if !self.is_open() {
            let moment = self.moment(&[], &[]);
            let of_claims = after.is_of_claims;
            let table = listed::Table::of_row(text, of_claims, &self.namespace, moment);
            if table.is_some() {
                let fed = self.begin(text, out);
                self.listed = table;
                return fed;
            }
        }
        // No message has such a line.
        if (!self.is_open() || self.has_rows())
            && let Some(columns) = pods::Columns::of_row(text)
        {
            let fed = self.begin(text, out);
            self.pods.begin_bare(columns, &self.namespace);
            self.pods.line(text);
            return fed;
        }
        if (!self.is_open() || self.alone.is_some())
            && let Some((before, message)) = object::unready(text)
            // A pod's Event says the same behind other words.
            && fragment::row(text).is_none()
        {
            let fed = self.begin(text, out);
            return both(fed, self.unready(before, message, out), &mut self.left);
        }
        if (!self.is_open() || self.alone.is_some())
            && let Some(waiting) = Waiting::of(text)
        {
            let fed = self.begin(text, out);
            return both(fed, self.waits(waiting, out), &mut self.left);
        }
        if !self.is_open()
            && let Some(row) = fragment::row(text).or_else(|| fragment::front(text))
        {
            let fed = self.begin(text, out);
            self.of_list.clone_from(&self.namespace);
            self.columns = Some(Columns::of_describe());
            self.alone = Some(first_word(text).to_owned());
            return both(fed, self.event_row(row, text, out), &mut self.left);
        }
        if !self.is_open() && piece::begins(text) {
            let fed = self.begin(text, out);
            self.pieces += 1;
            self.lines = Piece::head(self.pod(), self.pieces);
            self.piece = Some(Begun::Container(Piece::new(text)));
            return both(fed, self.keep(text), &mut self.left);
        }
        if !self.is_open() && piece::is_terminating(text) {
            let fed = self.begin(text, out);
            self.pieces += 1;
            self.lines = Piece::head_of_pod(self.pod(), self.pieces);
            self.piece = Some(Begun::Status);
            return both(fed, self.keep(text), &mut self.left);
        }
        if !self.is_open()
            && let Some(ignored) = self.other(text, after.whole, out)
        {
            return ignored;
        }
        let is_described = self.is_open() && !self.lines.is_empty();
        if is_described && indent(text) <= self.base && text.trim_start().starts_with("Events:") {
            if self.rows.is_empty() {
                self.columns = Some(Columns::of_describe());
                return Fed::Partial;
            }
            // Those of another object, which is not named.
            return both(
                self.flush(out),
                Fed::Malformed("Events of an unknown object"),
                &mut self.left,
            );
        }
        if !self.is_open() {
            return Fed::Malformed(UNKNOWN);
        }
        if let Some(begin) = &self.alone {
            if let Some(last) = self.rows.last_mut()
                && last.message.is_empty()
                && !after.blank
            {
                text.trim().clone_into(&mut last.message);
                return Fed::Partial;
            }
            if fragment::row(text).is_none() && fragment::is_begun(text) {
                return CUT;
            }
            let begins_alike = first_word(text) == begin;
            let last = self.rows.last();
            let is_open = !after.blank
                && !begins_alike
                && last.is_some_and(|r| sentence::is_open(&r.message));
            let bare = fragment::behind_header(text);
            if last.is_some_and(|r| sentence::is_next(&r.message, bare, after.blank)) {
                return self.next_of_message(bare.trim_end_matches('`'), out);
            }
            if let Some(row) = fragment::row(text) {
                return self.event_row(row, text, out);
            }
            if is_open {
                return self.next_of_message(text, out);
            }
            // Outside of a code block nothing tells the next line of a message from prose; a log begins each line alike.
            if !self.in_block || after.blank || begins_alike {
                let fed = self.flush(out);
                return both(fed, self.text(text, out), &mut self.left);
            }
        }
        let Some(columns) = &self.columns else {
            if matches!(&self.piece, Some(Begun::Container(piece)) if piece.ends(text)) {
                let fed = self.flush(out);
                return both(fed, self.text(text, out), &mut self.left);
            }
            let fed = self.keep(text);
            return self.unless_too_long(fed, out);
        };
        if is_ruler(text) {
            return Fed::Partial;
        }
        if let Some(row) = columns.row(text) {
            return self.event_row(row, text, out);
        }
        if columns.is_begun(text) && indent(text) <= self.rows_indent {
            return CUT;
        }
        self.is_doubtful |= !self.rows.is_empty() && (after.blank || after.is_command);
        if let Some(row) = self.rows.last()
            && after.blank
            && !goes_on(&row.message)
        {
            self.until_blank.get_or_insert(row.message.len());
        }
        self.next_of_message(text, out)
    }

    /// Returns the node that the command before this describes.
    fn node(&self) -> &str {
        let of_command = self.described.as_ref().filter(|d| d.kind == "Node");
        of_command.map_or(NODE, |d| d.object.name.as_str())
    }

    /// Takes the message of a node's condition `Ready`, before which its name may stand (`-o custom-columns`).
    fn unready(&mut self, before: &str, message: &str, out: &mut Vec<Observation>) -> Fed {
        let before = before.trim();
        let name = if pods::is_name(before) {
            before
        } else {
            self.node()
        };
        let node = object::unready_node(name, message);
        let moment = self.moment(&[], &[]);
        self.decode_all(std::iter::once(node), moment, out)
    }

    /// Takes the next line of the last row's message.
    fn next_of_message(&mut self, text: &str, out: &mut Vec<Observation>) -> Fed {
        let Some(row) = self.rows.last_mut() else {
            return Fed::Malformed("not a row of Events");
        };
        sentence::append(&mut row.message, text);
        self.bytes = self.bytes.saturating_add(text.len());
        self.unless_too_long(Fed::Partial, out)
    }

    /// Ends what was read; a table begins at this line.
    fn begin(&mut self, titles: &str, out: &mut Vec<Observation>) -> Fed {
        let fed = self.flush(out);
        self.base = indent(titles);
        self.is_quoted = self.in_quotation;
        fed
    }

    /// Begins a description at its first line.
    fn description(&mut self, name: &str, out: &mut Vec<Observation>) -> Fed {
        let fed = self.begin(name, out);
        self.namespace.clear();
        both(fed, self.keep(name), &mut self.left)
    }

    /// Takes lines that were held back; the first is what it is without those behind it.
    fn again(&mut self, lines: &[String], out: &mut Vec<Observation>) -> Fed {
        let Some((first, more)) = lines.split_first() else {
            return Fed::Partial;
        };
        let mut fed = self.part(first, After::default(), out);
        for line in more {
            fed = both(fed, self.next(line, out), &mut self.left);
        }
        fed
    }

    fn keep(&mut self, text: &str) -> Fed {
        let depth = indent(text);
        self.state = self.state.filter(|state| depth > *state);
        if is_terminated(text) {
            self.state = Some(depth);
        }
        self.bytes = self.bytes.saturating_add(text.len());
        self.lines.push(match &mut self.piece {
            Some(Begun::Container(piece)) => piece.line(text),
            Some(Begun::Status) | None => text.to_owned(),
        });
        Fed::Partial
    }

    fn event_row(&mut self, row: Row, text: &str, out: &mut Vec<Observation>) -> Fed {
        self.bytes = self.bytes.saturating_add(text.len());
        self.rows_indent = indent(text);
        self.until_blank = None;
        self.rows.push(row);
        self.unless_too_long(Fed::Partial, out)
    }

    fn unless_too_long(&mut self, fed: Fed, out: &mut Vec<Observation>) -> Fed {
        if self.bytes <= LONGEST {
            return fed;
        }
        let _ = self.flush(out);
        TOO_LONG
    }

    /// True while a description or a table of Events is read, whose texts may hold anything.
    fn is_text(&self) -> bool {
        !self.has_ended && (!self.lines.is_empty() || self.columns.is_some())
    }

    fn is_open(&self) -> bool {
        let has_table = self.pods.is_open() || self.listed.is_some() || self.runtime.is_some();
        has_table || self.is_text()
    }

    /// Gives a line to the table that is being read, if there is one.
    fn row(&mut self, text: &str) -> Option<Taken> {
        let moment = self.moment(&[], &[]);
        if let Some(table) = &mut self.runtime {
            return Some(table.line(text, moment));
        }
        match &mut self.listed {
            Some(table) => Some(table.line(text, &self.namespace, moment)),
            None => self.pods.is_open().then(|| self.pods.line(text)),
        }
    }

    /// Takes a line between what is read: that there are no pods, or a line of a table of other objects. `None` for every other
    /// line, behind which the command before it says nothing any more.
    fn other(
        &mut self,
        text: &str,
        whole: Option<Text>,
        out: &mut Vec<Observation>,
    ) -> Option<Fed> {
        if let Some(scope) = whole.filter(|whole| command::is_none_found(text, whole)) {
            return Some(self.listed(&[], Some(scope), out));
        }
        self.of_others |= is_titles(text);
        if !self.of_others {
            self.namespace.clear();
            return None;
        }
        Some(Fed::Ignored("table of other objects"))
    }
}

/// What stands before a line.
#[derive(Debug, Default)]
struct After {
    blank: bool,
    /// True for a line that is a command itself.
    is_command: bool,
    /// The bounds of the list of pods that the command before it prints.
    whole: Option<Text>,
    /// True if that command lists claims.
    is_of_claims: bool,
}

/// Returns what came of two lines, or of what a line ended and itself. What else was left out goes into `left`.
fn both(first: Fed, second: Fed, left: &mut Vec<Fed>) -> Fed {
    let (fed, other) = match (first, second) {
        (Fed::Observed(n), Fed::Observed(more)) => (Fed::Observed(n + more), Fed::Partial),
        (fed @ Fed::Observed(n), other) | (other, fed @ Fed::Observed(n)) if n > 0 => (fed, other),
        (fed @ Fed::Malformed(_), other) | (other, fed @ Fed::Malformed(_)) => (fed, other),
        (other, fed) => (fed, other),
    };
    left.extend(other.left());
    fed
}

fn or_ignored(fed: Fed, what: &'static str) -> Fed {
    match fed {
        Fed::Partial => Fed::Ignored(what),
        fed => fed,
    }
}

/// True for the begin of a message that a blank line does not end: Kyverno's paragraphs (1.11: pkg/webhooks/utils/block.go,
/// `GetBlockedMessages`), and what a colon announces.
fn goes_on(message: &str) -> bool {
    let message = message.trim_end();
    message.ends_with(':') || message.ends_with(" was blocked due to the following policies")
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// `Name:  web-0`, which is the first line of each description.
fn is_name(text: &str) -> bool {
    let rest = text.trim_start().strip_prefix("Name:");
    rest.is_some_and(|r| r.starts_with([' ', '\t']) && !r.trim().is_empty())
}

/// The titles of a table of any objects.
pub(super) fn is_titles(text: &str) -> bool {
    let is_title = |w: &str| {
        let of_title = |b: u8| b.is_ascii_uppercase() || b"-()".contains(&b);
        w.bytes().all(of_title)
    };
    text.starts_with("NAME") && text.split_whitespace().all(is_title)
}

/// `----     ------   ----`
fn is_ruler(text: &str) -> bool {
    text.chars().all(|c| c == '-' || c.is_whitespace())
}
