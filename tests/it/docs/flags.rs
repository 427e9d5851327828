//! Tries every flag of docs/reference.md, and each value that it lists: with a recording where the command reads one,
//! otherwise with `--help` at the end, which is printed only after all arguments before it were parsed.

use super::{REFERENCE, Scratch, pages, words};
use crate::program::kflow_in;

/// A flag of the reference: its command, its long name, and what it takes.
#[derive(Clone, Debug)]
struct Flag {
    command: String,
    name: String,
    /// The placeholder of its value; empty for a switch.
    takes: String,
    values: Vec<String>,
}

/// A sample value for a placeholder.
fn sample(name: &str) -> &'static str {
    match name {
        "FILE" | "PATH" | "BEFORE" => "incident.kflow.zst",
        "DIR" => ".",
        "TIME" => "1m",
        "DURATION" => "100ms",
        "SELECTOR" => "app=web",
        "ADDR" => "127.0.0.1:4317",
        "URL" => "http://127.0.0.1:4318",
        "NODE" => "node1",
        "NAMESPACE" => "shop",
        "POD" => "shop/web-0",
        "METHOD" => "RunPodSandbox",
        "EXPR" => "pod:web*",
        "NUMBER" | "FACTOR" => "2",
        "SIZE" => "10MiB",
        "LABEL=VALUE" => "example.com/pool=blue",
        "YEAR" => "2026",
        "OFFSET" => "+02:00",
        "THEME" => "light",
        "MEASURE" => "start",
        "NAME" => "light",
        "AUDIT-ID" => "6d9c",
        "FROM..TO" => "..50%",
        "WHERE" => "off",
        "IMAGE" => "registry.example/kflow:0.1.0",
        "1-19" => "3",
        "SQL" => "SELECT 1",
        other => panic!("no example of a {other}"),
    }
}

/// The flags of the reference, each with the values that it lists, or with a sample of what it takes.
fn reference() -> Vec<Flag> {
    let (_, text) = pages().into_iter().find(|(p, _)| p == REFERENCE).unwrap();
    let mut all: Vec<Flag> = Vec::new();
    let mut command = "";
    // The text of the flag that is being read.
    let mut told = String::new();
    for line in text.lines().chain(["## kflow end"]) {
        let begin = flag(line);
        let is_over = begin.is_some() || line.starts_with("## ") || line.starts_with("Examples:");
        if is_over {
            if let Some(last) = all.last_mut().filter(|_| !told.is_empty()) {
                last.values = values(&told);
                if last.values.is_empty() && !last.takes.is_empty() {
                    last.values.push(sample(&last.takes).to_owned());
                }
            }
            told.clear();
        }
        if let Some(name) = line.strip_prefix("## kflow ") {
            command = name;
        }
        // For a section of several commands, a command that has all its flags.
        command = match line {
            "### Input" | "### Scope" | "### Store" => "timeline",
            "### Live" | "### Control plane" => "record",
            _ => command,
        };
        if let Some((name, takes)) = begin {
            all.push(Flag {
                command: command.to_owned(),
                name,
                takes: takes.unwrap_or_default().to_owned(),
                values: Vec::new(),
            });
            told = format!("{line}\n");
        } else if !told.is_empty() {
            told += line;
            told.push('\n');
        }
    }
    all
}

/// Parses a line such as `-o, --output <FORM>   How …`: returns the long name, and the placeholder of the value. `None`
/// when the line begins no flag.
fn flag(line: &str) -> Option<(String, Option<&str>)> {
    let line = line.trim_start();
    let line = line
        .get(4..)
        .filter(|_| line.starts_with('-') && line.get(2..4) == Some(", "))
        .unwrap_or(line);
    let name = line.strip_prefix("--")?;
    let end = name.find([' ', '[']).unwrap_or(name.len());
    // A line of running text can begin with a flag's name.
    if !name[..end]
        .chars()
        .all(|c| c.is_ascii_lowercase() || c == '-')
    {
        return None;
    }
    let rest = name[end..].trim_start_matches([' ', '[', '=']);
    let takes = rest.strip_prefix('<').and_then(|r| r.split('>').next());
    Some((
        format!("--{}", &name[..end]),
        takes.filter(|_| name[end..].len() > 1 && !name[end..].starts_with("  ")),
    ))
}

