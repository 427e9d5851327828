//! Runs every command that the docs and `--help` give as an example, each in a scratch folder that holds the files that
//! it names.
//!
//! A command without a recording looks for a cluster, and there is none here: kflow has to accept its arguments, and to
//! end with 2. A command that would listen, follow or record until it is stopped is only parsed.

mod flags;
mod printed;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::fixture;
use crate::otlp::posting::{OK, Store};
use crate::pages::current;
use crate::program::{self, commands, kflow, kflow_in, run};

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn help(command: &str) -> String {
    kflow(words(&format!("{command} --help"))).out
}

/// Every command, and the subcommands of those that have some: `agent`, `agent run`.
fn every_command() -> Vec<String> {
    let own = |command: &String| {
        let help = help(command);
        let of: Vec<String> = help
            .lines()
            .skip_while(|l| *l != "Commands:")
            .skip(1)
            .map_while(|l| l.strip_prefix("  "))
            .filter_map(|l| l.split(' ').find(|w| !w.is_empty()))
            .filter(|c| *c != "help")
            .map(|c| format!("{command} {c}"))
            .collect();
        [vec![command.clone()], of].concat()
    };
    commands().iter().flat_map(own).collect()
}

/// The long flags in a command's help.
fn flags(help: &str) -> BTreeSet<String> {
    let lines = help.lines().map(str::trim_start);
    lines
        .filter(|l| l.starts_with('-'))
        .filter_map(|l| l.split([' ', ',', '=', '[']).find(|w| w.starts_with("--")))
        .map(str::to_owned)
        .collect()
}

/// The pages of `docs` and the README: name and text.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_dir(root.join("docs")).unwrap();
    let mut all: Vec<_> = docs.map(|e| e.unwrap().path()).collect();
    all.push(root.join("README.md"));
    all.retain(|p| p.extension().is_some_and(|e| e == "md"));
    all.sort();
    all.iter()
        .map(|p| {
            let name = p.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(p).unwrap())
        })
        .collect()
}

/// Splits a shell line into commands: words without quotes, up to a comment. Pipes and `&&` separate commands; a
/// redirection ends one.
fn shell(line: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let (mut word, mut quote, mut skip) = (String::new(), None, false);
    let end = |word: &mut String, skip: &mut bool, all: &mut Vec<Vec<String>>| {
        let word = std::mem::take(word);
        match word.as_str() {
            "" => {}
            "|" | "&&" => {
                all.push(Vec::new());
                *skip = false;
            }
            ">" => *skip = true,
            _ if *skip => {}
            _ => all.last_mut().unwrap().push(word),
        }
    };
    for c in line.chars() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            ('\'' | '"', None) => quote = Some(c),
            (' ', None) => end(&mut word, &mut skip, &mut all),
            ('#', None) if word.is_empty() => break,
            (c, _) => word.push(c),
        }
    }
    end(&mut word, &mut skip, &mut all);
    all
}

/// The arguments of each `kflow` in a line. A `kflow` that `xargs` starts gets a pod.
fn of_line(line: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for mut words in shell(line) {
        let Some(at) = words.iter().position(|w| w == "kflow") else {
            continue;
        };
        let mut args = words.split_off(at + 1);
        words.pop();
        match words.first().map(String::as_str) {
            None => {}
            Some("xargs") => args.push("shop/web-0".to_owned()),
            // Here `kflow` is an argument of another command.
            Some(_) => continue,
        }
        all.push(args);
    }
    all
}

/// A recording whose pod shop/web-0, Deployment shop/web and node node1 have the names of the examples; it ends while
/// pods hang.
fn recording(name: &str) -> Vec<u8> {
    let is_night = ["night", "before", "after"]
        .iter()
        .any(|n| name.starts_with(n));
    let (session, names) = if is_night {
        ("S5-burst", [("s19", "shop"), ("burst", "web")])
    } else {
        (
            "S2-stuck-early",
            [("s02", "shop"), ("image-missing", "web-0")],
        )
    };
    let packed = fs::read(crate::recording(session)).unwrap();
    let mut text = String::from_utf8(zstd::decode_all(&packed[..]).unwrap()).unwrap();
    for (was, is) in names {
        text = text.replace(was, is);
    }
    let lines = text.lines().count();
    let kept = if is_night { lines } else { lines * 2 / 3 };
    let text: Vec<&str> = text.lines().take(kept).collect();
    zstd::encode_all((text.join("\n") + "\n").as_bytes(), 1).unwrap()
}

/// The files that examples name, made once.
struct Scratch {
    made: tempfile::TempDir,
    store: Store,
}

