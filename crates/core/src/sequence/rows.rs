//! The rows of a sequence diagram: calls, their returns, and the times without messages.

use super::{Message, Party, derive};
use crate::correlate::{PodView, World};
use crate::timeline::Span;
use kflow_model::Nanos;
use kflow_model::cri::method;
use kflow_model::stamp::SECOND;

/// Shortest time without messages that gets a row, ns. The API's times are whole seconds, so a shorter time may be
/// rounding; and a node's own loops (relist, sync, back-off) repeat after a second at the earliest.
const SILENCE: i64 = SECOND;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A message is sent; the index is of [`Diagram::messages`].
    Out(usize),
    /// The answer to a message comes back; the index is of [`Diagram::messages`].
    Back(usize),
    /// No message was sent until `until`; `text` is what went on meanwhile.
    Delay { until: Nanos, text: String },
}

/// A row of the diagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub at: Nanos,
    pub precision: u32,
    pub what: What,
    /// By [`Party`]: whether it works on a call in this row.
    pub active: [bool; Party::ALL.len()],
    /// Other messages came between an answer and its call, so the row has to name the call.
    pub apart: bool,
}

/// The sequence diagram of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagram {
    pub messages: Vec<Message>,
    /// Rows by time. What the pod waits for stands where the wait began.
    pub rows: Vec<Row>,
}

impl Diagram {
    /// Makes the diagram of a pod. With `fold`, adjacent repeats become one message.
    pub fn of(p: &PodView, world: &World, fold: bool) -> Self {
        let mut all = derive(p, world, fold);
        if fold {
            all = folded(all);
        }
        Self::new(all, |from, to| meanwhile(p, from, to))
    }
    /// Makes the rows of these messages. `meanwhile(from, to)` returns what went on in a time without messages.
    pub fn new(messages: Vec<Message>, meanwhile: impl Fn(Nanos, Nanos) -> String) -> Self {
        let mut rows: Vec<Row> = Vec::with_capacity(messages.len() * 2);
        let row = |at, precision, what| Row {
            at,
            precision,
            what,
            active: [false; Party::ALL.len()],
            apart: false,
        };
        for (i, m) in messages.iter().enumerate() {
            rows.push(row(m.at, m.precision, What::Out(i)));
            if let Some(end) = m.end {
                rows.push(row(end.max(m.at), m.precision, What::Back(i)));
            }
        }
        // The sort is stable: the answer to a call of length zero stays behind the call, and a wait behind the message
        // that it began with.
        rows.sort_by_key(|r| r.at);
        let mut out = Self {
            rows: Vec::with_capacity(rows.len()),
            messages,
        };
        let mut busy = [0_u32; Party::ALL.len()];
        let mut until: Option<(Nanos, u32)> = None;
        let mut before = None;
        for mut row in rows {
            if let Some((from, precision)) = until
                && row.at.since(from) >= SILENCE
            {
                out.rows.push(Row {
                    at: from,
                    precision,
                    what: What::Delay {
                        until: row.at,
                        text: meanwhile(from, row.at),
                    },
                    active: busy.map(|n| n > 0),
                    apart: false,
                });
            }
            let (What::Out(i) | What::Back(i)) = row.what else {
                continue;
            };
            let Some(m) = out.messages.get(i) else {
                continue;
            };
            let goes = matches!(row.what, What::Out(_));
            row.apart = !goes && before != Some(i);
            before = Some(i);
            let here = busy.get_mut(m.to as usize);
            match here {
                Some(n) if goes && (m.open || m.end.is_some()) => *n += 1,
                _ => {}
            }
            row.active = busy.map(|n| n > 0);
            // Who waits is not at work in the rows below.
            if (!goes || m.is_wait())
                && let Some(n) = busy.get_mut(m.to as usize)
            {
                *n = n.saturating_sub(1);
            }
            // The repeats that are folded into a message continue after the first one's answer.
            let reached = if m.times > 1 {
                m.until.max(row.at)
            } else {
                row.at
            };
            if until.is_none_or(|(u, _)| u <= reached) {
                until = Some((reached, row.precision));
            }
            out.rows.push(row);
        }
        out
    }
    /// Returns the message of a row; `None` for a delay.
    pub fn message(&self, row: &Row) -> Option<&Message> {
        match row.what {
            What::Out(i) | What::Back(i) => self.messages.get(i),
            What::Delay { .. } => None,
        }
    }
}