/// The values that a flag lists: `[possible values: a, b]`, or lines `- a: …`.
fn values(told: &str) -> Vec<String> {
    let joined = crate::one_line(told);
    if let Some((_, list)) = joined.split_once("[possible values: ") {
        let list = list.split(']').next().unwrap();
        return list.split(", ").map(str::to_owned).collect();
    }
    let Some((_, list)) = told.split_once("Possible values:") else {
        return Vec::new();
    };
    let items = list.lines().filter_map(|l| l.trim().strip_prefix("- "));
    items
        .filter_map(|l| l.split(':').next())
        .map(str::to_owned)
        .collect()
}

/// Commands that read a recording, with the arguments that they also need.
const READERS: [(&str, &str); 7] = [
    ("timeline", ""),
    ("calls", ""),
    ("requests", ""),
    ("stats", ""),
    ("why", "shop/web-0"),
    ("flow", "shop/web-0"),
    ("export", "shop/web-0"),
];

/// Other arguments that some flags need: command, flag, arguments.
const BESIDE: [(&str, &str, &str); 9] = [
    ("why", "--since", "--ever"),
    ("why", "--range", "--ever"),
    ("stats", "--compare", "incident.kflow.zst"),
    ("fleet", "--compare", "50%.."),
    ("stats", "--against", "--filter node:*"),
    ("timeline", "--cluster", "--store file:///no/such/store"),
    ("timeline", "--from", "--store file:///no/such/store"),
    ("timeline", "--to", "--store file:///no/such/store"),
    ("timeline", "--verbose", "--store file:///no/such/store"),
];

fn line(flag: &Flag, value: Option<&String>) -> Vec<String> {
    // A command can have two words, such as `agent run`.
    let mut args = words(&flag.command);
    let reader = READERS.iter().find(|(c, _)| *c == flag.command);
    if let Some((_, more)) = reader {
        // `--all` replaces the pod; `--session` and `--compare` are the recording.
        if flag.name != "--all" {
            args.extend(words(more).into_iter().filter(|w| !w.is_empty()));
        }
        if !["--session", "--compare"].contains(&flag.name.as_str()) {
            args.extend(words("-s incident.kflow.zst"));
        }
        if flag.command == "export" && !["--output", "--otlp-to"].contains(&flag.name.as_str()) {
            args.extend(words(if flag.name == "--theme" {
                "-o svg"
            } else {
                "-o text"
            }));
        }
    }
    args.push(flag.name.clone());
    args.extend(value.cloned());
    let beside = BESIDE
        .iter()
        .find(|(c, f, _)| *c == flag.command && *f == flag.name);
    args.extend(beside.iter().flat_map(|(_, _, more)| words(more)));
    if reader.is_none() {
        args.push("--help".to_owned());
    }
    args
}

#[test]
fn every_flag_of_the_reference_and_every_value_that_it_lists_is_typed() {
    let flags = reference();
    assert!(flags.len() > 200, "{}", flags.len());
    let mut lines = Vec::new();
    for flag in &flags {
        if flag.values.is_empty() {
            lines.push(line(flag, None));
        }
        lines.extend(flag.values.iter().map(|v| line(flag, Some(v))));
    }
    let scratch = Scratch::new();
    let ran = std::sync::atomic::AtomicUsize::new(0);
    crate::unknown::each(&lines, |args| {
        let typed = args.join(" ");
        let dir = scratch.folder(args);
        let said = kflow_in(dir.path(), scratch.at_hand(args));
        let is_help = args.last().is_some_and(|a| a == "--help");
        assert_eq!(
            said.out.contains("Usage:"),
            is_help,
            "{typed}: {}",
            said.out
        );
        assert!(!said.err.contains("Usage:"), "{typed}: {}", said.err);
        match said.code {
            Some(0 | 1) => {
                ran.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            // A flag that needs a live source, or asks for what the recording cannot tell, is refused with a message.
            Some(2 | 3) => assert!(!said.err.is_empty() && !is_help, "{typed}: {}", said.err),
            other => panic!("{typed}: {other:?} {}", said.err),
        }
    });
    let ran = ran.into_inner();
    assert!(ran * 3 > lines.len() * 2, "{ran} of {}", lines.len());
}
