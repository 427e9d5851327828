//! The glossary: the words of the call flow and of the terminal, each with one sentence. The data is
//! `glossary.toml`.

use std::sync::LazyLock;

use kflow_model::Text;
use serde::Deserialize;

/// The glossary's file.
const EMBEDDED: &str = include_str!("glossary.toml");

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    pub name: Text,
    /// Other forms of the word.
    #[serde(default)]
    pub also: Vec<Text>,
    /// One sentence.
    pub means: Text,
    /// True for a word that commands and panes print. [`used`] does not look for it: the map's sentences may have it in
    /// another sense.
    #[serde(default)]
    pub shown: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    word: Vec<Word>,
}

static WORDS: LazyLock<Vec<Word>> = LazyLock::new(|| {
    // The tests parse the file, which is part of the program.
    toml::from_str::<File>(EMBEDDED).map_or_else(|_| Vec::new(), |f| f.word)
});

/// Returns all words, in alphabetical order.
pub fn words() -> &'static [Word] {
    &WORDS
}

/// Returns the word of this name or its plural, in letters of either case.
pub fn find(name: &str) -> Option<&'static Word> {
    let one = name.strip_suffix('s').unwrap_or(name);
    let is = |n: &Text| n.eq_ignore_ascii_case(name) || n.eq_ignore_ascii_case(one);
    (words().iter()).find(|w| is(&w.name) || w.also.iter().any(is))
}

/// Returns the words that a text has, in the order of the glossary.
pub fn used(text: &str) -> Vec<&'static Word> {
    (words().iter())
        .filter(|w| !w.shown && w.is_in(text))
        .collect()
}

impl Word {
    /// Returns true if a text has the word, alone or as plural. An abbreviation has to be in its capitals.
    pub fn is_in(&self, text: &str) -> bool {
        let forms = std::iter::once(&self.name).chain(&self.also);
        forms.map(Text::as_str).any(|form| {
            let capitals = form.chars().all(|c| c.is_ascii_uppercase());
            if capitals {
                has(text, form)
            } else {
                has(&text.to_lowercase(), &form.to_lowercase())
            }
        })
    }
}

/// Returns true if `form` stands in a text as a word, or with an s at its end.
fn has(text: &str, form: &str) -> bool {
    let part = |c: char| c.is_alphanumeric();
    text.match_indices(form).any(|(at, _)| {
        let before = text.get(..at).and_then(|t| t.chars().next_back());
        let after = text.get(at + form.len()..).unwrap_or_default();
        let after = after.strip_prefix('s').unwrap_or(after).chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Map;

    fn sentences() -> String {
        let map = Map::embedded();
        let of_steps = (map.steps().iter()).flat_map(|s| [&s.label, &s.does, &s.hangs]);
        let of_flows = map.flows().iter().flat_map(|f| [&f.title, &f.about]);
        let all: Vec<&str> = of_steps.chain(of_flows).map(Text::as_str).collect();
        all.join("\n")
    }

    #[test]
    fn the_words_are_in_order_each_with_one_sentence_and_used() {
        let file: File = toml::from_str(EMBEDDED).expect("the glossary");
        assert_eq!(file.word, words());
        let text = sentences();
        for w in words() {
            assert!(w.means.ends_with('.'), "{}", w.name);
            assert!(w.shown || w.is_in(&text), "{}", w.name);
        }
        let order: Vec<String> = words().iter().map(|w| w.name.to_lowercase()).collect();
        assert!(order.is_sorted(), "{order:?}");
    }

    /// Abbreviations that are known everywhere, and verbs of protocols and of the kubelet's log.
    const KNOWN: &[&str] = &[
        "ADD",
        "API",
        "CPU",
        "DEL",
        "DELETE",
        "DNS",
        "GET",
        "HTTP",
        "HTTPS",
        "NFS",
        "PATCH",
        "READY",
        "RECONCILE",
        "REMOVE",
        "REST",
        "TCP",
        "TLS",
        "UPDATE",
        "URL",
        "VOLUME",
    ];

    #[test]
    fn every_abbreviation_of_the_call_flow_is_in_the_glossary() {
        let text = sentences();
        // What stands in backquotes is quoted from a log.
        let plain: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" ");
        let words = plain.split(|c: char| !c.is_alphanumeric());
        let short = |w: &&str| {
            let w = w.trim_end_matches('s');
            w.len() > 1 && w.chars().all(|c| c.is_ascii_uppercase())
        };
        for w in words.filter(short) {
            let w = w.trim_end_matches('s');
            assert!(
                KNOWN.contains(&w) || find(w).is_some(),
                "{w} is not in the glossary"
            );
        }
    }

    #[test]
    fn a_word_is_found_whole_in_any_form() {
        let names =
            |text: &str| -> Vec<&str> { used(text).iter().map(|w| w.name.as_str()).collect() };
        assert_eq!(
            names("The webhooks are asked, then etcd."),
            ["etcd", "webhook"]
        );
        assert_eq!(names("A CSIs driver; watching; a cni"), ["CSI"]);
        assert_eq!(find("cni").map(|w| w.name.as_str()), Some("CNI"));
        assert_eq!(find("runc").map(|w| w.name.as_str()), Some("OCI"));
        assert_eq!(find("Taints").map(|w| w.name.as_str()), Some("taint"));
        assert!(find("nothing").is_none());
        assert!(names("An attempt lasted over a second.").is_empty());
        for printed in [
            "bounded", "over", "mark", "attempt", "incident", "tap", "stage", "no span",
        ] {
            assert!(find(printed).is_some(), "{printed}");
        }
    }
}
