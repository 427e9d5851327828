//! Tables of Events: below `kubectl describe`, and of `kubectl get events` and `kubectl events`, of every release.
//!
//! kubectl aligns columns with blanks, so a cell is what stands below its title. Where that does not hold (blanks that
//! became one, tabs, lines that were indented anew on their way through a ticket), a row is read from the left, and
//! what stands in a column has to look like it.

use super::age::{Ages, age, ages, word};
use kflow_model::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Namespace,
    /// `AGE`, `LAST SEEN`: with `(x9 over 6m40s)` or without.
    Last,
    First,
    Count,
    Type,
    Reason,
    /// `kind/name`, or the name alone beside a column with the kind.
    Object,
    Kind,
    /// A part of the object: `spec.containers{web}`.
    Subobject,
    From,
    Message,
    /// Name of the Event itself.
    Name,
}

/// A row, as it stands there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) namespace: String,
    pub(super) kind: String,
    pub(super) object: String,
    pub(super) subobject: String,
    pub(super) warning: bool,
    pub(super) reason: String,
    pub(super) ages: Ages,
    pub(super) component: String,
    pub(super) host: String,
    pub(super) message: String,
    pub(super) name: String,
    /// When it was, where a line says it.
    pub(super) at: Option<Nanos>,
    /// True if it is of a description, though not of one that is read: its object was there when kubectl ran.
    pub(super) is_described: bool,
}

/// The columns of a table, from its line of titles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    /// Each with the character at which its title begins, from the first title on.
    columns: Vec<(usize, Column)>,
    /// Number of characters before the first title.
    indent: usize,
}

impl Columns {
    /// Reads a line of titles; `None` for every other line.
    pub(super) fn of_titles(line: &str) -> Option<Self> {
        let indent = line.chars().take_while(|c| c.is_whitespace()).count();
        let apart = cells(line.trim()).into_iter();
        let apart = apart.map(|(at, title)| Some((at, column(title)?)));
        // Blanks that became one say nothing about where a column begins.
        let words = || {
            let joined = line
                .replace("LAST SEEN", "LASTSEEN")
                .replace("FIRST SEEN", "FIRSTSEEN");
            let all = joined
                .split_whitespace()
                .map(|title| Some((0, column(title)?)));
            all.collect::<Option<Vec<_>>>()
        };
        let mut columns = apart.collect::<Option<Vec<_>>>().or_else(words)?;
        let has = |c: Column| columns.iter().any(|(_, have)| *have == c);
        if !has(Column::Reason) || !has(Column::Message) {
            return None;
        }
        // Before Kubernetes 1.14 the object's name and kind had a column each.
        if has(Column::Kind) && !has(Column::Object) {
            for (_, c) in &mut columns {
                if *c == Column::Name {
                    *c = Column::Object;
                }
            }
        }
        Some(Self { columns, indent })
    }

    /// The columns of `kubectl describe`, for rows whose line of titles is missing.
    pub(super) fn of_describe() -> Self {
        use Column::{From, Last, Message, Reason, Type};
        Self {
            columns: [Type, Reason, Last, From, Message].map(|c| (0, c)).into(),
            indent: 0,
        }
    }

    /// The same, of rows that lost their age.
    pub(super) fn without_age() -> Self {
        use Column::{From, Message, Reason, Type};
        Self {
            columns: [Type, Reason, From, Message].map(|c| (0, c)).into(),
            indent: 0,
        }
    }

    /// The columns of `kubectl get events`, and with `-A`.
    pub(super) fn of_list(of_all: bool) -> Self {
        use Column::{Last, Message, Namespace, Object, Reason, Type};
        let namespace = of_all.then_some(Namespace);
        let columns = [Last, Type, Reason, Object, Message];
        Self {
            columns: namespace
                .into_iter()
                .chain(columns)
                .map(|c| (0, c))
                .collect(),
            indent: 0,
        }
    }

