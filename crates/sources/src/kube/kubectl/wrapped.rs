//! Lines that were cut on their way into a ticket: by a terminal at its width, wherever that is, or by a mail program behind a word.
//!
//! A text says nowhere that it was cut. It is known by its lines: no line of a block is longer than the width, those that go on have
//! just that length (or had no room for the next word), and what follows them begins nothing that any command or log prints.
//! A message that has several lines of its own has such lines only by chance, so one is not enough. Lines that are alike word by word
//! (a command that was given twice, a program's log) are of one length without having been cut.

use rustc_hash::FxHashSet;

use super::super::super::{journal, klog};
use super::Moment;
use super::age::age;
use super::command::Command;
use super::fragment;
use super::line::is_titles;
use super::listed;
use super::outline::indent;
use super::pods::{self, is_name};
use super::table::cells;
use super::ticket;
use super::waiting::Waiting;
use kflow_model::Nanos;

/// A text whose lines were put together again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    pub text: String,
    /// The greatest width at which lines were cut, in characters.
    pub width: usize,
    /// Number of lines that are gone.
    pub lines: usize,
}

/// Widths at which something cuts lines, in characters.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=400;
/// Widths that many terminals have: a single cut line is known by it.
const USUAL: [usize; 5] = [80, 100, 120, 132, 160];
/// Cut lines that are no chance.
const ENOUGH: usize = 2;
/// A longer word goes into a line of its own in any text, characters.
const LONG_WORD: usize = 24;

/// Puts the lines of a text together that were cut. `None` where none was.
pub fn joined(text: &str) -> Option<Joined> {
    let blocks = Block::all(text);
    let widths = Widths::of(&blocks);
    let mut out = String::with_capacity(text.len());
    let mut lines = 0;
    let mut width = 0;
    for block in &blocks {
        let cut = widths.cut(block);
        let mut is_read = false;
        let mut is_joined = false;
        for (at, line) in block.lines.iter().enumerate() {
            out.push_str(line.text);
            is_read = line.is_known || is_joined && is_read;
            let Some(next) = block.lines.get(at + 1) else {
                out.push_str(line.end);
                continue;
            };
            let glue = cut.filter(|_| is_read);
            let glue = glue.and_then(|cut| cut.glue(line, next));
            is_joined = glue.is_some();
            match glue {
                Some(glue) => {
                    lines += 1;
                    width = width.max(cut.map_or(0, Cut::width));
                    out.push_str(glue);
                }
                None => out.push_str(line.end),
            }
        }
    }
    (lines > 0).then_some(Joined {
        text: out,
        width,
        lines,
    })
}

/// How the lines of a block were cut, and at how many characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Anywhere(usize),
    BehindWords(usize),
}

impl Cut {
    const fn width(self) -> usize {
        let (Self::Anywhere(width) | Self::BehindWords(width)) = self;
        width
    }

    /// Returns what stood between a line and the next one, if these were one line.
    fn glue(self, line: &Line<'_>, next: &Line<'_>) -> Option<&'static str> {
        match self {
            Self::Anywhere(width) if line.length == width => next.follows(line).then_some(""),
            // Copying leaves out the blank at which it was cut.
            Self::Anywhere(width) if line.length + 1 == width => {
                (next.begins == Begins::Nothing).then_some(" ")
            }
            Self::BehindWords(_) => (next.begins == Begins::Nothing).then_some(" "),
            Self::Anywhere(_) => None,
        }
    }
}

/// The widths at which the lines of a text were cut.
struct Widths {
    anywhere: Vec<usize>,
    behind_words: Vec<usize>,
}

