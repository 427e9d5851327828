//! Files of the repository that are made from the program: each is compared with what the program makes now, and
//! `KFLOW_UPDATE=1` writes it. Here are the pages that are made of its tables.

use std::collections::BTreeSet;

use kflow_core::diagnose::Catalogue;
use kflow_core::flow::map::Scope;
use kflow_core::flow::signature::SignatureKind;
use kflow_core::flow::{Map, Stage, Step, StepId, glossary};
use kflow_core::query;
use kflow_export::causes;

use crate::in_repository;
use crate::program::kflow;

/// Compares a file of the repository with what it has to be. `KFLOW_UPDATE=1` writes it.
pub(crate) fn current(path: &str, text: &str) {
    let file = in_repository(path);
    if std::env::var_os("KFLOW_UPDATE").is_some() {
        std::fs::write(&file, text).expect("the file can be written");
    }
    let on_disk = std::fs::read_to_string(&file).unwrap_or_default();
    let line = (on_disk.lines().zip(text.lines()))
        .position(|(a, b)| a != b)
        .unwrap_or_else(|| on_disk.lines().count().min(text.lines().count()));
    assert!(
        on_disk == text,
        "{path} is not what the program makes, from line {} on; KFLOW_UPDATE=1 in front of the test's command writes it",
        line + 1
    );
}

/// A table of Markdown.
fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut out = format!(
        "| {} |\n|{}\n",
        heads.join(" | "),
        "---|".repeat(heads.len())
    );
    for row in rows {
        let cells: Vec<String> = (row.iter())
            .map(|c| c.replace('|', "\\|").replace('\n', " "))
            .collect();
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    out
}

fn quoted(text: &str) -> String {
    format!("`{text}`")
}

#[test]
fn the_list_of_causes_is_current() {
    let mut out = String::from(
        "# Causes\n\nWhat `kflow why` can say, generated from `crates/core/src/diagnose/catalogue.toml`. Ids are stable for ever.\n",
    );
    out.push_str(&format!(
        "\nIn *what to do*, {}.\n",
        causes::BRACES.replace("{braces}", "`{braces}`")
    ));
    for stage in Stage::ALL {
        let all = Catalogue::get().iter().filter(|c| c.stage == stage);
        let rows: Vec<Vec<String>> = all
            .map(|c| {
                let steps = c.all_steps();
                let steps =
                    steps.map(|(text, command)| format!("{}: `{command}`", causes::shown(text)));
                vec![
                    c.id.to_string(),
                    format!("[{}]({})", c.title, c.docs),
                    c.about.clone(),
                    steps.collect::<Vec<_>>().join("<br>"),
                    causes::source(&c.source),
                ]
            })
            .collect();
        if !rows.is_empty() {
            let heads = ["id", "cause", "what it means", "what to do", "source"];
            out.push_str(&format!("\n## {}\n\n{}", stage.name(), table(&heads, rows)));
        }
    }
    current("docs/causes.md", &out);
}

#[test]
fn the_page_of_words_is_current() {
    let head = "# Words\n\nWhat the words mean that [the call flow](flows.md) and the terminal use, for who knows kubectl. \
         `kflow flow WORD` prints one;\nthe Flow pane lists the words of a step below its sentences.\n\n\
         Generated from `crates/core/src/flow/glossary.toml`; do not edit.\n\n";
    let rows = glossary::words().iter();
    let rows = rows.map(|w| vec![w.name.to_string(), w.means.to_string()]);
    let words = table(&["word", "what it is"], rows);
    current("docs/glossary.md", &format!("{head}{words}"));
}

#[test]
fn the_filter_language_is_that_of_the_program() {
    let mut out = "# The filter language\n\nWhat `kflow calls --filter`, `kflow stats --filter`, `kflow replay --filter` and `/` in the \
                   terminal take; `kflow filter` prints it. Made from the program's tables by a test (`KFLOW_UPDATE=1 cargo test --test it pages`).\n"
        .to_owned();
    for part in query::docs::tables() {
        let rows = part.rows.into_iter().map(|mut row| {
            if let Some(first) = row.first_mut() {
                *first = quoted(first);
            }
            row
        });
        let rows = table(part.heads, rows);
        out.push_str(&format!("\n## {}\n\n{}\n\n{rows}", part.title, part.above));
    }
    current("docs/filter.md", &out);
    let text = kflow(["filter"]).out;
    assert_eq!(text, query::docs::text());
    let help = kflow(["help", "filter"]).out;
    assert!(help.contains(text.trim_end()));
}

