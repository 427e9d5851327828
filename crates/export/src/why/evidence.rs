//! Evidence in text: each statement once, with as many digits of its time as were measured.

use kflow_core::diagnose::Proof;
use kflow_model::{Nanos, Source, units};

/// Returns the best pieces of evidence that differ from one another, each with the other sources of the same statement,
/// and the number of pieces left out. The call, an Event and log lines often report one failure, each with a prefix of
/// its own; readers want it once.
pub(crate) fn told_once(
    evidence: &[Proof],
    most: usize,
) -> (Vec<(&Proof, Vec<&'static str>)>, usize) {
    let mut shown: Vec<(&Proof, Vec<&'static str>)> = Vec::new();
    let mut more = 0;
    for p in evidence {
        if let Some((first, also)) = shown.iter_mut().find(|(q, _)| same_end(q.said(), p.said())) {
            let mut other = p;
            // The call itself is preferred, then the message with the shorter prefix.
            let call = |p: &Proof| p.source == Source::Cri;
            let length = |p: &Proof| p.to_string().len();
            if call(p) && !call(first) || call(p) == call(first) && length(p) * 2 < length(first) {
                other = std::mem::replace(first, p);
            }
            let name = source_name(other.source);
            if !also.contains(&name) {
                also.push(name);
            }
            also.retain(|n| *n != source_name(first.source));
        } else if shown.len() < most {
            shown.push((p, Vec::new()));
        } else {
            more += 1;
        }
    }
    (shown, more)
}

/// True when two messages end in the same error, as wrapping adds text in front. A short error without a quoted name
/// ("context deadline exceeded") may end different errors, and does not count.
fn same_end(a: &str, b: &str) -> bool {
    let (a, b) = (innermost(a), innermost(b));
    a == b && (a.contains('"') || a.chars().count() > 30)
}

/// Returns the innermost error of a wrapped one: what follows the last `: `.
fn innermost(text: &str) -> String {
    let text = text.rsplit_once(": ").map_or(text, |(_, last)| last);
    text.trim_end_matches(['"', '.', ' ', '\\'])
        .replace('\\', "")
}

/// Returns the time of day (UTC) with as many digits as were measured, at most three; of a day or longer before `now`, date and time
/// of day.
pub(crate) fn clock(p: &Proof, now: Nanos) -> String {
    if now.since(p.at) >= units::DAY {
        units::date_and_clock(p.at, 0, 0)
    } else {
        units::clock(p.at, units::digits(p.precision).min(3), 0)
    }
}

pub(super) fn precision(p: &Proof) -> &'static str {
    match p.precision {
        0..=999 => "ns",
        1_000..=999_999 => "us",
        1_000_000..=999_999_999 => "ms",
        _ => "1 s",
    }
}

pub(crate) fn source_name(s: Source) -> &'static str {
    match s {
        Source::Cri => "tap",
        Source::Kube => "api",
        Source::Kubelet => "log",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(source: Source, what: &str, words: &str, times: u32) -> Proof {
        Proof {
            at: Nanos(0),
            precision: 1,
            source,
            what: what.into(),
            words: (!words.is_empty()).then(|| words.into()),
            times,
            evidence: None,
        }
    }

    #[test]
    fn what_an_event_and_two_log_lines_say_is_told_once() {
        let missing = "driver name nosuch.csi.lab not found in the list of registered CSI drivers";
        let all = [
            proof(
                Source::Kube,
                "Event FailedMount",
                &format!("MountVolume.SetUp failed for volume \"v\" : {missing}"),
                9,
            ),
            proof(
                Source::Kubelet,
                "kubelet log",
                &format!("Operation for v failed: {missing}"),
                1,
            ),
            proof(
                Source::Kubelet,
                "kubelet log",
                "syncing: deadline exceeded",
                1,
            ),
            proof(
                Source::Kubelet,
                "kubelet log: Event FailedMount",
                missing,
                4,
            ),
        ];
        let (shown, more) = told_once(&all, 4);
        assert_eq!(more, 0);
        let said: Vec<_> = shown
            .iter()
            .map(|(p, also)| (p.source, also.clone()))
            .collect();
        assert_eq!(
            said,
            [(Source::Kube, vec!["log"]), (Source::Kubelet, vec![])]
        );
    }

    #[test]
    fn what_is_older_than_a_day_has_a_date() {
        let p = proof(Source::Kube, "Event Failed", "", 1);
        assert_eq!(clock(&p, Nanos(units::DAY - 1)), "00:00:00.000");
        assert_eq!(clock(&p, Nanos(units::DAY)), "1970-01-01 00:00:00");
    }

    #[test]
    fn short_messages_are_not_taken_for_each_other() {
        let all = [
            proof(Source::Kube, "Event Failed", "", 1),
            proof(Source::Kubelet, "Failed", "", 1),
        ];
        assert_eq!(told_once(&all, 1).1, 1);
    }
}
