//! The zone of a host. A line of its journal has none, and neither has klog; a container runtime writes the same moment with its zone
//! into the same line: `Oct 29 17:22:59 node1 containerd[2842]: time="2024-10-29T17:22:59.336567743+05:30" …`.

use kflow_model::Nanos;
use kflow_model::stamp::SECOND;
use kflow_sources::{journal, klog};

/// Zones differ by a multiple of this, s.
const STEP: i64 = 900;
/// No zone is further from UTC, s.
const MOST: i64 = 14 * 3600;
/// journald notes a line within this time of its writing, s.
const SOON: i64 = 5;
/// Most lines that are looked at.
const LINES: usize = 2_000;

/// Returns how many seconds east of UTC the host's local time is, by the begin of its journal.
pub(super) fn of(begin: &[u8]) -> Option<i32> {
    short_lines(begin).find_map(|(day, local, text)| {
        let text = std::str::from_utf8(text).ok()?;
        let (time, _) = text.split_once("time=\"")?.1.split_once('"')?;
        let (at, _) = Nanos::parse_rfc3339(&time.replacen(' ', "T", 1))?;
        let utc = at.0.div_euclid(SECOND);
        let date = at.to_rfc3339();
        let of_utc: i64 = date.get(8..10)?.parse().ok()?;
        let days = match day - of_utc {
            0 => 0,
            1 => 1,
            -1 => -1,
            // Over the end of a month.
            later if later > 0 => -1,
            _ => 1,
        };
        let off = days * 86_400 + local - utc.rem_euclid(86_400);
        let zone = (off + STEP / 2).div_euclid(STEP) * STEP;
        let is_zone = zone.abs() <= MOST && (off - zone).abs() <= SOON;
        is_zone.then(|| i32::try_from(zone).ok())?
    })
}

/// True for a journal in which klog has the local time of the journal: not that of a container with a zone of its own.
pub(super) fn is_local(begin: &[u8]) -> bool {
    let mut headers = short_lines(begin).filter_map(|(_, local, text)| {
        let text = text.trim_ascii();
        // `I1029 17:42:26.913461`
        let time = klog::has_header(text).then(|| text.get(6..14))??;
        Some((local, time_of_day(std::str::from_utf8(time).ok()?)?))
    });
    headers
        .next()
        .is_some_and(|(local, klog)| (local - klog).abs() <= SOON)
}

/// The lines of a journal in the form that has no year: day of the month, second of the day, and what was written.
fn short_lines(begin: &[u8]) -> impl Iterator<Item = (i64, i64, &[u8])> {
    let lines = begin.split(|b| *b == b'\n').take(LINES);
    lines
        .filter(|line| !line.first().is_some_and(u8::is_ascii_digit))
        .filter_map(|line| {
            let (_, text) = journal::parts(line)?;
            let front = line.get(..line.len().min(40)).unwrap_or(line);
            let front = String::from_utf8_lossy(front);
            let mut before = "";
            for word in front.split_ascii_whitespace().take(5) {
                if let Some(second) = time_of_day(word) {
                    let day: u8 = before.parse().ok()?;
                    return Some((day.into(), second, text));
                }
                before = word;
            }
            None
        })
}

/// `17:42:26`
fn time_of_day(text: &str) -> Option<i64> {
    let text = text.split('.').next().unwrap_or(text);
    let mut parts = text.split(':').map(|part| part.parse::<u8>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_time = parts.next().is_none() && hour < 24 && minute < 60 && second <= 60;
    is_time.then(|| i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first is of github.com/Sheshma515/React-To-do-list (MicroK8s' inspection report).
    #[test]
    fn a_line_with_its_zone_tells_that_of_its_host() {
        for (line, want) in [
            (
                "Oct 29 17:22:59 microk8s-vm microk8s.daemon-containerd[2842]: time=\"2024-10-29T17:22:59.336567743+05:30\" level=info msg=\"starting containerd\"",
                Some(19_800),
            ),
            (
                "Oct 29 17:22:59 n1 containerd[2842]: time=\"2024-10-29T11:52:59.336567743Z\" level=info msg=x",
                Some(19_800),
            ),
            (
                "Oct 29 11:52:59 n1 dockerd[2842]: time=\"2024-10-29T11:52:59.336567743Z\" level=info msg=x",
                Some(0),
            ),
            (
                "Nov  1 01:30:00 n1 containerd[1]: time=\"2024-10-31T23:30:00Z\" level=info msg=x",
                Some(7200),
            ),
            (
                "Oct 31 19:30:00 n1 containerd[1]: time=\"2024-11-01T00:30:00Z\" level=info msg=x",
                Some(-18_000),
            ),
            // A line that came late, or tells of another moment.
            (
                "Oct 29 17:23:29 n1 containerd[1]: time=\"2024-10-29T11:52:59Z\" level=info msg=x",
                None,
            ),
            (
                "2024-10-29T17:22:59+0530 n1 containerd[1]: time=\"2024-10-29T11:52:59Z\" level=info msg=x",
                None,
            ),
            ("time=\"2024-10-29T17:22:59+05:30\" level=info msg=x", None),
            // Numbers that no clock has.
            (
                "Oct -9223372036854775808 17:22:59 n1 containerd[1]: time=\"2024-10-29T11:52:59Z\" level=info msg=x",
                None,
            ),
            (
                "Oct 29 -9223372036854775:22:59 n1 containerd[1]: time=\"2024-10-29T11:52:59Z\" level=info msg=x",
                None,
            ),
            ("", None),
        ] {
            assert_eq!(of(line.as_bytes()), want, "{line}");
        }
    }

    #[test]
    fn klog_is_in_the_zone_of_its_journal_unless_it_has_its_own() {
        for (line, want) in [
            (
                "Oct 29 17:42:26 microk8s-vm microk8s.daemon-kubelite[3510]: W1029 17:42:26.913322    3510 dispatcher.go:225] x",
                true,
            ),
            (
                "Oct 29 17:42:26 n1 kubelet[3510]: W1029 12:12:26.913322    3510 dispatcher.go:225] x",
                false,
            ),
            ("W1029 17:42:26.913322    3510 dispatcher.go:225] x", false),
        ] {
            assert_eq!(is_local(line.as_bytes()), want, "{line}");
        }
    }
}
