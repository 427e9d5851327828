//! What a text went through on its way into a ticket: lines that a terminal or a mail program cut, colours, marks of Markdown and HTML.

use super::archive::gz;
use super::{Desk, fixture, run, text};
use kflow_sources::kube::decode::joined;
use std::path::{Path, PathBuf};

/// Columns of terminals that people use, whole screens and halves of them.
const TERMINALS: [usize; 6] = [80, 93, 100, 120, 132, 160];
/// Columns after which mail programs cut.
const MAILS: [usize; 3] = [72, 76, 80];

/// Cuts lines as a terminal of that width does.
fn by_terminal(text: &str, width: usize) -> String {
    let line = |line: &str| {
        let chars: Vec<char> = line.chars().collect();
        let pieces = chars.chunks(width).map(|c| c.iter().collect::<String>());
        pieces.collect::<Vec<_>>().join("\n")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Cuts lines as a mail program does: behind the last word that has room.
fn by_mail(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut at = 0;
        for word in line.split_inclusive(' ') {
            let length = word.trim_end().chars().count();
            if at > 0 && at + length > width {
                let end = out.trim_end_matches(' ').len();
                out.truncate(end);
                out.push('\n');
                at = 0;
            }
            out.push_str(word);
            at += word.chars().count();
        }
        out.push('\n');
    }
    out
}

fn texts(folder: &Path, out: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts(&path, out);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            out.push((path, text));
        }
    }
}

#[test]
fn what_nobody_cut_stays_as_it_is() {
    let mut all = Vec::new();
    texts(&fixture(""), &mut all);
    // Certificates and prose have such lines.
    all.retain(|(path, _)| {
        let ext = path.extension().and_then(|e| e.to_str());
        !matches!(ext, Some("md" | "crt" | "key"))
    });
    assert!(all.len() > 200, "{}", all.len());
    let changed = all.iter().filter_map(|(path, text)| {
        let joined = joined(text)?;
        Some(format!(
            "{}: {} lines at {}",
            path.display(),
            joined.lines,
            joined.width
        ))
    });
    let changed: Vec<String> = changed.collect();
    assert!(changed.is_empty(), "{changed:#?}");
}

/// Texts that tell causes of several kinds.
const TOLD: [&str; 4] = [
    "s2-image-missing-1.36",
    "s4-cni-fails-1.36",
    "s2-events-events-1.36",
    "s2-cm-missing-1.36",
];

/// Returns what `why --all` says of a pasted text, and what was said of its import.
fn told(desk: &Desk, content: &str) -> (String, String) {
    told_of(desk, desk.file("paste.txt", content))
}

fn told_of(desk: &Desk, file: String) -> (String, String) {
    let all = [&*file, "--taken", "2026-11-27T00:38:00Z"];
    let (session, said) = desk.import("a.kflow", &all);
    let why = run(&["why", "--all", "-s", &session, "-o", "json"]);
    (text(&why.stdout), said)
}

#[test]
fn what_was_cut_tells_what_the_whole_tells() {
    let desk = Desk::new();
    for name in TOLD {
        let whole = std::fs::read_to_string(fixture(&format!("kubectl/{name}.txt"))).unwrap();
        let want = told(&desk, &whole).0;
        assert!(want.contains("\"KF"), "{want}");
        let terminals = TERMINALS.map(|width| by_terminal(&whole, width));
        let mails = MAILS.map(|width| by_mail(&whole, width));
        for cut in terminals.into_iter().chain(mails) {
            let is_cut = cut.lines().count() > whole.lines().count();
            let (got, said) = told(&desk, &cut);
            assert_eq!(got, want, "{name}:\n{cut}\n{said}");
            let is_told = said.contains("columns are put together");
            assert_eq!(is_told, is_cut, "{name}:\n{cut}\n{said}");
        }
    }
}

#[test]
fn marks_of_others_change_nothing() {
    type Change = fn(&str) -> String;
    fn each(text: &str, line: impl FnMut((usize, &str)) -> String) -> String {
        text.lines()
            .enumerate()
            .map(line)
            .collect::<Vec<_>>()
            .join("\n")
            + "\n"
    }
    let html = |t: &str| {
        t.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('"', "&quot;")
            .replace('\'', "&#x27;")
    };
    let changes: [(&str, Change); 15] = [
        ("colours", |t| {
            t.replace("Warning", "\u{1b}[33mWarning\u{1b}[0m")
                .replace("Failed", "\u{1b}[1;31mFailed\u{1b}[m")
        }),
        ("colours without the escape", |t| {
            t.replace("Warning", "[33mWarning[0m")
        }),
        ("bold", |t| {
            t.replace("Warning", "**Warning**")
                .replace("Pending", "**Pending**")
        }),
        ("quotation marks", |t| {
            t.replace(" \"", " \u{201c}")
                .replace('"', "\u{201d}")
                .replace('\'', "\u{2019}")
        }),
        ("blanks", |t| t.replace("  ", "\u{a0} ")),
        ("a byte order mark", |t| format!("\u{feff}{t}")),
        ("carriage returns", |t| t.replace('\n', "\r\n")),
        ("numbers", |t| each(t, |(n, l)| format!("{:5}  {l}", n + 1))),
        ("grep -n", |t| {
            each(t, |(n, l)| format!("out.txt:{}:{l}", n + 1))
        }),
        ("bars", |t| each(t, |(_, l)| format!("| {l}"))),
        ("code", |t| {
            each(t, |(_, l)| {
                if l.is_empty() {
                    String::new()
                } else {
                    format!("`{l}`")
                }
            })
        }),
        ("quotation", |t| each(t, |(_, l)| format!("> {l}"))),
        ("a code block in prose", |t| {
            format!("Any ideas?\n\n```\n{t}```\n\nThanks\n")
        }),
        ("a code block of Jira", |t| {
            format!("Any ideas?\n\n{{code:bash}}\n{t}{{code}}\nThanks\n")
        }),
        ("a code block of a forum", |t| {
            format!("Any ideas?\n\n[code]{t}[/code]\nThanks\n")
        }),
    ];
    let desk = Desk::new();
    for name in TOLD {
        let whole = std::fs::read_to_string(fixture(&format!("kubectl/{name}.txt"))).unwrap();
        let want = told(&desk, &whole).0;
        for (what, change) in changes {
            let (got, said) = told(&desk, &change(&whole));
            assert_eq!(got, want, "{name}, {what}: {said}");
        }
        let (got, said) = told(
            &desk,
            &format!("<pre><code>{}</code></pre>\n", html(&whole)),
        );
        assert_eq!(got, want, "{name}, HTML: {said}");
    }
}

#[test]
fn a_large_text_is_read_to_its_end() {
    let row = "5m  Normal  Pulled  pod/web  Container image \"a:1\" already present on machine\n";
    let last =
        "1m  Warning  FailedScheduling  pod/last  0/3 nodes are available: 3 Insufficient cpu.\n";
    let text = format!(
        "\u{200b}LAST SEEN  TYPE  REASON  OBJECT  MESSAGE\n{}{last}",
        row.repeat(20_000)
    );
    let (small, desk) = (gz(text.as_bytes()), Desk::new());
    assert!(small.len() < 1 << 20 && text.len() > 1 << 20);
    let (why, said) = told_of(&desk, desk.file("paste.txt.gz", small));
    assert!(
        why.contains("NAMESPACE/last") || why.contains("\"last\""),
        "{why}{said}"
    );
    assert!(why.contains("KF201"), "{why}{said}");
}
