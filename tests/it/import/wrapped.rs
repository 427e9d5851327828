//! Lines that a terminal or a mail program cut on their way into a ticket.

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

#[test]
fn what_was_cut_tells_what_the_whole_tells() {
    let desk = Desk::new();
    let told = |name: &str, content: &str| {
        let file = desk.file(name, content);
        let all = [&*file, "--taken", "2026-11-27T00:38:00Z"];
        let (session, said) = desk.import("a.kflow", &all);
        let why = run(&["why", "--all", "-s", &session, "-o", "json"]);
        (text(&why.stdout), said)
    };
    for name in [
        "s2-image-missing-1.36",
        "s4-cni-fails-1.36",
        "s2-events-events-1.36",
        "s2-cm-missing-1.36",
    ] {
        let whole = std::fs::read_to_string(fixture(&format!("kubectl/{name}.txt"))).unwrap();
        let want = told("whole.txt", &whole).0;
        assert!(want.contains("\"KF"), "{want}");
        let terminals = TERMINALS.map(|width| by_terminal(&whole, width));
        for cut in terminals
            .into_iter()
            .chain(MAILS.map(|width| by_mail(&whole, width)))
        {
            let is_cut = cut.lines().count() > whole.lines().count();
            let (got, said) = told("whole.txt", &cut);
            assert_eq!(got, want, "{name}:\n{cut}\n{said}");
            let is_told = said.contains("columns are put together");
            assert_eq!(is_told, is_cut, "{name}:\n{cut}\n{said}");
        }
    }
}