impl Widths {
    fn of(blocks: &[Block<'_>]) -> Self {
        let behind_words: Vec<usize> = blocks.iter().filter_map(Block::width_of_words).collect();
        let mut anywhere: Vec<usize> = blocks.iter().map(|b| b.longest).collect();
        anywhere.sort_unstable();
        anywhere.dedup();
        anywhere.retain(|width| {
            let of_width = blocks.iter().filter(|b| b.longest == *width);
            let of_width = of_width.filter(|b| b.width_of_words().is_none());
            let (mut cut, mut whole) = (FxHashSet::default(), 0);
            // Prose may have one line of just that length.
            let mut is_of_row = true;
            for (line, next) in of_width.flat_map(|b| b.read(Cut::Anywhere(*width))) {
                if line.length == *width && line.has_words() {
                    is_of_row &= line.begins != Begins::Nothing;
                    if next.follows(line) {
                        cut.insert(line.shape());
                    } else {
                        whole += 1;
                    }
                }
            }
            let cut = cut.len();
            // Few lines of words may be full by chance.
            let is_usual = USUAL.contains(width)
                && cut > 0
                && whole == 0
                && is_of_row
                && behind_words.is_empty();
            WIDTHS.contains(width) && (cut >= ENOUGH && whole * 4 <= cut || is_usual)
        });
        Self {
            anywhere,
            behind_words,
        }
    }

    fn cut(&self, block: &Block<'_>) -> Option<Cut> {
        let mut widths = self.behind_words.iter().max().into_iter();
        let behind_words =
            widths.find(|width| block.is_cut_behind_words(**width).is_some_and(|n| n > 0));
        let anywhere = self.anywhere.contains(&block.longest);
        match behind_words {
            Some(width) if !anywhere || block.is_ragged(*width) => Some(Cut::BehindWords(*width)),
            _ => anywhere.then_some(Cut::Anywhere(block.longest)),
        }
    }
}

/// Lines between two that are blank, or begin or end a code block.
#[derive(Debug, Default)]
struct Block<'a> {
    lines: Vec<Line<'a>>,
    /// Length of the longest line, characters.
    longest: usize,
    table: Option<Titles>,
}

/// What the titles of a table say about its rows.
#[derive(Clone, Copy, Debug)]
enum Titles {
    /// Of Events, each of which begins with ages; what is of which type stands behind them.
    Ages,
    /// Of pods, each of which has a number of containers that are ready: `0/1`.
    Ready,
    /// So many cells.
    Others(usize),
}

impl Titles {
    fn of(line: &str) -> Option<Self> {
        const AGES: [&str; 4] = ["FirstSeen", "LastSeen", "FIRST SEEN", "LAST SEEN"];
        let titles = line.trim_start_matches(['`', ' ', '\t']);
        if AGES.iter().any(|title| titles.starts_with(title)) {
            return Some(Self::Ages);
        }
        is_titles(titles).then(|| {
            // In a table of ReplicaSets and DaemonSets it is a number beside that of those that are wanted.
            if titles.contains("READY") && !titles.contains("DESIRED") {
                Self::Ready
            } else {
                Self::Others(cells(titles).len())
            }
        })
    }

    /// True for the begin of a row, as far as that can be told.
    fn begins_row(self, text: &str) -> bool {
        let cells = || cells(text).len();
        match self {
            Self::Ages => text.split_whitespace().take(2).any(|w| age(w).is_some()),
            Self::Ready => text.split_whitespace().any(is_ready),
            Self::Others(titles) => cells() >= 3 && cells() * 2 > titles,
        }
    }
}

fn begins_with_ages(text: &str) -> bool {
    let mut words = text.split_whitespace();
    words.next().is_some_and(|w| age(w).is_some()) && words.next().is_some_and(|w| age(w).is_some())
}

fn is_ready(word: &str) -> bool {
    let is_number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    word.split_once('/')
        .is_some_and(|(ready, all)| is_number(ready) && is_number(all))
}