/// A folder of the fixtures as a compressed archive.
fn packed(folder: &str) -> Vec<u8> {
    let gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut tar = tar::Builder::new(gz);
    tar.append_dir_all(folder, fixture(folder)).unwrap();
    tar.into_inner().unwrap().finish().unwrap()
}

impl Scratch {
    const RECORDINGS: [&str; 5] = [
        "incident.kflow.zst",
        "night.kflow.zst",
        "before.kflow.zst",
        "after.kflow.zst",
        "FILE",
    ];

    fn new() -> Self {
        let made = tempfile::tempdir().unwrap();
        for name in Self::RECORDINGS {
            fs::write(made.path().join(name), recording(name)).unwrap();
        }
        Self {
            made,
            store: Store::answering(&[OK]),
        }
    }

    /// A folder with the files that a line reads, and without the file that it writes.
    fn folder(&self, args: &[String]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let written = args.iter().position(|a| a == "-O").map(|at| &args[at + 1]);
        for arg in args.iter().filter(|a| Some(*a) != written) {
            let to = dir.path().join(arg);
            if Self::RECORDINGS.contains(&arg.as_str()) {
                fs::copy(self.made.path().join(arg), to).unwrap();
            } else if arg == "captures" {
                fs::create_dir(&to).unwrap();
                for file in fs::read_dir(fixture("captures")).unwrap() {
                    let file = file.unwrap();
                    fs::copy(file.path(), to.join(file.file_name())).unwrap();
                }
            } else if arg == "must-gather.tar.gz" {
                fs::write(to, packed("bundle")).unwrap();
            } else if arg == "ticket.txt" || arg == "describe.txt" {
                fs::copy(fixture("kubectl/s1-healthy-1.36.txt"), to).unwrap();
            } else if arg == "pods.json" {
                fs::copy(fixture("bundle/handy/pods.json"), to).unwrap();
            } else if arg == "kubelet.log" || arg == "some.txt" || arg == "audit.log" {
                let of = match arg.as_str() {
                    "audit.log" => "captures/audit.jsonl.zst",
                    _ => "captures/kubelet.log.zst",
                };
                let text = zstd::decode_all(&fs::read(fixture(of)).unwrap()[..]).unwrap();
                fs::write(to, text).unwrap();
            }
        }
        dir
    }

    /// The same arguments, but with the test's own stores where an example writes to one, and with a node of which this
    /// machine has no agent.
    fn at_hand(&self, args: &[String]) -> Vec<String> {
        let adds = args.iter().any(|a| a == "add");
        let recorded =
            (args.iter()).any(|a| ["-s", "--session", "--compare"].contains(&a.as_str()));
        let stands = |arg: &String| match arg.strip_prefix("file:///") {
            Some(path) if adds => format!("file://{}/{path}", self.made.path().display()),
            _ if arg == "http://127.0.0.1:4318" => self.store.url(),
            _ if !recorded => arg.replace("node1", "node-of-the-docs"),
            _ => arg.clone(),
        };
        args.iter().map(stands).collect()
    }

