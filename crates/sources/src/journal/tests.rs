//! Tests of wrappers.

use super::*;

fn one(line: &[u8]) -> (String, Option<i64>, String) {
    match Unwrap::default().line(line) {
        Step::Entry(e) => (
            String::from_utf8_lossy(&e.text).into_owned(),
            e.received.map(|n| n.0),
            e.origin.into_owned(),
        ),
        other => panic!("{other:?}"),
    }
}

const T: i64 = 1_795_220_659_334_034_000;
const S: i64 = 1_795_220_659_000_000_000;

#[test]
fn every_form_gives_the_same_text() {
    let text = "I1121 00:24:19.334034    3731 a.go:1] x";
    for (prefix, received, origin) in [
        (
            "Nov 21 00:24:19 node1 kubelet[3731]: ",
            None,
            "kubelet[3731]",
        ),
        (
            "Nov  1 00:24:19.334034 node1 kubelet[3731]: ",
            None,
            "kubelet[3731]",
        ),
        (
            "2026-11-21T00:24:19+0000 node1 kubelet[3731]: ",
            Some(S),
            "kubelet[3731]",
        ),
        (
            "2026-11-21T00:24:19+00:00 node1 kubelet[3731]: ",
            Some(S),
            "kubelet[3731]",
        ),
        (
            "2026-11-21T01:24:19.334034+0100 node1 kubelet[3731]: ",
            Some(T),
            "kubelet[3731]",
        ),
        (
            "1795220659.334034 node1 kubelet[3731]: ",
            Some(T),
            "kubelet[3731]",
        ),
        (
            "Sat 2026-11-21 00:24:19 UTC node1 kubelet[3731]: ",
            Some(S),
            "kubelet[3731]",
        ),
        // Syslog without the number of the process, and months of other languages.
        ("Nov 21 00:24:19 node1 kubelet: ", None, "kubelet"),
        (
            "ноя 21 00:24:19 node1 kubelet[3731]: ",
            None,
            "kubelet[3731]",
        ),
        (
            "nov. 21 00:24:19 node1 kubelet[3731]: ",
            None,
            "kubelet[3731]",
        ),
        (
            "11月 21 00:24:19 node1 kubelet[3731]: ",
            None,
            "kubelet[3731]",
        ),
        (
            "Thg 11 21 00:24:19 node1 kubelet[3731]: ",
            None,
            "kubelet[3731]",
        ),
        ("2026-11-21T00:24:19.334034Z stderr F ", Some(T), "stderr"),
        ("2026-11-21T00:24:19.334034Z ", Some(T), ""),
        ("", None, ""),
    ] {
        assert_eq!(
            one(format!("{prefix}{text}").as_bytes()),
            (text.to_owned(), received, origin.to_owned()),
            "{prefix}"
        );
    }
}