    /// The columns of `kubectl get events -o wide` up to the message, and with `-A`. What stands behind the message is left in it:
    /// [`Row::without_end`].
    pub(super) fn of_wide_list(of_all: bool) -> Self {
        use Column::{From, Last, Message, Namespace, Object, Reason, Subobject, Type};
        let namespace = of_all.then_some(Namespace);
        let columns = [Last, Type, Reason, Object, Subobject, From, Message];
        Self {
            columns: namespace
                .into_iter()
                .chain(columns)
                .map(|c| (0, c))
                .collect(),
            indent: 0,
        }
    }

    /// The columns before Kubernetes 1.6 and kubectl 1.8 (`FirstSeen LastSeen Count From SubObjectPath Type Reason Message`),
    /// the type being missing before 1.2.
    pub(super) fn of_old_describe(has_type: bool) -> Self {
        use Column::{Count, First, From, Last, Message, Reason, Subobject, Type};
        let front = [First, Last, Count, From, Subobject];
        let columns = front.into_iter().chain(has_type.then_some(Type));
        Self {
            columns: columns.chain([Reason, Message]).map(|c| (0, c)).collect(),
            indent: 0,
        }
    }

    /// The columns of `kubectl get events` of 1.12 and 1.13.
    pub(super) fn of_kind() -> Self {
        use Column::{Kind, Last, Message, Reason, Type};
        Self {
            columns: [Last, Type, Reason, Kind, Message].map(|c| (0, c)).into(),
            indent: 0,
        }
    }

    /// The columns of `kubectl get events` before kubectl 1.14.
    pub(super) fn of_old_list(of_all: bool) -> Self {
        use Column::{Count, First, From, Kind, Last, Message, Namespace, Object, Reason};
        use Column::{Subobject, Type};
        let front = [Last, First, Count, Object, Kind, Subobject, Type, Reason];
        let columns = of_all.then_some(Namespace).into_iter().chain(front);
        Self {
            columns: columns.chain([From, Message]).map(|c| (0, c)).collect(),
            indent: 0,
        }
    }

    /// True if each row names the object that it is about.
    pub(super) fn has_objects(&self) -> bool {
        self.columns.iter().any(|(_, c)| *c == Column::Object)
    }

    /// Reads a row. `None` for a line that is none: a ruler, or the next line of a message.
    pub(super) fn row(&self, line: &str) -> Option<Row> {
        self.aligned(line).or_else(|| self.in_order(line))
    }

    /// True for a row that was cut before its message: two ages, or a type among its first two words. A line of a message has neither.
    pub(super) fn is_begun(&self, line: &str) -> bool {
        let is_type = |word: &str| matches!(word, "Normal" | "Warning");
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut row = Row::default();
        let mut rest = line.trim();
        let mut told = 0;
        for (_, column) in &self.columns {
            let before = rest;
            match row.next(*column, rest) {
                Some(after) if *column != Column::Message => rest = after.trim_start(),
                _ => return false,
            }
            told += usize::from(rest.len() < before.len());
            if rest.is_empty() {
                break;
            }
        }
        let is_age = |word: &&&str| age(word).is_some();
        let ages = words.iter().take_while(is_age).count();
        // `3m17s (x199 over 46m)  Warning`
        let behind_age =
            super::age::ages(line).and_then(|(_, rest)| rest.split_whitespace().next());
        let has_type = words.iter().take(2).any(|w| is_type(w)) || behind_age.is_some_and(is_type);
        rest.is_empty() && told > 1 && (ages > 1 || has_type)
    }

    /// Takes what stands below each title.
    fn aligned(&self, line: &str) -> Option<Row> {
        let begins: Vec<usize> = self.columns.iter().map(|(at, _)| *at).collect();
        let mut row = Row::default();
        for ((_, column), cell) in self.columns.iter().zip(below(&begins, self.indent, line)?) {
            row.take(*column, &cell)?;
        }
        (!row.reason.is_empty()).then_some(row)
    }

    /// Takes one cell after the other. A column that what comes next does not look like is empty.
    fn in_order(&self, line: &str) -> Option<Row> {
        let mut row = Row::default();
        let mut rest = line.trim();
        let message = |(_, c): &(usize, Column)| *c == Column::Message;
        let at = self.columns.iter().position(message)?;
        let (before, after) = self.columns.split_at_checked(at)?;
        for (_, column) in before {
            rest = row.next(*column, rest)?.trim_start();
        }
        // What comes after the message is read from the end.
        for (_, column) in after.iter().skip(1).rev() {
            let (left, cell) = rest.rsplit_once("  ").or_else(|| rest.rsplit_once('\t'))?;
            row.take(*column, cell.trim())?;
            rest = left.trim_end();
        }
        row.take(Column::Message, rest)?;
        Some(row)
    }
}

