//! The catalogue of causes: embedded data that is checked when it is loaded.
//!
//! An entry says in which stage the cause stops a pod, how the cause is recognised, what is said about it and what to
//! do next. A new cause needs an entry in `catalogue.toml` and a scenario in `fixtures/causes`; tests fail when either
//! is missing or an id is used twice.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use regex::{Regex, RegexSet};
use rustc_hash::FxHashMap;
use serde::Deserialize;

use super::cause::{self, CauseId};
use super::signal::searched;
use super::text::Names;
use super::told::Told;
use super::{Confidence, State};
use crate::embedded;
use crate::flow::Stage;

const DATA: &str = include_str!("catalogue.toml");

/// Ids of causes that were removed, which must never be used again. None so far.
pub const RETIRED: &[&str] = &[];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// The entry's key in `catalogue.toml`.
    #[serde(skip, default = "unset")]
    pub id: CauseId,
    /// One line that names the cause.
    pub title: String,
    /// The stage in which the cause stops a pod.
    #[serde(deserialize_with = "stage")]
    pub stage: Stage,
    /// What the cause means, for somebody who has never met it.
    pub about: String,
    /// Canonical reasons under which the cause is looked for; a trailing `*` matches any rest.
    #[serde(default)]
    pub on: Vec<String>,
    /// Regular expressions on the text; the first that matches wins.
    #[serde(default, rename = "match")]
    pub patterns: Vec<String>,
    /// A regular expression that rules the cause out: a text that it matches belongs to another cause.
    #[serde(default)]
    pub unless: String,
    /// The reason alone is enough, whatever the text, for every reason of `on`.
    #[serde(default)]
    pub any: bool,
    /// Reasons that are enough alone, whatever the text.
    #[serde(default)]
    pub any_on: Vec<String>,
    /// Code in `rules` decides whether the cause holds, because it needs more than one observation.
    #[serde(default)]
    pub rule: bool,
    /// The cause is true of any failure of its stage, and says less than any other cause.
    #[serde(default)]
    pub general: bool,
    /// Among causes of one stage the highest wins.
    #[serde(default = "fifty")]
    pub rank: u8,
    /// The pod's state under this cause, unless evidence shows another.
    #[serde(default = "stuck")]
    pub state: State,
    /// The highest confidence that the cause can have.
    #[serde(default = "certain")]
    pub sure: Confidence,
    /// Template of the verdict's sentence; see [`Names::sentence`].
    pub say: String,
    /// What to do next: text and command.
    #[serde(rename = "do")]
    pub steps: Vec<(String, String)>,
    /// What to do where the words of the error choose no step of `steps`: right for any error of this cause.
    #[serde(default, rename = "else")]
    pub otherwise: Vec<(String, String)>,
    /// Where the cause is explained: an address.
    pub docs: String,
    /// Sources of the entry: `K` Kubernetes source, `C` containerd source, `R` a peer's code, `I` an issue thread, `X`
    /// general knowledge, `rec` a recording.
    pub source: String,
    /// True when a template names the component that says the error, or the objects by which it works.
    #[serde(skip)]
    pub names_speaker: bool,
    #[serde(skip)]
    compiled: Vec<OnceLock<Option<Regex>>>,
    #[serde(skip)]
    barrier: OnceLock<Option<Regex>>,
}

/// A placeholder, until [`Catalogue::parse`] sets the entry's key as its id.
const fn unset() -> CauseId {
    cause::KF101
}
const fn fifty() -> u8 {
    50
}
const fn stuck() -> State {
    State::Stuck
}
const fn certain() -> Confidence {
    Confidence::Certain
}
fn stage<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Stage, D::Error> {
    let name = String::deserialize(d)?;
    Stage::parse(&name).ok_or_else(|| serde::de::Error::custom(format!("no stage {name}")))
}

