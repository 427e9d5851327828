//! The map as text: one step for `kflow flow STEP`, the whole map for docs/flows.md.

use std::collections::BTreeSet;

use super::map::{Map, Scope, Step, StepId};

/// Appends a formatted line to a text.
macro_rules! add {
    ($text:ident, $($args:tt)*) => {{
        $text.push_str(&format!($($args)*));
        $text.push('\n');
    }};
}

/// The steps that one recording lights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Short name of the recording.
    pub recording: String,
    /// Steps that were seen to run.
    pub steps: BTreeSet<StepId>,
}

/// Describes one step as text without colour: what it does, its function and file, the evidence that shows it.
pub fn describe(map: &Map, step: &Step) -> String {
    let mut s = String::new();
    let mut line = |key: &str, value: &str| {
        if !value.is_empty() {
            add!(s, "{key:<10} {value}");
        }
    };
    line("step", &format!("{}  {}", step.id, step.label));
    for (key, sentences) in [("does", &step.does), ("hangs", &step.hangs)] {
        for (i, part) in lines(sentences).iter().enumerate() {
            line(if i == 0 { key } else { "" }, part);
        }
    }
    if let Some(flow) = map.flows().get(step.flow) {
        line("flow", &format!("{} ({})", flow.title, flow.name));
    }
    line("stage", step.stage.map_or("", super::Stage::name));
    line("function", &step.function);
    line("also", &join(&step.also));
    line("shown as", &join(&step.timeline));
    line("was", &join(&step.was));
    line("file", &step.file);
    if let Some(parent) = step.parent.and_then(|p| map.get(p)) {
        line("called by", &format!("{}  {}", parent.id, parent.function));
    }
    for (i, signature) in step.signatures.iter().enumerate() {
        line(if i == 0 { "evidence" } else { "" }, &signature.to_string());
    }
    line("never seen", &step.unseen);
    s
}

/// Breaks sentences into lines of at most 88 characters, which fit beside their key in a terminal of 100 columns.
fn lines(sentences: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in sentences.split_whitespace() {
        match out.last_mut() {
            Some(l) if l.chars().count() + 1 + word.chars().count() <= 88 => {
                l.push(' ');
                l.push_str(word);
            }
            _ => out.push(word.to_owned()),
        }
    }
    out
}

/// Returns the page docs/flows.md: for each flow its steps in words, then a table of their files, their evidence and
/// the recordings that show them; at the end the steps that no recording shows, with the reason.
pub fn markdown(map: &Map, seen: &[Seen]) -> String {
    let mut s = String::from("# The call flow\n\n");
    let lit = |id: StepId| -> Vec<&str> {
        seen.iter()
            .filter(|r| r.steps.contains(&id))
            .map(|r| r.recording.as_str())
            .collect()
    };
    let total = map.steps().len();
    let numbered = || {
        map.steps()
            .iter()
            .enumerate()
            .map(|(i, step)| (StepId(i as u16), step))
    };
    let invisible = map.steps().iter().filter(|s| s.is_invisible()).count();
    let shown = numbered().filter(|(id, _)| !lit(*id).is_empty()).count();
    add!(
        s,
        "How a pod starts, lives and ends in Kubernetes {}, step by step: what happens, who does it and why, and what one sees\n\
         if it hangs there. Read from the top it is the life of one pod; what runs beside it, and how kubelet\n\
         and apiserver themselves start, comes after it. Below each flow is a table of where each step is in the source, and how kflow sees it.\n",
        map.version,
    );
    add!(
        s,
        "Generated from `crates/core/src/flow/map.toml` and from what the recordings of real nodes light; do not edit.\n\
         {total} steps: {shown} are seen in the recordings, {invisible} cannot be seen by any source,\n\
         {} could be seen but do not occur in them. `kflow flow STEP` prints one step with all its evidence.\n\n\
         What a word means: [glossary.md](glossary.md). Under *seen in*, S1 to S15 are the recordings of real nodes with\n\
         which kflow is tested (`fixtures/README.md` says what happens in each); `all` is in each of them, – in none.\n",
        total.saturating_sub(shown).saturating_sub(invisible),
    );
    for (i, flow) in map.told() {
        let scope = match flow.scope {
            Scope::Pod => "one pod",
            Scope::Node => "the node or component",
            Scope::Both => "the node, and one pod",
        };
        add!(s, "## ({}) {}\n", flow.id, flow.title);
        if !flow.about.is_empty() {
            add!(s, "{}\n", flow.about);
        }
        for (_, step) in map.steps_in(i) {
            add!(s, "- **{} · {}.** {}", step.id, step.label, step.does);
            if !step.hangs.is_empty() {
                add!(s, "  *If it hangs:* {}", step.hangs);
            }
        }
        add!(
            s,
            "\n`kflow flow {}`, the story of {scope}.\n\n\
             | step | what | function | file | stage | evidence | seen in |\n|---|---|---|---|---|---|---|",
            flow.name
        );
        for (id, step) in map.steps_in(i) {
            let kinds: Vec<&str> = step
                .kinds()
                .into_iter()
                .map(super::signature::SignatureKind::name)
                .collect();
            let file = if step.file.is_empty() {
                String::new()
            } else {
                format!("`{}`", step.file)
            };
            add!(
                s,
                "| {} | {} | `{}` | {file} | {} | {} | {} |",
                step.id,
                cell(&step.label),
                step.function,
                step.stage.map_or("", super::Stage::name),
                kinds.join(", "),
                recordings(&lit(id), seen.len()),
            );
        }
        s.push('\n');
    }
    s.push_str("## Steps that no recording shows\n\n| step | function | why |\n|---|---|---|\n");
    for (id, step) in numbered() {
        if lit(id).is_empty() {
            add!(
                s,
                "| {} | `{}` | {} |",
                step.id,
                step.function,
                cell(&why(step))
            );
        }
    }
    s.push_str(SAME_REQUEST);
    s
}