/// The steps that one recording lights.
pub(crate) struct Seen {
    /// Short name of the recording.
    pub(crate) recording: String,
    /// Steps that were seen to run.
    pub(crate) steps: BTreeSet<StepId>,
}

/// Returns the page docs/flows.md: for each flow its steps in words, then a table of their files, their evidence and
/// the recordings that show them; at the end the steps that no recording shows, with the reason.
pub(crate) fn flows(map: &Map, seen: &[Seen]) -> String {
    let lit = |id: StepId| -> Vec<&str> {
        let of_it = seen.iter().filter(|r| r.steps.contains(&id));
        of_it.map(|r| r.recording.as_str()).collect()
    };
    let numbered = || (map.steps().iter().enumerate()).map(|(i, step)| (StepId(i as u16), step));
    let total = map.steps().len();
    let invisible = map.steps().iter().filter(|s| s.is_invisible()).count();
    let shown = numbered().filter(|(id, _)| !lit(*id).is_empty()).count();
    let mut out = format!(
        "# The call flow\n\n\
         How a pod starts, lives and ends in Kubernetes {}, step by step: what happens, who does it and why, and what one sees\n\
         if it hangs there. Read from the top it is the life of one pod; what runs beside it, and how kubelet\n\
         and apiserver themselves start, comes after it. Below each flow is a table of where each step is in the source, and how kflow sees it.\n\n\
         Generated from `crates/core/src/flow/map.toml` and from what the recordings of real nodes light; do not edit.\n\
         {total} steps: {shown} are seen in the recordings, {invisible} cannot be seen by any source,\n\
         {} could be seen but do not occur in them. `kflow flow STEP` prints one step with all its evidence.\n\n\
         What a word means: [glossary.md](glossary.md). Under *seen in*, S1 to S15 are the recordings of real nodes with\n\
         which kflow is tested (`fixtures/README.md` says what happens in each); `all` is in each of them, – in none.\n\n",
        map.version,
        total.saturating_sub(shown).saturating_sub(invisible),
    );
    for (i, flow) in map.told() {
        let scope = match flow.scope {
            Scope::Pod => "one pod",
            Scope::Node => "the node or component",
            Scope::Both => "the node, and one pod",
        };
        out.push_str(&format!("## ({}) {}\n\n", flow.id, flow.title));
        if !flow.about.is_empty() {
            out.push_str(&format!("{}\n\n", flow.about));
        }
        for (_, step) in map.steps_in(i) {
            out.push_str(&format!(
                "- **{} · {}.** {}\n",
                step.id, step.label, step.does
            ));
            if !step.hangs.is_empty() {
                out.push_str(&format!("  *If it hangs:* {}\n", step.hangs));
            }
        }
        let rows = map.steps_in(i).map(|(id, step)| {
            let kinds = step.kinds().into_iter().map(SignatureKind::name);
            let file = Some(&step.file).filter(|f| !f.is_empty());
            vec![
                step.id.to_string(),
                step.label.to_string(),
                quoted(&step.function),
                file.map_or_else(String::new, |f| quoted(f)),
                step.stage.map_or("", Stage::name).to_owned(),
                kinds.collect::<Vec<_>>().join(", "),
                recordings(&lit(id), seen.len()),
            ]
        });
        let heads = [
            "step", "what", "function", "file", "stage", "evidence", "seen in",
        ];
        let steps = table(&heads, rows);
        out.push_str(&format!(
            "\n`kflow flow {}`, the story of {scope}.\n\n{steps}\n",
            flow.name
        ));
    }
    let unseen = numbered().filter(|(id, _)| lit(*id).is_empty());
    let rows = unseen.map(|(_, s)| vec![s.id.to_string(), quoted(&s.function), why(s)]);
    let rows = table(&["step", "function", "why"], rows);
    out + "## Steps that no recording shows\n\n" + &rows + SAME_REQUEST
}

/// Returns why no recording shows a step: no source can, or these recordings do not contain it.
fn why(step: &Step) -> String {
    if !step.is_invisible() {
        return step.unseen.to_string();
    }
    let told = step.signatures.iter().map(ToString::to_string);
    let told = told.map(|t| t.trim_start_matches("none: ").to_owned());
    told.collect::<Vec<_>>().join("; ")
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