    /// Runs a line of the docs, and returns how it was checked.
    fn run(&self, whence: &str, args: &[String]) -> &'static str {
        let line = format!("{whence}: kflow {}", args.join(" "));
        let args = self.at_hand(args);
        let args = args.as_slice();
        let command = args.first().map_or("", String::as_str);
        let has = |words: &[&str]| args.iter().any(|a| words.contains(&a.as_str()));
        let dir = self.folder(args);
        if ["agent", "proxy", "record", "tui"].contains(&command)
            || has(&["--watch", "-w", "--follow"])
        {
            // Help is printed only after all arguments before it were parsed.
            let said = kflow_in(dir.path(), [args, &["--help".to_owned()]].concat());
            assert_eq!(said.code, Some(0), "{line}: {}", said.err);
            assert!(said.out.contains("Usage:"), "{line}: {}", said.out);
            return "parsed";
        }
        // The command before the pipe would write a recording.
        let piped = args.windows(2).any(|w| w[0] == "-s" && w[1] == "-");
        let stdin = if piped {
            let recording = fs::File::open(self.made.path().join("incident.kflow.zst"));
            recording.unwrap().into()
        } else if command == "import" && args.get(1).is_some_and(|a| a == "-") {
            // The command before the pipe would ask a cluster.
            let described = fs::File::open(fixture("kubectl/s1-healthy-1.36.txt"));
            described.unwrap().into()
        } else {
            Stdio::null()
        };
        let said = run(program::command()
            .args(args)
            .current_dir(dir.path())
            .stdin(stdin));
        assert!(!said.err.contains("Usage:"), "{line}: {}", said.err);
        // The crate `fleet` is not in this build: its own tests run these lines.
        let tables =
            command == "fleet" || (command == "store" && args.iter().any(|a| a == "tables"));
        if tables && cfg!(not(feature = "fleet")) {
            assert_eq!(said.code, Some(2), "{line}: {}", said.err);
            assert!(
                said.err.contains("--features fleet"),
                "{line}: {}",
                said.err
            );
            return "without the feature";
        }
        let adds = args.iter().any(|a| a.starts_with("file://")) && has(&["add"]);
        if (has(&["--store"]) || command == "store") && !adds {
            assert_eq!(said.code, Some(2), "{line}: {}", said.err);
            assert!(said.err.contains(" store "), "{line}: {}", said.err);
            return "without a store";
        }
        if ["replay", "demo"].contains(&command) {
            assert_eq!(said.code, Some(2), "{line}: {}", said.err);
            assert!(said.err.contains("terminal"), "{line}: {}", said.err);
            return "without a terminal";
        }
        let alone = [
            "causes",
            "completions",
            "config",
            "filter",
            "fleet",
            "flow",
            "help",
            "import",
            "keys",
            "man",
            "store",
            "themes",
        ];
        if has(&["-s", "--session", "--compare", "--no-api"]) || alone.contains(&command) {
            let fine = said.code == Some(0) || (said.code == Some(1) && command == "why");
            // The recordings here are shorter than those that the examples assume.
            if said.code == Some(2) && said.err.contains("that is before what was recorded") {
                return "before the begin";
            }
            assert!(fine, "{line}: {:?} {}", said.code, said.err);
            assert!(
                !said.out.is_empty()
                    || args
                        .iter()
                        .any(|a| ["-O", ".", "--errors", "--otlp-to", "add"].contains(&a.as_str())),
                "{line}"
            );
            return "run";
        }
        assert_eq!(said.code, Some(2), "{line}: {}", said.err);
        "without a cluster"
    }
}

/// Runs lines, several at a time, and counts how each was checked.
fn run_all(lines: &[(String, Vec<String>)]) -> BTreeMap<&'static str, usize> {
    let scratch = Scratch::new();
    let counts = std::sync::Mutex::new(BTreeMap::new());
    crate::unknown::each(lines, |(whence, args)| {
        let how = scratch.run(whence, args);
        *counts.lock().unwrap().entry(how).or_default() += 1;
    });
    counts.into_inner().unwrap()
}

#[test]
fn every_line_of_the_docs_does_what_it_says() {
    let mut lines = Vec::new();
    for (page, text) in pages() {
        if page == REFERENCE {
            continue;
        }
        let mut fenced = false;
        for line in text.lines() {
            fenced ^= line.starts_with("```");
            let typed = if fenced {
                Some(line)
            } else {
                line.strip_prefix("    ")
            };
            // A line of a diagram is no command.
            let Some(typed) = typed.filter(|l| l.contains("kflow ") && !l.contains('▶')) else {
                continue;
            };
            let all = of_line(typed).into_iter();
            lines.extend(all.map(|args| (page.clone(), args)));
        }
    }
    let how = run_all(&lines);
    assert!(how["run"] >= 10 && how["parsed"] >= 5, "{how:?}");
    assert!(how["without a cluster"] >= 2, "{how:?}");
}

#[test]
fn every_help_has_examples_that_run() {
    let mut lines = Vec::new();
    for command in every_command() {
        let help = help(&command);
        let (_, examples) = help
            .split_once("\nExamples:\n")
            .unwrap_or_else(|| panic!("{command} has no example"));
        let all: Vec<_> = examples.lines().flat_map(of_line).collect();
        assert!(!all.is_empty(), "{command}: {examples}");
        for args in all {
            let first = command.split(' ').next();
            assert_eq!(Some(args[0].as_str()), first, "{examples}");
            lines.push((format!("{command} --help"), args));
        }
    }
    let how = run_all(&lines);
    assert!(how["run"] >= 20, "{how:?}");
    // A wrong argument is found even in a command that is only parsed.
    let dir = tempfile::tempdir().unwrap();
    for bad in ["tui --nodee x --help", "record --for soon -O x --help"] {
        assert_eq!(kflow_in(dir.path(), words(bad)).code, Some(2), "{bad}");
    }
}