impl<'a> Block<'a> {
    fn all(text: &'a str) -> Vec<Self> {
        let mut out = vec![Self::default()];
        for line in text.split_inclusive('\n') {
            let content = line.trim_end_matches(['\n', '\r']);
            let (content, end) = line.split_at_checked(content.len()).unwrap_or((line, ""));
            let is_apart = content.trim().is_empty() || ticket::is_fence(content);
            if is_apart {
                out.push(Self::default());
            }
            if let Some(block) = out.last_mut() {
                block.push(content, end);
            }
            if is_apart {
                out.push(Self::default());
            }
        }
        out
    }

    fn push(&mut self, text: &'a str, end: &'a str) {
        let titles = Titles::of(text);
        self.table = titles.or(self.table);
        let is_row = |table: Titles| table.begins_row(text.trim());
        // The middle of such a row may have the type.
        let is_middle = matches!(self.table, Some(Titles::Ages)) && is_event(text.trim());
        let is_read = titles.is_some()
            || self.table.is_some_and(is_row)
            || begins_what_is_read(text) && !is_middle;
        let begins = if is_read || ticket::begins_other_text(text).is_some() {
            Begins::Something
        } else if indent(text) > 1 {
            Begins::Deeper
        } else {
            Begins::Nothing
        };
        let length = text.chars().count();
        self.longest = self.longest.max(length);
        let is_known = match begins {
            Begins::Something => is_read,
            Begins::Deeper => self.table.is_some() || is_below_a_key(text.trim()),
            Begins::Nothing => is_message(text),
        };
        self.lines.push(Line {
            text,
            end,
            length,
            begins,
            is_known,
        });
    }

    /// The pairs of which the first is a line that is read, or goes on with one.
    fn read(&self, cut: Cut) -> impl Iterator<Item = (&Line<'a>, &Line<'a>)> {
        let mut goes_on = false;
        self.pairs().filter(move |(line, next)| {
            let is_read = line.is_known || goes_on;
            goes_on = is_read && cut.glue(line, next).is_some();
            is_read
        })
    }

    fn pairs(&self) -> impl Iterator<Item = (&Line<'a>, &Line<'a>)> {
        self.lines.iter().zip(self.lines.iter().skip(1))
    }

    /// Returns the least width at which these lines can have been cut behind words, if enough of them were.
    fn width_of_words(&self) -> Option<usize> {
        let several = self.lines.iter().filter(|l| l.words() > 1);
        let width = several.map(|l| l.length).max()?;
        let is_cut = || self.is_cut_behind_words(width).is_some_and(|n| n >= ENOUGH);
        (WIDTHS.contains(&width) && self.is_ragged(width) && is_cut()).then_some(width)
    }

    /// True if a line that goes on is shorter than this width, which a terminal leaves to none. It may have lost the blank at its end.
    fn is_ragged(&self, width: usize) -> bool {
        let mut going_on = self.pairs().filter(|(_, n)| n.begins == Begins::Nothing);
        going_on.any(|(line, _)| line.length + 1 < width)
    }

    /// Returns how many lines tell that they were cut at this width: there was no room for the next word. `None` where a line tells
    /// the contrary.
    fn is_cut_behind_words(&self, width: usize) -> Option<usize> {
        if self.lines.iter().any(|l| l.length > width && l.words() > 1) {
            return None;
        }
        let mut told = 0;
        let read = self.read(Cut::BehindWords(width));
        for (line, next) in read.filter(|(_, n)| n.begins == Begins::Nothing) {
            let word = next.text.split_whitespace().next().unwrap_or_default();
            let word = word.chars().count();
            if line.length + 1 + word <= width {
                // Between columns were more blanks than one.
                if line.text.trim().contains("  ") {
                    continue;
                }
                return None;
            }
            told += usize::from(word <= LONG_WORD && line.length <= width);
        }
        Some(told)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    /// The begin of what a command or a log prints.
    Something,
    /// It is indented, so it begins something or is the middle of columns.
    Deeper,
    Nothing,
}

#[derive(Debug)]
struct Line<'a> {
    text: &'a str,
    /// The line feed, and what stands before it.
    end: &'a str,
    /// Length of the text, characters.
    length: usize,
    begins: Begins,
    /// True for the begin of what is read. Rows of `df`, `ps` or `docker ps` may all be of one length.
    is_known: bool,
}