impl Row {
    /// Takes off what a wide list has behind the message: `FIRST SEEN`, `COUNT` and `NAME`, which is that of the Event.
    pub(super) fn without_end(mut self) -> Self {
        let message = self.message.trim_end();
        let behind = message.rsplit_once(char::is_whitespace);
        let behind = behind.filter(|(_, name)| of_event(name) != *name);
        let counted = behind.and_then(|(rest, name)| {
            let (rest, count) = rest.trim_end().rsplit_once(char::is_whitespace)?;
            Some((rest.trim_end(), count.parse().ok()?, name.to_owned()))
        });
        let Some((rest, count, name)) = counted else {
            return self;
        };
        let is_age = |text: &str| age(text).is_some() || text.starts_with('<');
        let dated = rest.rsplit_once("  ").filter(|(_, first)| is_age(first));
        let (rest, first) = dated.unwrap_or((rest, ""));
        self.ages.first = age(first).or(self.ages.first);
        self.ages.count = Some(count);
        self.name = name;
        // What is left is the front of the message.
        let left = rest.trim_end().len();
        self.message.truncate(left);
        self
    }

    /// Takes the front of `text` for a column, and returns the rest. `None` where a row must have something else.
    fn next<'a>(&mut self, column: Column, text: &'a str) -> Option<&'a str> {
        let (one, rest) = word(text);
        match column {
            Column::Last => {
                let (found, rest) = ages(text)?;
                self.ages.last = found.last;
                self.ages.first = found.first.or(self.ages.first);
                self.ages.count = found.count.or(self.ages.count);
                Some(rest)
            }
            Column::Subobject if !is_part(one) => Some(text),
            Column::From => {
                // `kubelet, node1`, and `{kubelet node1}` of old.
                if let Some((inside, rest)) = text.strip_prefix('{').and_then(|t| t.split_once('}'))
                {
                    self.take(column, inside)?;
                    return Some(rest);
                }
                let (component, host) = match one.strip_suffix(',') {
                    Some(component) => (component, Some(word(rest))),
                    None => (one, None),
                };
                if !is_component(component) {
                    return Some(text);
                }
                let rest = host.map_or(rest, |(_, rest)| rest);
                // A message may begin with a word like a component's. A component has two blanks behind it.
                let apart = rest.starts_with("  ") || rest.starts_with('\t');
                if !apart && host.is_none() && !is_known(component) {
                    return Some(text);
                }
                component.clone_into(&mut self.component);
                host.map_or("", |(host, _)| host).clone_into(&mut self.host);
                Some(rest)
            }
            _ => self.take(column, one).map(|()| rest),
        }
    }

    /// Takes a whole cell. `None` where it cannot be of that column.
    fn take(&mut self, column: Column, cell: &str) -> Option<()> {
        match column {
            Column::Type => match cell {
                "Normal" | "" => {}
                "Warning" => self.warning = true,
                _ => return None,
            },
            Column::Last => {
                let (found, rest) = ages(cell)?;
                if !rest.trim().is_empty() {
                    return None;
                }
                self.ages = Ages {
                    last: found.last,
                    first: found.first.or(self.ages.first),
                    count: found.count.or(self.ages.count),
                };
            }
            Column::First => {
                let first = age(cell);
                if first.is_none() && !cell.starts_with('<') {
                    return None;
                }
                self.ages.first = first;
            }
            Column::Count => self.ages.count = Some(cell.parse().ok()?),
            Column::Reason => {
                // One word of letters: anything else is a ruler, or the middle of a message.
                if cell.is_empty() || !cell.chars().all(|c| c.is_ascii_alphanumeric()) {
                    return None;
                }
                cell.clone_into(&mut self.reason);
            }
            Column::Object => match cell.split_once('/') {
                Some((kind, name)) => {
                    kind.clone_into(&mut self.kind);
                    name.clone_into(&mut self.object);
                }
                None => of_event(cell).clone_into(&mut self.object),
            },
            Column::Subobject => {
                if !cell.is_empty() && !is_part(cell) {
                    return None;
                }
                cell.clone_into(&mut self.subobject);
            }
            Column::From => {
                let cell = cell.trim_start_matches('{').trim_end_matches('}').trim();
                let (component, host) = cell
                    .split_once(", ")
                    .or_else(|| cell.split_once(' '))
                    .unwrap_or((cell, ""));
                component.clone_into(&mut self.component);
                host.trim().clone_into(&mut self.host);
            }
            Column::Namespace => cell.clone_into(&mut self.namespace),
            Column::Kind => cell.clone_into(&mut self.kind),
            Column::Message => cell.clone_into(&mut self.message),
            Column::Name => cell.clone_into(&mut self.name),
        }
        Some(())
    }
}