impl Cause {
    /// All steps that may be told.
    pub fn all_steps(&self) -> impl Iterator<Item = &(String, String)> {
        self.steps.iter().chain(&self.otherwise)
    }
    /// True when a template has this name.
    fn uses(&self, name: &str) -> bool {
        let mut steps = self.all_steps();
        self.say.contains(name) || steps.any(|(t, c)| t.contains(name) || c.contains(name))
    }
    /// True when `unless` matches: the text belongs to another cause.
    fn barred(&self, text: &str) -> bool {
        !self.unless.is_empty()
            && self
                .barrier
                .get_or_init(|| Regex::new(&self.unless).ok())
                .as_ref()
                .is_some_and(|re| re.is_match(text))
    }
    /// Returns the names that the text holds when the reason and text show this cause; else `None`.
    pub fn matches(&self, reason: &str, text: &str) -> Option<Names> {
        let text = &*searched(text);
        if self.barred(text) {
            return None;
        }
        (0..self.patterns.len())
            .find_map(|i| self.names(i, text))
            .or_else(|| self.alone(reason).then(Names::default))
    }
    /// True when the reason alone is enough, whatever the text.
    fn alone(&self, reason: &str) -> bool {
        self.any || self.any_on.iter().any(|r| r == reason)
    }
    /// Returns what the named groups of a pattern capture; `None` when the pattern does not match. Patterns are
    /// compiled when they are first needed: most never are.
    pub(super) fn names(&self, pattern: usize, text: &str) -> Option<Names> {
        let re = self
            .compiled
            .get(pattern)?
            .get_or_init(|| Regex::new(self.patterns.get(pattern).map_or("", String::as_str)).ok())
            .as_ref()?;
        let found = re.captures(text)?;
        let mut names = Names::default();
        for key in re.capture_names().flatten() {
            if let Some(value) = found.name(key) {
                names.set(key, value.as_str());
            }
        }
        Some(names)
    }
}

/// Why the catalogue cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// The data is not TOML, or an entry has a field of another name or type.
    #[error("the catalogue of causes cannot be read: {0}")]
    Form(#[from] toml::de::Error),
    #[error("cause {id} of the catalogue has a bad pattern: {source}")]
    Pattern { id: CauseId, source: regex::Error },
    /// An entry lacks something, or its id may not be used.
    #[error("cause {id} of the catalogue {what}")]
    Entry {
        id: CauseId,
        /// Completes the sentence "cause ID of the catalogue …".
        what: &'static str,
    },
}

/// The causes that are looked for under one reason, with one automaton over all their patterns.
#[derive(Debug, Default)]
struct Under {
    /// Indexes of causes, by rank, highest first; then by id.
    causes: Vec<usize>,
    /// Index of the cause, and of its pattern, for each member of `set`, in the same order.
    patterns: Vec<(usize, usize)>,
    set: OnceLock<RegexSet>,
}

#[derive(Debug)]
pub struct Catalogue {
    /// One cause for each id, in the order of the ids.
    causes: Vec<Cause>,
    by_reason: FxHashMap<String, Under>,
    by_prefix: Vec<(String, Under)>,
}