/// Returns why no recording shows a step: no source can, or these recordings do not contain it.
fn why(step: &Step) -> String {
    if step.is_invisible() {
        step.signatures
            .iter()
            .map(|c| c.to_string().trim_start_matches("none: ").to_owned())
            .collect::<Vec<_>>()
            .join("; ")
    } else {
        step.unseen.to_string()
    }
}

fn recordings(names: &[&str], of: usize) -> String {
    if names.is_empty() {
        "–".into()
    } else if names.len() == of && of > 3 {
        "all".into()
    } else {
        names.join(" ")
    }
}

fn join(texts: &[kflow_model::Text]) -> String {
    texts.join(", ")
}

/// Escapes a text for a cell of a Markdown table.
fn cell(s: &str) -> String {
    s.replace('|', "\\|").replace('\n', " ")
}

/// How far the times of one request differ between two sources. `tests/it/requests.rs` measures it with every run
/// (`cargo test --test it requests -- --nocapture`).
const SAME_REQUEST: &str = "
## One request, told by audit and by spans

A request that both tell of is one request, joined by its audit id. Its edges in the timeline are audit's, to the
microsecond: the apiserver reads its clock for them where the request arrives, before authentication, and where its
answer is complete. Spans lie within: the server span begins behind the filters for panics, deadlines and
authentication, and the handler's span (`Create`, `Patch`, …) behind all filters. So the two cannot begin at the same
moment; the difference is time that the request really spent, and `kflow requests --id` shows each filter's share of it.

| over 6,830 requests of the recordings (two busy cores) | median | p95 | p99 | worst | within 1 ms |
|---|---|---|---|---|---|
| from audit's receipt to the begin of the server span | 0.26 ms | 0.66 ms | 1.9 ms | 39 ms | 97.6 % |
| from audit's receipt to the begin of the handler's span | 0.64 ms | 1.7 ms | 4.0 ms | 298 ms | 85.0 % |
| from the end of the handler's span to audit's end | 0.08 ms | 0.29 ms | 0.92 ms | 13 ms | 99.1 % |

What holds for every one of them, and is tested: the server span never begins before audit's receipt, the handler's span
lies between audit's edges, and the time between the begin of the server span and that of the handler's is accounted for by
the filters' own spans. Where only spans tell of a request, its begin is the server span's, too late by the first row.
";