/// Commands and flags in the text of the docs, such as `kflow stats --by`, exist.
#[test]
fn commands_and_flags_that_the_docs_name_exist() {
    let of: BTreeMap<String, BTreeSet<String>> = every_command()
        .into_iter()
        .map(|c| (c.clone(), flags(&help(&c))))
        .collect();
    let every: BTreeSet<&String> = of.values().flatten().collect();
    let mut seen = 0;
    for (page, text) in pages() {
        // Another test runs the rows of exit codes.
        let rows = |l: &&str| !l.starts_with("| `kflow ");
        let text: Vec<&str> = text.lines().filter(rows).collect();
        let text = text.join("\n");
        for span in text.split('`').skip(1).step_by(2) {
            let mut words = span.split_whitespace();
            if words.next() != Some("kflow") {
                continue;
            }
            let Some(command) = words.next().filter(|w| w.starts_with(char::is_alphabetic)) else {
                continue;
            };
            // The name of a source in the status bar, and commands that help does not list.
            if ["engine", "help", "screenshots"].contains(&command) {
                continue;
            }
            let mut words = words.peekable();
            let of_two = words.peek().and_then(|w| of.get(&format!("{command} {w}")));
            let known = of_two.or_else(|| of.get(command));
            let known = known.unwrap_or_else(|| panic!("{page}: no command in `{span}`"));
            for flag in words.filter(|w| w.starts_with("--")) {
                let flag = flag.split(['=', ']']).next().unwrap();
                assert!(known.contains(flag), "{page}: no {flag} in `{span}`");
            }
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
    // The table of flags also names short forms.
    let (_, text) = pages()
        .into_iter()
        .find(|(p, _)| p == "commands.md")
        .unwrap();
    let (_, table) = text.split_once("\n## Flags\n").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let mut told = 0;
    for row in table.lines().filter(|l| l.starts_with("| `-")) {
        let cell = row.split(" | ").next().unwrap();
        for span in cell.split('`').skip(1).step_by(2) {
            let flag = span.split(' ').next().unwrap();
            let there = match flag.strip_prefix("--") {
                Some(_) => every.iter().any(|f| *f == flag),
                None => of
                    .keys()
                    .any(|c| help(c).contains(&format!("  {flag}, --"))),
            };
            assert!(there, "docs/commands.md: {flag}");
            told += 1;
        }
    }
    assert!(told > 12, "{told}");
}

const REFERENCE: &str = "reference.md";

/// The sections of a command's help, by their heads: the part before the first head has an empty one.
fn sections(help: &str) -> Vec<(String, String)> {
    let mut all = vec![(String::new(), String::new())];
    for line in help.lines() {
        let head = line
            .strip_suffix(':')
            .filter(|l| l.starts_with(char::is_alphabetic));
        match head {
            Some(head) if !line.starts_with("Usage") => all.push((head.to_owned(), String::new())),
            _ => {
                let text = &mut all.last_mut().unwrap().1;
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
    }
    all
}

/// `docs/reference.md` has every flag of every command as help prints it; a section of several commands is in it once.
/// `KFLOW_UPDATE=1` writes it.
#[test]
fn the_reference_is_what_help_says() {
    let of: Vec<(String, Vec<(String, String)>)> = every_command()
        .into_iter()
        .map(|c| (c.clone(), sections(&help(&c))))
        .collect();
    let mut times: BTreeMap<&(String, String), usize> = BTreeMap::new();
    for section in of.iter().flat_map(|(_, s)| s) {
        *times.entry(section).or_default() += 1;
    }
    let shared = |s: &(String, String)| times[s] > 1 && s.0 != "Options";
    let block = |text: &str| format!("```text\n{}\n```\n", text.trim_matches('\n'));
    let mut page = "# Commands and their flags\n\nMade from `--help` by a test (`KFLOW_UPDATE=1 cargo test --test it docs`). \
        What the words mean in every command: [commands.md](commands.md).\n"
        .to_owned();
    let mut told = Vec::new();
    for (command, sections) in &of {
        page.push_str(&format!("\n## kflow {command}\n\n"));
        let mut text = String::new();
        let mut also = Vec::new();
        for section in sections {
            let (head, lines) = section;
            if shared(section) {
                also.push(head.as_str());
                if !told.contains(&section) {
                    told.push(section);
                }
                continue;
            }
            if !head.is_empty() {
                text.push_str(&format!("\n{head}:\n"));
            }
            text.push_str(lines.trim_matches('\n'));
            text.push('\n');
        }
        page.push_str(&block(&text));
        if !also.is_empty() {
            page.push_str(&format!(
                "\nAnd of several commands: {}.\n",
                also.join(", ")
            ));
        }
    }
    page.push_str("\n## Of several commands\n");
    for (head, lines) in told {
        page.push_str(&format!("\n### {head}\n\n{}", block(lines)));
    }
    current(&format!("docs/{REFERENCE}"), &page);
    for (command, _) in &of {
        for flag in flags(&help(command)) {
            assert!(page.contains(&flag), "{command}: {flag}");
        }
    }
}
