//! The map: flows and steps, parsed from `map.toml` and from the user's files that override it.

use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use super::Stage;
use super::fact::Fact;
use super::index::Index;
use super::reading::{Readings, Report};
use super::signature::raw::{RawSignature, parse_component};
use super::step::functions;
pub use super::step::{Flow, Scope, Step, StepId};
use super::template::Template;
use kflow_model::Text;
use kflow_model::log::Component;

/// The map's file that kflow embeds.
pub const EMBEDDED: &str = include_str!("map.toml");

/// An error in a map's file.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The file is not TOML, or has an unknown key.
    #[error(
        "read the flow map: {what}{place}; see the head of the embedded map (`kflow flow --map-source`) for its format"
    )]
    Toml {
        /// The parser's message, with the key.
        what: String,
        /// The place: ` in line 3: …`, or empty.
        place: String,
    },
    /// A step refers to something that does not exist.
    #[error(
        "check step {step} of the flow map: {what} `{name}` is not in the map; add it or name another"
    )]
    Unknown {
        step: String,
        /// The kind of thing that `name` should be: `step`, `flow`, `stage`.
        what: &'static str,
        name: String,
    },
    /// A step lacks a key.
    #[error(
        "check step {step} of the flow map: it has no `{key}`; a step that is not in the embedded map needs one"
    )]
    Missing { step: String, key: &'static str },
    /// A step's evidence has a wrong form.
    #[error("check step {step} of the flow map: {why}")]
    Evidence {
        step: String,
        /// What is wrong, in words.
        why: String,
    },
}

/// All flows and steps, with indexes to find them.
#[derive(Clone, Debug, Default)]
pub struct Map {
    /// The version of Kubernetes whose functions the map names.
    pub version: Text,
    flows: Vec<Flow>,
    steps: Vec<Step>,
    by_id: FxHashMap<Text, StepId>,
    by_function: FxHashMap<Text, StepId>,
    pub(super) readings: Readings,
    pub(super) index: Index,
}

/// The installed map: the embedded one with the user's file over it.
static ACTIVE: OnceLock<Map> = OnceLock::new();