/// Returns the object's name: 1.9 to 1.13 print that of the Event itself, which is the object's, a dot, and a number of 16
/// hexadecimal digits (client-go/tools/record/event.go, `makeEvent`).
fn of_event(name: &str) -> &str {
    let is_number =
        |n: &str| (14..=16).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_hexdigit());
    match name.rsplit_once('.') {
        Some((object, number)) if is_number(number) => object,
        _ => name,
    }
}

fn column(title: &str) -> Option<Column> {
    let plain: String = title
        .chars()
        .filter(char::is_ascii_alphabetic)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    Some(match plain.as_str() {
        "namespace" => Column::Namespace,
        "age" | "lastseen" => Column::Last,
        "firstseen" => Column::First,
        "count" => Column::Count,
        "type" => Column::Type,
        "reason" => Column::Reason,
        "object" => Column::Object,
        "kind" => Column::Kind,
        "subobject" | "subobjectpath" => Column::Subobject,
        "from" | "source" => Column::From,
        "message" => Column::Message,
        "name" => Column::Name,
        _ => return None,
    })
}

/// Returns what stands below each title. `begins`: the characters at which the titles begin, from the first title on, which is at
/// `indent`. `None` for a line that is not aligned with them: there are two blanks before each title.
pub(super) fn below(begins: &[usize], indent: usize, line: &str) -> Option<Vec<String>> {
    let chars: Vec<char> = line.chars().skip(indent).collect();
    let ends = begins.iter().skip(1).copied().chain([chars.len()]);
    let cell = |(n, (from, to)): (usize, (&usize, usize))| {
        if n > 0 {
            let before = chars.get(from.checked_sub(2)?..(*from).min(chars.len()));
            if before.is_some_and(|b| b.iter().any(|c| *c != ' ')) {
                return None;
            }
        }
        let cell = chars.get((*from).min(chars.len())..to.min(chars.len()));
        let cell: String = cell.unwrap_or_default().iter().collect();
        Some(cell.trim().to_owned())
    };
    begins.iter().zip(ends).enumerate().map(cell).collect()
}

/// The cells of a line, apart by two blanks or a tab, each with the character at which it begins.
pub(super) fn cells(line: &str) -> Vec<(usize, &str)> {
    let mut out = Vec::new();
    let mut at = 0;
    let mut rest = line;
    while !rest.is_empty() {
        let blanks = rest.chars().take_while(|c| c.is_whitespace()).count();
        rest = rest.trim_start();
        at += blanks;
        let end = rest.find("  ").unwrap_or(rest.len());
        let end = end.min(rest.find('\t').unwrap_or(rest.len()));
        let Some((cell, after)) = rest.split_at_checked(end) else {
            break;
        };
        if !cell.is_empty() {
            out.push((at, cell));
        }
        at += cell.chars().count();
        rest = after;
    }
    out
}

fn is_part(word: &str) -> bool {
    word.starts_with("spec.") || word.starts_with("status.")
}

fn is_component(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-./_:".contains(c))
}

