//! The klog text header: `Lmmdd hh:mm:ss.uuuuuu PPPPPPP file.go:LINE] `.

use kflow_model::log::Severity;

/// A moment without year and zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocalTime {
    /// 1 to 12.
    pub(super) month: u32,
    /// 1 to 31.
    pub(super) day: u32,
    /// Nanoseconds since midnight; whole microseconds.
    pub(super) nanos: i64,
}

/// A header and what follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header<'a> {
    pub(super) severity: Severity,
    pub(super) time: LocalTime,
    /// `kubelet.go:2724`
    pub(super) location: &'a str,
    /// The line after `] `.
    pub(super) rest: &'a [u8],
}

/// What the front of a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Front<'a> {
    Header(Header<'a>),
    /// It looks like a header, but its numbers make no time or it ends inside.
    Broken,
    /// Something else.
    Other,
}

/// Reads the header at the front of a line. Uses no regular expression, because every line of a
/// log passes through here.
pub(super) fn parse(line: &[u8]) -> Front<'_> {
    let [
        level @ (b'I' | b'W' | b'E' | b'F'),
        m1,
        m2,
        d1,
        d2,
        b' ',
        tail @ ..,
    ] = line
    else {
        return Front::Other;
    };
    let (Some(month), Some(day)) = (two(*m1, *m2), two(*d1, *d2)) else {
        return Front::Other;
    };
    let [
        h1,
        h2,
        b':',
        n1,
        n2,
        b':',
        s1,
        s2,
        b'.',
        u1,
        u2,
        u3,
        u4,
        u5,
        u6,
        b' ',
        tail @ ..,
    ] = tail
    else {
        return Front::Broken;
    };
    let number = || {
        let seconds = (two(*h1, *h2)? * 60 + two(*n1, *n2)?) * 60 + two(*s1, *s2)?;
        let micros = (two(*u1, *u2)? * 100 + two(*u3, *u4)?) * 100 + two(*u5, *u6)?;
        let valid = (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && two(*h1, *h2)? < 24
            && two(*n1, *n2)? < 60
            && two(*s1, *s2)? < 61;
        valid.then_some(i64::from(seconds) * 1_000_000_000 + i64::from(micros) * 1_000)
    };
    let Some(nanos) = number() else {
        return Front::Broken;
    };
    let pid = tail.trim_ascii_start();
    let digits = pid.iter().take_while(|c| c.is_ascii_digit()).count();
    let Some((b" ", place)) = pid.get(digits..).map(|p| p.split_at(p.len().min(1))) else {
        return Front::Broken;
    };
    let Some(end) = memchr::memchr(b']', place.get(..place.len().min(256)).unwrap_or(place)) else {
        return Front::Broken;
    };
    let (location, rest) = place.split_at(end);
    let rest = rest.get(1..).unwrap_or_default();
    Front::Header(Header {
        severity: match level {
            b'I' => Severity::Info,
            b'W' => Severity::Warning,
            b'E' => Severity::Error,
            _ => Severity::Fatal,
        },
        time: LocalTime { month, day, nanos },
        location: std::str::from_utf8(location).unwrap_or_default(),
        rest: rest.strip_prefix(b" ").unwrap_or(rest),
    })
}

fn two(a: u8, b: u8) -> Option<u32> {
    (a.is_ascii_digit() && b.is_ascii_digit())
        .then(|| u32::from(a - b'0') * 10 + u32::from(b - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_header_is_read_to_the_microsecond() {
        let Front::Header(h) =
            parse(b"E1121 00:24:19.658833    3731 container_manager_linux.go:595] \"x\"")
        else {
            panic!("no header");
        };
        assert_eq!(h.severity, Severity::Error);
        assert_eq!((h.time.month, h.time.day), (11, 21));
        assert_eq!(h.time.nanos, (24 * 60 + 19) * 1_000_000_000 + 658_833_000);
        assert_eq!(h.location, "container_manager_linux.go:595");
        assert_eq!(h.rest, b"\"x\"");
    }

    #[test]
    fn pids_may_fill_their_column() {
        assert!(
            matches!(parse(b"I1231 23:59:59.999999 1234567 a.go:1] x"), Front::Header(h) if h.rest == b"x")
        );
        assert!(
            matches!(parse(b"I1231 23:59:59.999999       1 a.go:1]"), Front::Header(h) if h.rest.is_empty())
        );
    }

    #[test]
    fn what_looks_like_a_header_and_is_none_is_broken() {
        for line in [
            "I1321 00:24:19.658833    3731 a.go:1] month 13",
            "I1121 24:24:19.658833    3731 a.go:1] hour 24",
            "I1121 00:24:19.658833    3731 a.go:1 cut",
            "I1121 00:24:19.65",
            "I1121 ",
        ] {
            assert_eq!(parse(line.as_bytes()), Front::Broken, "{line}");
        }
        for line in [
            "Flag --x has been deprecated",
            "",
            "I am text",
            "{\"ts\":1}",
            "\tgoroutine",
        ] {
            assert_eq!(parse(line.as_bytes()), Front::Other, "{line}");
        }
    }
}
