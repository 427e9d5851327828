//! Parses the written diagrams with a small parser of the forms that are used.

use super::*;
use kflow_core::sequence::Message;
use kflow_model::Source;
use proptest::prelude::*;

/// What the parser found in a diagram.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    calls: usize,
    returns: usize,
    open: usize,
    delays: usize,
    texts: Vec<String>,
}

const IDS: [&str; 6] = [
    "user",
    "apiserver",
    "scheduler",
    "kubelet",
    "runtime",
    "images",
];

/// Undoes `#59;`. Anything else in a text that Mermaid would read as syntax is an error.
fn mermaid_text(s: &str) -> Result<String, String> {
    let lower = s.to_ascii_lowercase();
    for word in ["end", "style", "classdef", "%%", "<", "$$"] {
        if lower.contains(word) {
            return Err(format!("{word} in {s:?}"));
        }
    }
    let mut out = String::new();
    let mut rest = s;
    while let Some((before, after)) = rest.split_once('#') {
        let (number, after) = after.split_once(';').ok_or("an open entity")?;
        if before.contains(';') {
            return Err(format!("a statement ends in {s:?}"));
        }
        let number = number.parse().map_err(|_| format!("entity {number}"))?;
        out.push_str(before);
        out.push(char::from_u32(number).ok_or("no character")?);
        rest = after;
    }
    if rest.contains(';') {
        return Err(format!("a statement ends in {s:?}"));
    }
    out.push_str(rest);
    Ok(out)
}

/// Undoes `<U+003B>`. Creole, tags, functions and escapes in a text are errors.
fn plantuml_text(s: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = s;
    while let Some((before, after)) = rest.split_once("<U+") {
        let (number, after) = after.split_once('>').ok_or("an open tag")?;
        let number = u32::from_str_radix(number, 16).map_err(|_| format!("tag {number}"))?;
        creole(before)?;
        out.push_str(before);
        out.push(char::from_u32(number).ok_or("no character")?);
        rest = after;
    }
    creole(rest)?;
    out.push_str(rest);
    Ok(out)
}

fn creole(s: &str) -> Result<(), String> {
    let two = ["**", "//", "__", "--", "~~", "\"\"", "[[", "..", "=="];
    let one = ['<', '>', '\\', '%', '$', '!', '~', '&', '#', '\''];
    if two.iter().any(|t| s.contains(t)) || s.contains(one) {
        return Err(format!("Creole in {s:?}"));
    }
    Ok(())
}

/// Parses a diagram line by line. A line outside the grammar is an error.
fn read(
    text: &str,
    arrows: &[(&str, char)],
    delay: (&str, &str),
    unescape: fn(&str) -> Result<String, String>,
) -> Result<Found, String> {
    let mut f = Found::default();
    let mut working: Vec<&str> = Vec::new();
    for line in text.lines().skip(1) {
        let Some(line) = line.strip_prefix("    ") else {
            if line == "@enduml" {
                continue;
            }
            return Err(format!("line {line:?}"));
        };
        if let Some(t) = line.strip_prefix("title ") {
            f.texts.push(unescape(t)?);
        } else if line.strip_prefix("participant ").is_some() {
        } else if let Some(who) = line.strip_prefix("activate ") {
            working.push(who);
        } else if let Some(who) = line.strip_prefix("deactivate ") {
            let at = working.iter().rposition(|w| *w == who);
            working.remove(at.ok_or_else(|| format!("{who} does not work"))?);
        } else if let Some(t) = line
            .strip_prefix(delay.0)
            .and_then(|t| t.strip_suffix(delay.1))
        {
            f.delays += 1;
            f.texts.push(unescape(t)?);
        } else {
            let (head, t) = line.split_once(": ").ok_or_else(|| format!("{line:?}"))?;
            let kind = arrows.iter().find(|(a, _)| {
                let sides = head.split_once(a);
                sides.is_some_and(|(from, to)| IDS.contains(&from) && IDS.contains(&to))
            });
            match kind.ok_or_else(|| format!("arrow {head:?}"))?.1 {
                'c' => f.calls += 1,
                'o' => f.open += 1,
                _ => f.returns += 1,
            }
            f.texts.push(unescape(t)?);
        }
    }
    if !working.is_empty() {
        return Err(format!("{working:?} still work"));
    }
    Ok(f)
}

fn both(title: &str, d: &Diagram, now: Nanos) -> [(String, Result<Found, String>); 2] {
    let text = |write: fn(&str, &Diagram, Nanos, &mut Vec<u8>) -> io::Result<()>| {
        let mut out = Vec::new();
        write(title, d, now, &mut out).expect("a Vec takes all");
        String::from_utf8(out).expect("text")
    };
    let (m, p) = (text(mermaid), text(plantuml));
    assert!(m.starts_with("sequenceDiagram\n"), "{m}");
    assert!(
        p.starts_with("@startuml\n") && p.ends_with("\n@enduml\n"),
        "{p}"
    );
    let of_mermaid = [
        ("->>", 'c'),
        ("-x", 'c'),
        ("-)", 'o'),
        ("--)", 'o'),
        ("-->>", 'r'),
        ("--x", 'r'),
    ];
    let of_plantuml = [
        (" -> ", 'c'),
        (" -[#red]> ", 'c'),
        (" ->> ", 'o'),
        (" -->> ", 'o'),
        (" --> ", 'r'),
        (" -[#red]-> ", 'r'),
    ];
    let (fm, fp) = (
        read(
            &m,
            &of_mermaid,
            ("Note over user,images: ", ""),
            mermaid_text,
        ),
        read(&p, &of_plantuml, ("...", "..."), plantuml_text),
    );
    [(m, fm), (p, fp)]
}

