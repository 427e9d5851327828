//! A step of the map as text, for `kflow flow STEP`.

use super::map::{Map, Step};

/// Appends a formatted line to a text.
macro_rules! add {
    ($text:ident, $($args:tt)*) => {{
        $text.push_str(&format!($($args)*));
        $text.push('\n');
    }};
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

fn join(texts: &[kflow_model::Text]) -> String {
    texts.join(", ")
}