/// Most messages that are folded as a group: a failed call, its Event, and the look-ups between.
const GROUP: usize = 4;

/// Folds adjacent repeats, of one message or of a group of messages. The order stays.
fn folded(all: Vec<Message>) -> Vec<Message> {
    let mut out: Vec<Message> = Vec::with_capacity(all.len());
    let mut rest = all.as_slice();
    while let Some((first, more)) = rest.split_first() {
        let repeats = |k: &usize| {
            let (Some(next), Some(tail)) = (
                rest.get(..*k),
                out.len().checked_sub(*k).and_then(|n| out.get(n..)),
            ) else {
                return false;
            };
            let alone = tail.iter().all(|m| m.times == 1);
            let group = tail.iter().all(|m| m.times > 1 && m.group == *k);
            (alone || group) && next.iter().zip(tail).all(|(n, t)| n.folds_into(t))
        };
        match (1..=GROUP).find(repeats) {
            Some(k) => {
                let from = out.len() - k;
                for (into, m) in out.iter_mut().skip(from).zip(rest) {
                    into.times += 1;
                    into.group = k;
                    into.last = into.last.max(m.at);
                    into.until = into.until.max(m.until);
                    into.more += m.end.map_or(0, |e| e.since(m.at).max(0));
                }
                rest = rest.get(k..).unwrap_or_default();
            }
            None => {
                out.push(first.clone());
                rest = more;
            }
        }
    }
    out
}

/// Returns what went on in a time without messages, from the pod's timeline: the step that filled at least half of the
/// time, else the run of a container.
fn meanwhile(p: &PodView, from: Nanos, to: Nanos) -> String {
    let overlap = |start: Nanos, end: Option<Nanos>| {
        let end = end.map_or(to, |e| e.min(to));
        end.since(start.max(from)).max(0)
    };
    let init = |s: &Span| {
        let own = p.containers.iter().find(|c| c.name == s.container);
        own.is_some_and(|c| c.init && !c.sidecar)
    };
    // The span that overlaps longest; of two equal ones the shorter, which is more specific.
    let most = |of: &dyn Fn(&Span) -> bool| {
        p.timeline
            .spans
            .iter()
            .filter(|s| of(s))
            .map(|s| (overlap(s.start.at, s.end.map(|e| e.at)), s))
            .filter(|(n, _)| *n * 2 >= to.since(from))
            .max_by_key(|(n, s)| (*n, std::cmp::Reverse(s.duration(to))))
            .map(|(_, s)| s)
    };
    let unknown = || {
        let mut gaps = p.timeline.gaps.iter();
        gaps.find(|g| overlap(g.start, g.end) * 2 >= to.since(from))
    };
    if let Some(s) = most(&|s| !s.is_stage() && (!s.is_run() || init(s))) {
        // The pull was requested before, and the call to the runtime came after: the pull was queued behind others.
        let queued = &*s.step == "EnsureImageExists"
            && p.timeline.spans.iter().any(|x| {
                &*x.step == method::PULL_IMAGE
                    && x.start.at >= to
                    && s.end.is_none_or(|e| x.start.at <= e.at)
            });
        return if queued {
            format!("waited in the queue of pulls, {}", s.container)
        } else {
            told(s, init(s))
        };
    }
    if let Some(s) = most(&Span::is_run) {
        return told(s, false);
    }
    if let Some(g) = unknown() {
        return g.why.to_string();
    }
    match most(&Span::is_stage) {
        Some(s) => format!("stage {} went on", s.stage.name()),
        None => "nothing was seen".to_owned(),
    }
}