/// Components that write Events about pods, known even when nothing but one blank is left behind their names.
fn is_known(component: &str) -> bool {
    component == "kubelet"
        || component.ends_with("scheduler")
        || component.ends_with("controller")
        || component.ends_with("autoscaler")
        || component.starts_with("karpenter")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Option<Row>> {
        let mut lines = text.lines();
        let columns = Columns::of_titles(lines.next().unwrap()).unwrap();
        lines.map(|l| columns.row(l)).collect()
    }

    fn short(row: &Row) -> String {
        format!(
            "{}|{}|{}|{}|{}|{}",
            row.reason,
            row.ages.last.map_or(-1, |a| a.seconds),
            row.ages.count.unwrap_or(1),
            row.component,
            row.host,
            row.message
        )
    }

    /// Written by hand after k8s.io/kubectl/pkg/describe/describe.go, `DescribeEvents`, of the releases 1.20, 1.5 and 1.2,
    /// and after what becomes of it in a page of HTML.
    #[test]
    fn a_row_is_read_however_it_stands_there() {
        for (text, want) in [
            (
                "  Type     Reason       Age                    From               Message\n  \
                   Warning  FailedMount  28s (x9 over 6m40s)    kubelet            MountVolume.SetUp failed for volume \"a\" : x",
                "FailedMount|28|9|kubelet||MountVolume.SetUp failed for volume \"a\" : x",
            ),
            (
                "Type Reason Age From Message\nWarning FailedMount 28s (x9 over 6m40s) kubelet, node1 Unable to mount",
                "FailedMount|28|9|kubelet|node1|Unable to mount",
            ),
            (
                "  Type    Reason     Age        From  Message\n  Normal  Scheduled  <unknown>        Successfully assigned a/b to c",
                "Scheduled|-1|1|||Successfully assigned a/b to c",
            ),
            (
                "  FirstSeen\tLastSeen\tCount\tFrom\t\t\tSubObjectPath\tType\t\tReason\t\tMessage\n  \
                   14m\t\t39s\t\t7\tkubelet, gke-1\t\t\tWarning\t\tFailedMount\tUnable to mount",
                "FailedMount|39|7|kubelet|gke-1|Unable to mount",
            ),
            (
                "  FirstSeen\tLastSeen\tCount\tFrom\t\t\tSubObjectPath\tType\t\tReason\t\tMessage\n  \
                   14m\t\t39s\t\t7\t{kubelet gke-1}\tspec.containers{a}\t\tWarning\t\tFailed\tError: x",
                "Failed|39|7|kubelet|gke-1|Error: x",
            ),
        ] {
            let row = rows(text).remove(0).unwrap();
            assert_eq!(short(&row), want, "{text}");
        }
    }

    #[test]
    fn lists_of_all_objects_are_read() {
        let got = rows(
            "LAST SEEN   TYPE      REASON    OBJECT                     SUBOBJECT                SOURCE           MESSAGE                    FIRST SEEN   COUNT   NAME\n\
             10m         Normal    Pulled    pod/web-0                  spec.containers{main}    kubelet, node1   Container image \"x\" here   20m          3       web-0.17d\n\
             <unknown>   Warning   FailedCreate   replicaset/web                            replicaset-controller   Error creating   20m          1       web.17e",
        );
        let web = got.first().unwrap().as_ref().unwrap();
        assert_eq!(
            short(web),
            "Pulled|600|3|kubelet|node1|Container image \"x\" here"
        );
        assert_eq!((web.kind.as_str(), web.object.as_str()), ("pod", "web-0"));
        assert_eq!(web.subobject, "spec.containers{main}");
        assert_eq!(web.name, "web-0.17d");
        let set = got.get(1).unwrap().as_ref().unwrap();
        assert_eq!(
            short(set),
            "FailedCreate|-1|1|replicaset-controller||Error creating"
        );
        assert_eq!(set.kind, "replicaset");
    }

    #[test]
    fn what_is_no_row_is_none() {
        let got = rows(
            "  Type     Reason       Age   From     Message\n  ----     ------       ----  ----     -------\n\
             Mounting command: systemd-run\n\n  Normal",
        );
        assert!(got.iter().all(Option::is_none), "{got:?}");
        assert_eq!(Columns::of_titles("NAME  READY  STATUS"), None);
        assert_eq!(Columns::of_titles("Type  Status"), None);
        assert_eq!(Columns::of_titles(""), None);
    }
}