impl Line<'_> {
    /// True if this may be the rest of a line that was cut.
    fn follows(&self, line: &Line<'_>) -> bool {
        match self.begins {
            Begins::Something => false,
            Begins::Deeper => line.text.ends_with(' '),
            Begins::Nothing => true,
        }
    }

    /// The lengths of its words.
    fn shape(&self) -> Vec<usize> {
        let words = self.text.split_whitespace();
        words.map(|word| word.chars().count()).collect()
    }

    fn words(&self) -> usize {
        self.text.split_whitespace().count()
    }

    /// False for a ruler.
    fn has_words(&self) -> bool {
        self.text.contains(char::is_alphanumeric)
    }
}

/// True for a line that begins something that is read, whatever stands before it: a row, a key, a line of a log, a command.
fn begins_what_is_read(line: &str) -> bool {
    let text = line.trim();
    is_event(text)
        || is_key(text)
        || is_of_document(text)
        || is_logged(text)
        || Command::of(line).is_some()
        || is_row(text)
}

/// A line of YAML, or of a description below a key.
fn is_below_a_key(text: &str) -> bool {
    let (first, _) = text.split_once(' ').unwrap_or((text, ""));
    first.ends_with(':') || first.starts_with(['-', '"', '/'])
}

/// A message that is read wherever it stands, or a line of klog of which the begin is missing.
fn is_message(text: &str) -> bool {
    text.contains(".go:") || fragment::row(text).is_some() || Waiting::of(text).is_some()
}

/// A row of a table without its titles: of pods, nodes, claims, or what `kubectl get all` names with its kind.
fn is_row(text: &str) -> bool {
    let listed = |of_claims| listed::Table::of_row(text, of_claims, "", Moment(Nanos(0))).is_some();
    let of_kind = || {
        let cells = cells(text);
        // The namespace may stand before it.
        let is_named = |(_, cell): &(usize, &str)| {
            let named = cell.split_once('/');
            named.is_some_and(|(kind, name)| is_name(kind) && is_name(name))
        };
        cells.len() > 2 && cells.iter().take(2).any(is_named)
    };
    // Other programs print such tables with single blanks.
    let of_pod = || {
        let mut words = text.split_whitespace();
        words.next().is_some_and(is_name) && words.next().is_some_and(is_ready)
    };
    pods::Columns::of_row(text).is_some() || listed(false) || listed(true) || of_kind() || of_pod()
}