impl Catalogue {
    /// The embedded catalogue.
    pub fn get() -> &'static Self {
        static LOADED: LazyLock<Catalogue> =
            LazyLock::new(|| embedded("catalogue.toml", Catalogue::parse(DATA)));
        &LOADED
    }

    /// Reads and checks a catalogue.
    pub fn parse(data: &str) -> Result<Self, CatalogueError> {
        // The ids are keys of one table, so TOML itself refuses an id that occurs twice.
        let raw: BTreeMap<CauseId, Cause> = toml::from_str(data)?;
        if let Some(&id) = CauseId::ALL.iter().find(|id| !raw.contains_key(id)) {
            let what = "is missing";
            return Err(CatalogueError::Entry { id, what });
        }
        let mut all = Self {
            causes: Vec::with_capacity(raw.len()),
            by_reason: FxHashMap::default(),
            by_prefix: Vec::new(),
        };
        for (id, mut cause) in raw {
            let bad = |what| CatalogueError::Entry { id, what };
            if RETIRED.contains(&id.as_str()) {
                return Err(bad("has an id that is not free"));
            }
            if cause.title.is_empty() || cause.about.is_empty() || cause.say.is_empty() {
                return Err(bad("has no title, no explanation or no sentence"));
            }
            if cause.steps.is_empty() || !cause.docs.starts_with("https://") {
                return Err(bad("has nothing to do next, or no link"));
            }
            if !cause.rule && (cause.on.is_empty() || (cause.patterns.is_empty() && !cause.any)) {
                return Err(bad("cannot be recognised by anything"));
            }
            cause.compiled = cause.patterns.iter().map(|_| OnceLock::new()).collect();
            cause.names_speaker = cause.uses("{speaker}") || cause.uses("{objects}");
            cause.id = id;
            let index = all.causes.len();
            for reason in &cause.on {
                match reason.strip_suffix('*') {
                    Some(prefix) => {
                        let mut under = Under::default();
                        under.causes.push(index);
                        all.by_prefix.push((prefix.to_owned(), under));
                    }
                    None => {
                        let under = all.by_reason.entry(reason.clone()).or_default();
                        under.causes.push(index);
                    }
                }
            }
            all.causes.push(cause);
        }
        let causes = &all.causes;
        let prefixed = all.by_prefix.iter_mut().map(|(_, u)| u);
        for under in all.by_reason.values_mut().chain(prefixed) {
            // The sort is stable: causes of one rank stay in the order of their ids.
            under
                .causes
                .sort_by_key(|&i| Reverse(causes.get(i).map_or(0, |c| c.rank)));
            for &i in &under.causes {
                let n = causes.get(i).map_or(0, |c| c.patterns.len());
                under.patterns.extend((0..n).map(|p| (i, p)));
            }
        }
        Ok(all)
    }

    /// Compiles every pattern, which is otherwise done when a pattern is first needed.
    pub fn compile(&self) -> Result<(), CatalogueError> {
        for c in &self.causes {
            for p in c.patterns.iter().chain([&c.unless]) {
                Regex::new(p).map_err(|source| CatalogueError::Pattern { id: c.id, source })?;
            }
        }
        Ok(())
    }

    /// Returns the highest allowed cause that a text under a reason shows, and the names in the text; `None` when
    /// there is none.
    pub fn best(
        &self,
        reason: &str,
        text: &str,
        allow: impl Fn(&Cause) -> bool,
    ) -> Option<(&Cause, Names)> {
        // The text is not searched when no cause under its reason is allowed.
        self.under(reason)
            .any(&allow)
            .then(|| self.told(reason, text))?
            .best(text, allow)
    }
    /// Returns the causes that a text under a reason shows.
    pub fn told(&self, reason: &str, text: &str) -> Told<'_> {
        let Some(under) = self.below(reason) else {
            return Told::default();
        };
        let text = &*searched(text);
        let set = under.set.get_or_init(|| {
            let patterns = under.patterns.iter().map(|&(c, p)| {
                self.causes
                    .get(c)
                    .and_then(|c| c.patterns.get(p))
                    .map_or("", String::as_str)
            });
            RegexSet::new(patterns).unwrap_or_else(|_| RegexSet::empty())
        });
        let hits = set.matches(text);
        let mut hits = hits.iter().filter_map(|i| under.patterns.get(i)).peekable();
        let mut told = Told::default();
        for &i in &under.causes {
            let mut pattern = None;
            while let Some(&&(_, p)) = hits.peek().filter(|(c, _)| *c == i) {
                pattern = pattern.or(Some(p));
                hits.next();
            }
            let cause = self.causes.get(i);
            let of_it = |c: &&Cause| (pattern.is_some() || c.alone(reason)) && !c.barred(text);
            told.extend(cause.filter(of_it), pattern);
        }
        told
    }
    fn below(&self, reason: &str) -> Option<&Under> {
        self.by_reason.get(reason).or_else(|| {
            self.by_prefix
                .iter()
                .find(|(p, _)| reason.starts_with(p.as_str()))
                .map(|(_, u)| u)
        })
    }

    /// All causes, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Cause> {
        self.causes.iter()
    }
    /// Returns the cause of an id (`KF601`, `kf601` or `601`); `None` when there is none.
    pub fn find(&self, id: &str) -> Option<&Cause> {
        let digits = id.trim_start_matches(['K', 'F', 'k', 'f']);
        let exact = format!("KF{digits}");
        self.causes.iter().find(|c| c.id.as_str() == exact)
    }
    #[expect(
        clippy::indexing_slicing,
        reason = "`parse` makes an entry of each id, in their order, or no catalogue"
    )]
    pub fn cause(&self, id: CauseId) -> &Cause {
        &self.causes[id as usize]
    }
    /// Returns the causes that are looked for under a reason, highest first.
    pub fn under(&self, reason: &str) -> impl Iterator<Item = &Cause> {
        self.below(reason)
            .into_iter()
            .flat_map(|u| u.causes.iter())
            .filter_map(|&i| self.causes.get(i))
    }
    /// True when at least one cause is looked for under the reason.
    pub fn knows(&self, reason: &str) -> bool {
        self.under(reason).next().is_some()
    }
}

#[cfg(test)]
mod tests;