impl Map {
    pub fn embedded() -> &'static Self {
        static MAP: LazyLock<Map> =
            LazyLock::new(|| crate::embedded("map.toml", Map::parse(&[EMBEDDED])));
        &MAP
    }

    /// Returns the active map: the installed one, else the embedded one.
    pub fn active() -> &'static Self {
        ACTIVE.get().unwrap_or_else(|| Self::embedded())
    }

    /// Makes a map the active one for the rest of the run. The program calls this at most once, before it reads
    /// anything; a second call changes nothing and returns false.
    pub fn install(map: Self) -> bool {
        ACTIVE.set(map).is_ok()
    }

    /// Parses a user's file over the embedded map.
    pub fn overlaid(user: &str) -> Result<Self, MapError> {
        Self::parse(&[EMBEDDED, user])
    }

    /// Parses files in this order: each overrides the values of those before it.
    pub fn parse(files: &[&str]) -> Result<Self, MapError> {
        let mut raw = RawMap::default();
        for text in files {
            raw.lay(toml::from_str(text).map_err(|e| wrong(text, &e))?);
        }
        raw.build()
    }

    /// All flows, sorted by letter.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }
    /// Returns a flow and its index, by letter or name.
    pub fn flow(&self, name: &str) -> Option<(usize, &Flow)> {
        self.flows
            .iter()
            .enumerate()
            .find(|(_, f)| f.id.eq_ignore_ascii_case(name) || f.name.eq_ignore_ascii_case(name))
    }
    /// All steps, sorted by id.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
    /// Returns all flows with their indices in the order of listings: a pod's life first, then what runs beside it.
    pub fn told(&self) -> Vec<(usize, &Flow)> {
        let mut flows: Vec<_> = self.flows.iter().enumerate().collect();
        flows.sort_by_key(|(i, f)| (f.order == 0, f.order, *i));
        flows
    }
    /// Returns a flow's steps with their numbers, in order.
    pub fn steps_in(&self, flow: usize) -> impl Iterator<Item = (StepId, &Step)> {
        self.steps
            .iter()
            .enumerate()
            .filter(move |(_, s)| s.flow == flow)
            .map(|(i, s)| (StepId(i as u16), s))
    }
    pub fn get(&self, id: StepId) -> Option<&Step> {
        self.steps.get(usize::from(id.0))
    }
    /// Returns the runtime whose flow a step belongs to; `None` for the steps that all nodes have in common.
    pub fn runtime_of(&self, id: StepId) -> Option<Component> {
        self.flows.get(self.get(id)?.flow)?.runtime()
    }
    /// Returns a step by its id (`c09`).
    pub fn step(&self, id: &str) -> Option<(StepId, &Step)> {
        let id = *self.by_id.get(id)?;
        Some((id, self.get(id)?))
    }
    /// Returns a step by one of its functions, which also name the spans of timelines. Today's names take precedence
    /// over those of other versions. Where several steps share a function, the first by id is returned, and the
    /// kubelet's before the runtime's.
    pub fn step_by_function(&self, name: &str) -> Option<(StepId, &Step)> {
        let id = *self.by_function.get(name)?;
        Some((id, self.get(id)?))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawMap {
    version: Option<String>,
    flow: BTreeMap<String, RawFlow>,
    step: BTreeMap<String, RawStep>,
    fact: BTreeMap<Fact, RawFact>,
}

/// Evidence of a fact that belongs to no step, and the failure that the fact reports.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawFact {
    reason: Option<Template>,
    text: Option<Vec<Template>>,
    evidence: Option<Vec<RawSignature>>,
    more: Vec<RawSignature>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawFlow {
    name: Option<String>,
    title: Option<String>,
    about: Option<String>,
    order: Option<u8>,
    component: Option<String>,
    scope: Option<Scope>,
    anchor: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawStep {
    flow: Option<String>,
    label: Option<String>,
    does: Option<String>,
    hangs: Option<String>,
    function: Option<String>,
    also: Option<Vec<String>>,
    timeline: Option<Vec<String>>,
    was: Option<Vec<String>>,
    file: Option<String>,
    stage: Option<String>,
    parent: Option<String>,
    evidence: Option<Vec<RawSignature>>,
    more: Vec<RawSignature>,
    alternatives: Option<bool>,
    unseen: Option<String>,
}

/// Overwrites a value if the newer file has one.
fn over<T>(old: &mut Option<T>, new: Option<T>) {
    if new.is_some() {
        *old = new;
    }
}

impl RawMap {
    fn lay(&mut self, new: Self) {
        over(&mut self.version, new.version);
        for (id, f) in new.flow {
            let old = self.flow.entry(id).or_default();
            over(&mut old.name, f.name);
            over(&mut old.title, f.title);
            over(&mut old.about, f.about);
            over(&mut old.order, f.order);
            over(&mut old.component, f.component);
            over(&mut old.scope, f.scope);
            over(&mut old.anchor, f.anchor);
        }
        for (id, s) in new.step {
            let old = self.step.entry(id).or_default();
            over(&mut old.flow, s.flow);
            over(&mut old.label, s.label);
            over(&mut old.does, s.does);
            over(&mut old.hangs, s.hangs);
            over(&mut old.function, s.function);
            over(&mut old.also, s.also);
            over(&mut old.timeline, s.timeline);
            over(&mut old.was, s.was);
            over(&mut old.file, s.file);
            over(&mut old.stage, s.stage);
            over(&mut old.parent, s.parent);
            over(&mut old.alternatives, s.alternatives);
            over(&mut old.unseen, s.unseen);
            if s.evidence.is_some() {
                old.evidence = s.evidence;
                old.more.clear();
            }
            old.more.extend(s.more);
        }
        for (fact, f) in new.fact {
            let old = self.fact.entry(fact).or_default();
            over(&mut old.reason, f.reason);
            over(&mut old.text, f.text);
            over(&mut old.evidence, f.evidence);
            old.more.extend(f.more);
        }
    }

    fn build(self) -> Result<Map, MapError> {
        let by_id: FxHashMap<Text, StepId> = self
            .step
            .keys()
            .enumerate()
            .map(|(i, id)| (id.into(), StepId(i as u16)))
            .collect();
        let find = |step: &str, name: String| {
            by_id
                .get(name.as_str())
                .copied()
                .ok_or_else(|| MapError::Unknown {
                    step: step.to_owned(),
                    what: "step",
                    name,
                })
        };
        let mut flows = Vec::with_capacity(self.flow.len());
        for (id, f) in self.flow {
            let component = f.component.as_deref().unwrap_or("kubelet");
            flows.push(Flow {
                name: f.name.as_deref().unwrap_or(&id).into(),
                title: f.title.as_deref().unwrap_or(&id).into(),
                about: f.about.unwrap_or_default().into(),
                order: f.order.unwrap_or_default(),
                component: parse_component(component).map_err(|why| MapError::Evidence {
                    step: format!("(flow {id})"),
                    why,
                })?,
                scope: f.scope.unwrap_or_default(),
                anchor: f.anchor.map(|a| find(&id, a)).transpose()?,
                id: id.into(),
            });
        }
        let mut steps = Vec::with_capacity(self.step.len());
        for (id, s) in self.step {
            let missing = |key| MapError::Missing {
                step: id.clone(),
                key,
            };
            let wanted = match &s.flow {
                Some(f) => f.as_str(),
                None => id.get(..1).unwrap_or_default(),
            };
            let (flow, component) = flows
                .iter()
                .enumerate()
                .find(|(_, f)| f.id == wanted || f.name == wanted)
                .map(|(i, f)| (i, f.component))
                .ok_or_else(|| MapError::Unknown {
                    step: id.clone(),
                    what: "flow",
                    name: wanted.to_owned(),
                })?;
            let stage = match &s.stage {
                None => None,
                Some(name) => Some(Stage::parse(name).ok_or_else(|| MapError::Unknown {
                    step: id.clone(),
                    what: "stage",
                    name: name.clone(),
                })?),
            };
            let signatures = s
                .evidence
                .ok_or_else(|| missing("evidence"))?
                .into_iter()
                .chain(s.more)
                .map(|c| c.build(Some(component)))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|why| MapError::Evidence {
                    step: id.clone(),
                    why,
                })?;
            if signatures.is_empty() || signatures.len() > 255 {
                return Err(MapError::Evidence {
                    step: id.clone(),
                    why: "`evidence` needs 1 to 255 entries; write { none = \"why\" } where nothing can be seen".into(),
                });
            }
            let texts = |v: Option<Vec<String>>| {
                v.unwrap_or_default()
                    .into_iter()
                    .map(Text::from)
                    .collect::<Vec<_>>()
            };
            steps.push(Step {
                flow,
                label: s.label.ok_or_else(|| missing("label"))?.into(),
                does: s.does.unwrap_or_default().into(),
                hangs: s.hangs.unwrap_or_default().into(),
                function: s.function.ok_or_else(|| missing("function"))?.into(),
                also: texts(s.also),
                timeline: texts(s.timeline),
                was: texts(s.was),
                file: s.file.unwrap_or_default().into(),
                stage,
                parent: s.parent.map(|p| find(&id, p)).transpose()?,
                signatures,
                alternatives: s.alternatives.unwrap_or(false),
                unseen: s.unseen.unwrap_or_default().into(),
                id: id.into(),
            });
        }
        let mut readings: Vec<_> = steps
            .iter()
            .flat_map(|s| &s.signatures)
            .filter(|c| c.fact.is_some())
            .cloned()
            .collect();
        let mut reports = FxHashMap::default();
        for (fact, f) in self.fact {
            let wrong = |why| MapError::Evidence {
                step: format!("(fact {fact:?})"),
                why,
            };
            if let Some(reason) = f.reason {
                let text = f.text.unwrap_or_else(|| vec![Template::name("error")]);
                reports.insert(fact, Report { reason, text });
            }
            for mut signature in f.evidence.into_iter().flatten().chain(f.more) {
                signature.fact = Some(fact);
                readings.push(signature.build(None).map_err(wrong)?);
            }
        }
        Ok(Map {
            version: self.version.unwrap_or_default().into(),
            readings: Readings::compile(readings, reports),
            index: Index::compile(&steps),
            by_function: functions(&steps),
            flows,
            steps,
            by_id,
        })
    }
}

/// Turns a parser's error into one line: its own text is several lines long and draws a pointer.
fn wrong(text: &str, e: &toml::de::Error) -> MapError {
    let line = e.span().and_then(|at| {
        let before = text.get(..at.start)?;
        let number = before.matches('\n').count();
        Some((number + 1, text.lines().nth(number)?.trim()))
    });
    MapError::Toml {
        what: e.message().to_owned(),
        place: line
            .map(|(n, l)| format!(" in line {n}: `{l}`"))
            .unwrap_or_default(),
    }
}