/// A row of Events, whole or cut: `Warning  Failed`, `3m  Warning  Failed`, `shop  3m (x4 over 9m)  Warning  Failed`; of old releases
/// `1h  2h  9  web-0`.
fn is_event(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().take(7).collect();
    let is_type = |word: &&str| matches!(*word, "Normal" | "Warning");
    let counts = words
        .get(1..3)
        .into_iter()
        .flatten()
        .any(|word| word.starts_with("(x"));
    let before = if counts { 5 } else { 3 };
    let Some(at) = words.iter().position(is_type).filter(|at| *at <= before) else {
        return begins_with_ages(text);
    };
    let reason = words.get(at + 1).copied().unwrap_or_default();
    reason.starts_with(|c: char| c.is_ascii_uppercase())
        && reason.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// A key of what `kubectl describe` prints: `Node:  node1`.
pub(super) fn is_key(text: &str) -> bool {
    let Some((key, value)) = text.split_once(':') else {
        return false;
    };
    let of_key = |c: char| c.is_ascii_alphanumeric() || " ./_-()".contains(c);
    let is_apart = value.is_empty() || value.starts_with("  ") || value.starts_with('\t');
    is_apart && key.starts_with(|c: char| c.is_ascii_alphabetic()) && key.chars().all(of_key)
}

/// A line of YAML or JSON.
fn is_of_document(text: &str) -> bool {
    const KEYS: [&str; 8] = [
        "apiVersion:",
        "kind:",
        "metadata:",
        "spec:",
        "status:",
        "items:",
        "data:",
        "---",
    ];
    let is_mark = || text.len() <= 2 && text.starts_with(['{', '}', '[', ']']);
    is_mark()
        || text.starts_with("- ")
        || text.starts_with("{\"")
        || is_member(text)
        || KEYS.iter().any(|key| text.starts_with(key))
}

/// A member of an object in JSON: `"name": "web-0",`.
pub(super) fn is_member(text: &str) -> bool {
    let member = text.strip_prefix('"').and_then(|t| t.split_once("\":"));
    member.is_some_and(|(_, value)| {
        let value = value.trim_start();
        value.starts_with(|c: char| c.is_ascii_digit() || "\"{[-".contains(c))
            || ["true", "false", "null"].contains(&value.trim_end_matches(','))
    })
}

fn is_logged(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let is_date = (0..4).all(is_digit) && matches!(bytes.get(4), Some(b'-' | b'/'));
    // `Apr 28 09:35:34`, in any language.
    let mut words = text.split_whitespace().skip(1);
    let is_day = words
        .next()
        .is_some_and(|day| day.len() <= 2 && day.bytes().all(|b| b.is_ascii_digit()));
    let is_stamp = is_day
        && words
            .next()
            .is_some_and(|time| time.split(':').count() == 3);
    // `[766396.293089] XFS (sdf): …`
    let of_kernel = text.strip_prefix('[').and_then(|t| t.split_once("] "));
    let is_of_kernel = of_kernel.is_some_and(|(seconds, _)| {
        let seconds = seconds.trim_start();
        !seconds.is_empty() && seconds.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    });
    is_date
        || is_stamp
        || is_of_kernel
        || text.starts_with("time=\"")
        || klog::has_header(bytes)
        || journal::writer(bytes).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts lines as a terminal does.
    fn terminal(text: &str, width: usize) -> String {
        let line = |line: &str| {
            let chars: Vec<char> = line.chars().collect();
            let pieces = chars.chunks(width).map(|c| c.iter().collect::<String>());
            pieces.collect::<Vec<_>>().join("\n")
        };
        text.lines().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_message_with_lines_of_its_own_stays_as_it_is() {
        for text in [
            "  Warning  Failed  8s (x4 over 93s)  kubelet  Error: container create failed: x\nsecond line\nthird\n",
            "Error from server: admission webhook \"validate.kyverno.svc-fail\" denied the request: \n\nresource Pod/shop/web-0 was blocked\n\nrequire-labels:\n  check: x\n",
            "",
            "\n",
            // zhangguanzhang.github.io, 2022/02/10 and 2020/10/20: `ps` and `ip a`; no line of it is read.
            "root      5384  0.0  0.0 117656  8956 ?        S    Feb09   0:00 /sangfor/edr/agent/bin/lloader luamodules/isolate_area_tool.lua\nroot      5385  0.0  0.0 117656  8956 ?        S    Feb09   0:01 /sangfor/edr/agent/bin/lloader luamodules/isolate_area_main.lua\nroot      5386  0.0  0.0 117656  8956 ?        S    Feb09   0:01 /sangfor/edr/agent/bin/lloader luamodules/isolate_area_more.lua\nroot     22594  0.0  0.0 112712   976 pts/2    S+   11:37   0:00 grep\n",
            "3: eth0@if10: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP \n    link/ether 42:7d:b0:83:a9:aa brd ff:ff:ff:ff:ff:ff link-netnsid 0\n",
            // rddevry, cncf/k8s-ai-conformance v1.35 (palette and kops), warmchang/temp and Sheshma515/React-To-do-list: what is alike
            // word by word, and rows of tables that kubectl pads.
            "kubectl exec ai-conformance-gpu-pod1 -n k8s-ai-conformance -- nvidia-smi -L\nGPU 0: NVIDIA A10G (UUID: GPU-6e510464-243a-1e9c-874d-fe67c5be771a)\n\nkubectl exec ai-conformance-gpu-pod2 -n k8s-ai-conformance -- nvidia-smi -L\nGPU 0: NVIDIA A10G (UUID: GPU-00b9f588-b3c4-0cc5-b427-9a6f0ce00748)\n",
            "2026-03-20T12:32:11+00:00 GPU probe alive on cluster-autoscaling-workload-7665f769f7-dj5sd\nNVIDIA L4, 33, 0 %, 0 MiB, 23034 MiB\n2026-03-20T12:33:11+00:00 GPU probe alive on cluster-autoscaling-workload-7665f769f7-dj5sd\nNVIDIA L4, 33, 0 %, 0 MiB, 23034 MiB\n",
            "NAMESPACE     NAME                                  DESIRED   CURRENT   READY   AGE\ndefault       replicaset.apps/httpd-5d8cbbcd67      2         2         2       3m30s\nkube-system   replicaset.apps/coredns-7748f7f6df    1         1         1       4m36s\ndefault       replicaset.apps/http2-5d8cbbcd67      2         2         2       5m30s\nkube-system   replicaset.apps/coredns               1         1         1       4m36s\nkube-system   replicaset.apps/traefik-5c66c8fc88    10        10        10      4m36s\nkube-system   replicaset.apps/t                     1         1         1       4m36s\n",
            "NAME    READY   STATUS    RESTARTS   AGE\nweb-00  0/1     Pending   0          5m\nweb-01  0/1     Pending   0          5m\nweb-02  0/1     Pending   0          5m\n",
        ] {
            assert_eq!(joined(text), None, "{text}");
        }
    }

    #[test]
    fn a_row_that_a_terminal_cut_is_one_line() {
        let row = "  Warning  Failed     8s (x4 over 93s)   kubelet            Failed to pull image \"docker.io/library/web:9.9\": rpc error: code = NotFound desc = failed to pull and unpack image \"docker.io/library/web:9.9\": failed to resolve reference \"docker.io/library/web:9.9\": docker.io/library/web:9.9: not found\n";
        for width in [70, 80, 97, 120, 132] {
            let cut = terminal(row, width);
            let got = joined(&cut).unwrap();
            assert_eq!(got.text.trim_end(), row.trim_end(), "{width}");
            assert_eq!(got.width, width);
        }
    }

    /// `kubectl events` without its titles, the first of which is the longest by chance, and the table of another program.
    #[test]
    fn rows_of_one_length_were_not_cut() {
        let events = "7m31s                    Normal    Scheduled           Pod/pod-debug-image   Successfully assigned default/pod-debug-image to bust-a-cube-control-plane\n\
             5m40s (x10 over 7m31s)   Warning   ErrImageNeverPull   Pod/pod-debug-image   Container image \"busybox:1.36.1\" is not present with pull policy of Never\n\
             5m40s (x10 over 7m31s)   Warning   Failed              Pod/pod-debug-image   Error: ErrImageNeverPull\n\
             42s (x4 over 88s)        Normal    Created             Pod/pod-debug-image    Created container image-pull\n";
        let longest = events.lines().next().map_or(0, str::len);
        let another = events.replace("pod-debug-image", "pod-other-image");
        let again = format!("{events}{another}");
        assert_eq!(again.lines().filter(|l| l.len() == longest).count(), 2);
        assert_eq!(joined(&again), None);
        let pods = "Name                   Ready Status    Restarts Age\n\
             ----                   ----- ------    -------- ---\n\
             hello-1589925000-gs5n7 0/1   Completed        0 00:02:05.2602110\n\
             hello-1589925060-j4bjc 0/1   Completed        0 00:01:05.2607090\n\
             hello-1589925120-jvxtd 0/1   Completed        0 00:00:04.2612030\n";
        assert_eq!(joined(pods), None);
    }
}