fn message(
    at: i64,
    length: Option<i64>,
    open: bool,
    bad: bool,
    to: Party,
    text: &str,
    code: &str,
) -> Message {
    Message {
        at: Nanos(at),
        precision: 1,
        end: length.map(|n| Nanos(at + n)),
        last: Nanos(at),
        until: Nanos(at + length.unwrap_or(0)),
        more: 0,
        open,
        bad,
        from: Party::Kubelet,
        to,
        text: text.to_owned(),
        code: code.to_owned(),
        times: 1,
        group: 1,
        source: Source::Cri,
        call: None,
        evidence: None,
        changes: false,
    }
}

const HOSTILE: [&str; 22] = [
    "end",
    "a\nend",
    "x; kubelet->>runtime: y",
    "#59;",
    "%% gone",
    "%%{init: {}}%%",
    "\"quoted\" 'too'",
    "\u{0}\u{1b}[2J\u{7}\u{202e}",
    "style:#x;",
    "classDef a:#b;",
    "<br/><img src=x>",
    "...",
    "@enduml",
    "!include /etc/passwd",
    "%getenv(\"HOME\") $x",
    "**b** //i// __u__ --s-- ~~w~~ [[l]]",
    "\\n\\t",
    "<U+0041>",
    "<color:red>",
    "}{[]()|&^`",
    "==",
    "größe 日本",
];

fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(&HOSTILE[..]).prop_map(str::to_owned),
        "[\\x00-\\x7f]{0,24}",
        ".{0,12}",
        proptest::collection::vec(proptest::sample::select(&HOSTILE[..]), 0..4)
            .prop_map(|v| v.concat()),
    ]
}

proptest! {
    #[test]
    fn whatever_a_text_is_the_diagram_has_the_rows_of_the_builder_and_their_texts(
        title in hostile(),
        meanwhile in hostile(),
        parts in proptest::collection::vec(
            (0..20_000_000_000_i64, proptest::option::of(0..5_000_000_000_i64), 0..3_u8, any::<bool>(), hostile(), hostile()),
            0..12,
        ),
    ) {
        let messages: Vec<Message> = parts.iter().map(|(at, length, kind, bad, text, code)| {
            let open = *kind > 0;
            let to = if *kind == 2 { Party::Kubelet } else { Party::Runtime };
            message(*at, length.filter(|_| !open), open, *bad && !open, to, text, code)
        }).collect();
        let d = Diagram::new(messages, |_, _| meanwhile.clone());
        let now = Nanos(30_000_000_000);
        let times = Times::of(d.messages.iter().map(|m| m.at));
        let count = |f: fn(&What, Option<&Message>) -> bool| {
            d.rows.iter().filter(|r| f(&r.what, d.message(r))).count()
        };
        for (text, found) in both(&title, &d, now) {
            let found = found.map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
            prop_assert_eq!(found.calls, count(|w, m| matches!(w, What::Out(_)) && m.is_some_and(|m| !m.open)));
            prop_assert_eq!(found.open, count(|w, m| matches!(w, What::Out(_)) && m.is_some_and(|m| m.open)));
            prop_assert_eq!(found.returns, count(|w, _| matches!(w, What::Back(_))));
            prop_assert_eq!(found.delays, count(|w, _| matches!(w, What::Delay { .. })));
            let want = std::iter::once(title.clone()).chain(d.rows.iter().map(|r| match (&r.what, d.message(r)) {
                (What::Delay { until, text }, _) => format!("{} {text}", duration(until.since(r.at))),
                (What::Out(_), Some(m)) => said(m, times, now),
                (_, Some(m)) => answered(m, r.apart, now),
                (_, None) => String::new(),
            }));
            for (found, want) in found.texts.iter().zip(want) {
                prop_assert_eq!(found.as_str(), &*clean(&want));
            }
        }
    }
}

#[test]
fn a_diagram_reads_as_it_is_drawn() {
    let d = Diagram::new(
        vec![
            message(
                0,
                Some(10_000_000),
                false,
                true,
                Party::Runtime,
                "RunPodSandbox",
                "Unknown",
            ),
            message(
                3_000_000_000,
                None,
                true,
                false,
                Party::Image,
                "PullImage",
                "",
            ),
        ],
        |_, _| "waited for the next sync".to_owned(),
    );
    let [(m, _), (p, _)] = both("shop/web", &d, Nanos(5_000_000_000));
    assert_eq!(
        m.lines().skip(8).collect::<Vec<_>>(),
        [
            "    kubelet->>runtime: 00:00:00.000000000 RunPodSandbox",
            "    activate runtime",
            "    runtime--xkubelet: Unknown 10.0ms",
            "    deactivate runtime",
            "    Note over user,images: 2.99s waited for the next sync",
            "    kubelet-)images: 00:00:03.000000000 PullImage, in flight for 2.00s",
            "    activate images",
            "    deactivate images",
        ]
    );
    assert_eq!(
        p.lines().skip(8).collect::<Vec<_>>(),
        [
            "    kubelet -> runtime: 00:00:00.000000000 RunPodSandbox",
            "    activate runtime",
            "    runtime -[#red]-> kubelet: Unknown 10.0ms",
            "    deactivate runtime",
            "    ...2.99s waited for the next sync...",
            "    kubelet ->> images: 00:00:03.000000000 PullImage, in flight for 2.00s",
            "    activate images",
            "    deactivate images",
            "@enduml",
        ]
    );
}
