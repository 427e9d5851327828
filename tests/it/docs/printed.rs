//! The `console` blocks of the docs show what the commands print: each command is run again, with the recordings of the
//! examples. `KFLOW_UPDATE=1` writes the output into the page.

use super::{Scratch, pages, shell};
use crate::pages::current;
use crate::program::kflow_in;

/// The lines that the command of a block prints: all, or the first N with `| head -N`.
fn printed(scratch: &Scratch, line: &str) -> Vec<String> {
    let mut all = shell(line).into_iter();
    let mut words = all.next().expect("a command");
    assert_eq!(words.remove(0), "kflow", "{line}");
    let dir = scratch.folder(&words);
    let said = kflow_in(dir.path(), scratch.at_hand(&words));
    assert!(
        matches!(said.code, Some(0 | 1)),
        "{line}: {:?} {}",
        said.code,
        said.err
    );
    let most = all.next().map(|head| {
        assert_eq!(head[0], "head", "{line}");
        head[1].trim_start_matches('-').parse().expect("a number")
    });
    let lines = said.out.lines().map(|l| l.trim_end().to_owned());
    lines.take(most.unwrap_or(usize::MAX)).collect()
}

/// The page with fresh output in its blocks, and the number of their commands.
fn renewed(scratch: &Scratch, text: &str) -> (String, usize) {
    let mut out: Vec<String> = Vec::new();
    let (mut inside, mut told, mut commands) = (false, false, 0);
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
            told = false;
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            commands += 1;
            told = true;
            out.push(line.to_owned());
            out.extend(printed(scratch, command));
            continue;
        }
        // The lines below a command are its previous output.
        if !told {
            out.push(line.to_owned());
        }
    }
    (out.join("\n") + "\n", commands)
}

#[test]
fn what_the_docs_show_is_what_is_printed() {
    let scratch = Scratch::new();
    let mut commands = 0;
    for (page, text) in pages() {
        if !text.contains("```console") {
            continue;
        }
        let (now, n) = renewed(&scratch, &text);
        commands += n;
        let path = match page.as_str() {
            "README.md" => page,
            _ => format!("docs/{page}"),
        };
        current(&path, &now);
    }
    assert!(commands > 15, "{commands}");
}