/// Describes a span in words.
fn told(s: &Span, init: bool) -> String {
    let of = |what: &str| {
        if s.container.is_empty() {
            what.to_owned()
        } else {
            format!("{what}, {}", s.container)
        }
    };
    match &*s.step {
        _ if s.is_run() && init => format!("init container {} ran", s.container),
        _ if s.is_run() => format!("container {} ran", s.container),
        "completeWork" => of("waited for the next sync"),
        "ImagePullBackOff" | "CrashLoopBackOff" => of(&format!("back-off ({})", s.step)),
        "scheduleOnePod" => of("waited for the scheduler"),
        step if s.container.is_empty() => format!("{step} went on"),
        step => format!("{step} {} went on", s.container),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::Source;
    use proptest::prelude::*;

    fn message(at: i64, end: Option<i64>, text: &str) -> Message {
        Message {
            at: Nanos(at),
            precision: 1,
            end: end.map(Nanos),
            last: Nanos(at),
            until: Nanos(end.unwrap_or(at)),
            more: 0,
            open: false,
            bad: false,
            from: Party::Kubelet,
            to: Party::Runtime,
            text: text.to_owned(),
            code: String::new(),
            times: 1,
            group: 1,
            source: Source::Cri,
            call: None,
            evidence: None,
            changes: false,
        }
    }

    fn texts(all: &str) -> Vec<(String, u32)> {
        let all = all.char_indices();
        let all = all.map(|(i, c)| message(i as i64, Some(i as i64 + 1), &c.to_string()));
        let out = folded(all.collect());
        out.into_iter().map(|m| (m.text, m.times)).collect()
    }

    #[test]
    fn only_neighbours_are_folded_alone_or_as_a_group() {
        let own = |s: &str| -> Vec<(String, u32)> {
            s.split(' ')
                .map(|w| w.split_at(1))
                .map(|(text, n)| (text.to_owned(), n.parse().expect("number")))
                .collect()
        };
        for (all, want) in [
            ("aaab", "a3 b1"),
            ("abababc", "a3 b3 c1"),
            ("abca", "a1 b1 c1 a1"),
            ("aaabbbab", "a3 b3 a1 b1"),
            ("abbbab", "a1 b3 a1 b1"),
            ("ababbb", "a2 b2 b2"),
            ("abcabcabc", "a3 b3 c3"),
        ] {
            assert_eq!(texts(all), own(want), "{all}");
        }
    }

    #[test]
    fn a_callee_is_at_work_from_the_call_to_its_answer_and_silence_is_a_row() {
        let mut open = message(9 * SECOND, None, "open");
        open.open = true;
        let all = vec![
            message(0, Some(3 * SECOND), "outer"),
            message(10, Some(20), "inner"),
            open,
        ];
        let d = Diagram::new(all, |from, to| format!("{} to {}", from.0, to.0));
        let got: Vec<_> = d
            .rows
            .iter()
            .map(|r| {
                let what = match &r.what {
                    What::Out(i) => format!("out {i}"),
                    What::Back(i) => format!("back {i}"),
                    What::Delay { text, .. } => text.clone(),
                };
                (
                    what,
                    r.active.get(Party::Runtime as usize) == Some(&true),
                    r.apart,
                )
            })
            .collect();
        let want = [
            ("out 0", true, false),
            ("out 1", true, false),
            ("back 1", true, false),
            ("20 to 3000000000", true, false),
            ("back 0", true, true),
            ("3000000000 to 9000000000", false, false),
            ("out 2", true, false),
        ];
        assert_eq!(got, want.map(|(s, a, b)| (s.to_owned(), a, b)));
    }

    proptest! {
        #[test]
        fn folding_keeps_every_message_and_the_order_of_the_first_ones(s in "[abc]{0,40}") {
            let out = texts(&s);
            prop_assert_eq!(out.iter().map(|(_, n)| *n as usize).sum::<usize>(), s.len());
            let mut seen = s.chars();
            for (text, _) in out {
                prop_assert!(seen.any(|c| text == c.to_string()));
            }
        }
    }
}