#[test]
fn journal_json_may_hold_bytes_or_text() {
    for message in [
        r#""I1121 x""#,
        "[73,49,49,50,49,32,120]",
        r#"["I1121 x","second"]"#,
    ] {
        let line = format!(
            r#"{{"__CURSOR":"s=1","MESSAGE":{message},"__REALTIME_TIMESTAMP":"1795220659334034","_PID":"7","SYSLOG_IDENTIFIER":"kubelet"}}"#
        );
        assert_eq!(
            one(line.as_bytes()),
            ("I1121 x".into(), Some(T), "kubelet[7]".into())
        );
    }
    assert_eq!(
        Unwrap::default().line(br#"{"MESSAGE":null,"_PID":"7"}"#),
        Step::Marker(TOO_LONG)
    );
}

#[test]
fn export_records_are_binary_safe_even_where_the_length_holds_a_line_feed() {
    for message in ["I1121 a\nb", "0123456789", "", "\n\n\n"] {
        let mut bytes = b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1795220659334034\nMESSAGE\n".to_vec();
        bytes.extend((message.len() as u64).to_le_bytes());
        bytes.extend(message.as_bytes());
        bytes.extend(b"\n_PID=7\nSYSLOG_IDENTIFIER=kubelet\n\n");
        let mut u = Unwrap::default();
        let mut got = Vec::new();
        for line in bytes.split(|b| *b == b'\n') {
            if let Step::Entry(e) = u.line(line) {
                got.push((
                    String::from_utf8(e.text.into_owned()).unwrap(),
                    e.origin.into_owned(),
                ));
            }
        }
        assert_eq!(
            got.first(),
            Some(&(message.to_owned(), "kubelet[7]".to_owned())),
            "{message:?}"
        );
    }
}

#[test]
fn an_export_record_at_the_end_of_the_input_needs_no_empty_line() {
    let mut u = Unwrap::default();
    assert_eq!(u.line(b"__CURSOR=x"), Step::Partial);
    assert_eq!(u.line(b"MESSAGE=hello"), Step::Partial);
    assert!(matches!(u.finish(), Step::Entry(e) if e.text.as_ref() == b"hello"));
    assert_eq!(u.finish(), Step::Marker(MARKER));
}

#[test]
fn partial_container_log_lines_are_joined() {
    let mut u = Unwrap::default();
    assert_eq!(
        u.line(b"2026-11-21T00:24:19.3Z stderr P I1121 a"),
        Step::Partial
    );
    assert!(
        matches!(u.line(b"2026-11-21T00:24:19.4Z stderr F bc"), Step::Entry(e) if e.text.as_ref() == b"I1121 abc")
    );
}

#[test]
fn docker_records_lose_their_line_feed() {
    assert_eq!(
        one(br#"{"log":"I1121 x\n","stream":"stderr","time":"2026-11-21T00:24:19.334034Z"}"#),
        ("I1121 x".into(), Some(T), "stderr".into())
    );
}

#[test]
fn journal_markers_are_no_entries() {
    assert_eq!(
        Unwrap::default().line(b"-- Boot 0123456789abcdef --"),
        Step::Marker(MARKER)
    );
}

#[test]
fn the_writer_of_a_line_is_told_in_every_short_form() {
    for (line, want) in [
        (
            "Nov 21 00:24:19 node-0 kubelet[3731]: I1121",
            Some(("node-0", "kubelet")),
        ),
        (
            "Nov 21 00:24:19.334034 node-0 kubenswrapper[3731]: I1121",
            Some(("node-0", "kubenswrapper")),
        ),
        (
            "2026-11-21T00:24:19+0000 node-0 systemd[1]: Started",
            Some(("node-0", "systemd")),
        ),
        (
            "2026-11-21T00:24:19.334034+00:00 node-0 containerd[40]: time=",
            Some(("node-0", "containerd")),
        ),
        (
            "Sat 2026-11-21 00:24:19 UTC node-0 crio[3]: time=",
            Some(("node-0", "crio")),
        ),
        (
            "Nov 21 00:24:19 kubelet[3731]: I1121",
            Some(("", "kubelet")),
        ),
        (
            r#"Nov 21 00:24:19 node-0 k0s[7]: time="2026-11-21 00:24:19" level=info msg="I1121 a" component=kubelet stream=stderr"#,
            Some(("node-0", "kubelet")),
        ),
        (
            r#"Nov 21 00:24:19 node-0 k0s[7]: time="2026-11-21 00:24:19" level=info msg="ready" component=kubelet"#,
            Some(("node-0", "k0s")),
        ),
        ("        a line that continues an entry", None),
        ("-- Boot 5ee4 --", None),
        (
            "2026-11-21T00:24:19.334034123Z stderr F I1121 00:24:19.3 1 a.go:1] b",
            None,
        ),
        ("I1121 00:24:19.334034    3731 kubelet.go:2724] x: y", None),
        ("time=\"2026-11-21T00:24:19Z\" level=info msg=a", None),
    ] {
        let want = want.map(|(host, ident)| super::Writer { host, ident });
        assert_eq!(super::writer(line.as_bytes()), want, "{line}");
    }
}

#[test]
fn the_line_of_a_component_is_taken_out_of_that_of_k0s() {
    let line = r#"Nov 21 00:24:19 node-0 k0s[7]: time="2026-11-21 00:24:19" level=info msg="I1121 00:24:19.334034    3731 kubelet.go:2724] \"SyncLoop ADD\" pods=[\"a/b\"]" component=kubelet stream=stderr"#;
    let super::Step::Entry(e) = super::Unwrap::default().line(line.as_bytes()) else {
        panic!("no entry");
    };
    assert_eq!(
        std::str::from_utf8(&e.text).unwrap(),
        r#"I1121 00:24:19.334034    3731 kubelet.go:2724] "SyncLoop ADD" pods=["a/b"]"#
    );
    assert_eq!(e.origin, "kubelet");
}
