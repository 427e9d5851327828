//! Exports timelines in the format that the user chooses, on the command line or in the terminal's menu.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::BuildHasher;
use std::io::{self, Write};
use std::sync::Arc;

use super::rows::Rows;
use super::{html, otlp, perfetto, sequence, timeline};
use kflow_core::correlate::{Pod, PodView, World};
use kflow_core::diagnose::{Incident, Part, Verdict};
use kflow_core::sequence::Diagram;
use kflow_model::{Nanos, ObjectRef, PodUid};

/// A format of timelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Trace for ui.perfetto.dev.
    Perfetto,
    /// OpenTelemetry spans as OTLP JSON.
    Otlp,
    /// OpenTelemetry spans as OTLP protobuf, as a trace store takes them.
    OtlpProtobuf,
    /// One page for a ticket, with verdicts.
    Html,
    /// The output of `kflow timeline -o json`.
    Json,
    /// The output of `kflow timeline`.
    Text,
    /// The sequence diagram of a pod for Mermaid.
    Mermaid,
    /// The sequence diagram of a pod for PlantUML.
    PlantUml,
}

impl Kind {
    pub const ALL: [Self; 8] = [
        Self::Perfetto,
        Self::Otlp,
        Self::OtlpProtobuf,
        Self::Html,
        Self::Json,
        Self::Text,
        Self::Mermaid,
        Self::PlantUml,
    ];
    /// Returns the name, the description, and the file name extension.
    const fn row(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Perfetto => ("perfetto", "a trace for ui.perfetto.dev", "pftrace"),
            Self::Otlp => ("otlp", "OpenTelemetry spans as JSON", "otlp.json"),
            Self::OtlpProtobuf => (
                "otlp-protobuf",
                "OpenTelemetry spans as a trace store takes them",
                "otlp.pb",
            ),
            Self::Html => ("html", "a page for a ticket, with verdicts", "html"),
            Self::Json => ("json", "timelines for programs", "json"),
            Self::Text => ("text", "timelines for people", "txt"),
            Self::Mermaid => ("mermaid", "who called whom, of one pod", "mmd"),
            Self::PlantUml => ("plantuml", "the same for PlantUML", "puml"),
        }
    }
    /// Returns the name that the command line and the palette take.
    pub const fn name(self) -> &'static str {
        self.row().0
    }
    /// Returns a short description.
    pub const fn help(self) -> &'static str {
        self.row().1
    }
    /// Returns the file name extension. Two formats are JSON; the extension of one names the format.
    pub const fn ending(self) -> &'static str {
        self.row().2
    }
    /// True for the formats whose files hold one pod only: the diagrams.
    pub const fn of_one(self) -> bool {
        matches!(self, Self::Mermaid | Self::PlantUml)
    }
    /// True for the formats that include past incidents, not only the present verdicts.
    pub const fn tells_of_the_past(self) -> bool {
        matches!(self, Self::Otlp | Self::OtlpProtobuf | Self::Html)
    }
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The verdicts on the pods of a world, and on its nodes and owners.
#[derive(Debug)]
pub struct Told<'a, S> {
    pub pods: &'a HashMap<PodUid, Arc<Verdict>, S>,
    pub others: &'a [Arc<Verdict>],
    /// All incidents up to now, as far as the evidence was searched for them.
    pub incidents: &'a [Incident],
}

impl<S: BuildHasher> Told<'_, S> {
    pub fn pod(&self, p: &PodView) -> Option<&Verdict> {
        self.pods.get(&p.uid).map(AsRef::as_ref)
    }
    /// Returns the findings on each of these pods.
    fn findings<'p>(
        &'p self,
        pods: &'p [Pod],
    ) -> impl Iterator<Item = (&'p PodView, otlp::Findings<'p>)> {
        pods.iter().map(|p| {
            let found = otlp::Findings {
                incidents: self.incidents,
                verdict: self.pod(p),
            };
            (&***p, found)
        })
    }
    /// True when these are all pods of a world. Pods of the past are left out of exports by default and do
    /// not count as missing.
    fn is_of_all(world: &World, pods: &[Pod]) -> bool {
        let given: HashSet<&PodUid> = pods.iter().map(|p| &p.uid).collect();
        let mut of_world = world.pods().iter().filter(|p| !p.past);
        of_world.all(|p| given.contains(&p.uid))
    }
    /// Returns the verdicts on nodes and owners of these pods; for all pods of a world, those on
    /// owners without pods too.
    pub fn of_others<'v>(&'v self, world: &World, pods: &[Pod]) -> Vec<&'v Verdict> {
        let all = Self::is_of_all(world, pods);
        let concerns = |v: &&Verdict| {
            let Some(of) = &v.owner else { return all };
            let one_of = |p: &Pod| {
                let same = |o: &ObjectRef| o.kind == of.kind && o.name == of.name;
                let owner = p.namespace == of.namespace && p.owners.iter().any(same);
                owner || of.kind == "Node" && p.node == of.name
            };
            all || pods.iter().any(one_of)
        };
        self.others
            .iter()
            .map(AsRef::as_ref)
            .filter(concerns)
            .collect()
    }
}

/// Writes the timelines of these pods as of `now`.
pub fn write<S: BuildHasher>(
    kind: Kind,
    world: &World,
    pods: &[Pod],
    told: &Told<'_, S>,
    now: Nanos,
    out: &mut impl Write,
) -> io::Result<()> {
    match kind {
        Kind::Perfetto => perfetto::write(world, pods, told, now, out),
        Kind::Otlp => otlp::json(told.findings(pods), now, out),
        Kind::OtlpProtobuf => otlp::protobuf(told.findings(pods), now, out),
        Kind::Json => timeline::rows(out, pods, Rows::Json),
        Kind::Text => timeline::text(out, world, pods, now, false),
        Kind::Mermaid | Kind::PlantUml => pods.iter().try_for_each(|p| {
            let d = Diagram::of(p, world, true);
            if kind == Kind::Mermaid {
                sequence::mermaid(&p.key(), &d, now, out)
            } else {
                sequence::plantuml(&p.key(), &d, now, out)
            }
        }),
        Kind::Html => {
            let entries: Vec<html::Entry<'_>> = pods.iter().map(|p| (p, told.pod(p))).collect();
            let others = told.of_others(world, pods);
            let title = match pods {
                [one] => one.key(),
                more => format!("{} pods", more.len()),
            };
            let uids: HashSet<&PodUid> = pods.iter().map(|p| &p.uid).collect();
            let all = Told::<S>::is_of_all(world, pods);
            let befell = |i: &&Incident| {
                let of_them = |p: &Part| uids.contains(&p.verdict.uid);
                all || i.parts.iter().any(of_them)
            };
            let incidents: Vec<&Incident> = told.incidents.iter().filter(befell).collect();
            html::write(&title, &entries, &others, &incidents, now, out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::pod::PodSeen;
    use kflow_model::{Body, Observation, Source, Stamp};

    #[test]
    fn pods_are_all_of_a_world_by_who_they_are_and_not_by_their_number() {
        let mut world = World::new();
        world.observe(&Arc::new(Observation {
            stamp: Stamp::exact(Nanos(1)),
            source: Source::Kube,
            body: Body::Pod(Box::new(PodSeen {
                uid: "there".into(),
                namespace: "shop".into(),
                name: "web".into(),
                ..PodSeen::default()
            })),
        }));
        world.refresh();
        let other = |uid: &str| -> Pod {
            let view = PodView {
                uid: uid.into(),
                ..PodView::default()
            };
            Arc::new(view.into())
        };
        let is_of_all = |pods: &[Pod]| Told::<std::hash::RandomState>::is_of_all(&world, pods);
        assert!(is_of_all(world.pods()));
        assert!(!is_of_all(&[other("a"), other("b")]));
    }

    #[test]
    fn every_format_has_a_name_that_leads_back_and_says_something_of_a_pod() {
        let pod: Pod = Arc::new(
            PodView {
                namespace: "shop".into(),
                name: "web".into(),
                uid: "u1".into(),
                ..PodView::default()
            }
            .into(),
        );
        let none = Told {
            pods: &HashMap::new(),
            others: &[],
            incidents: &[],
        };
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.name()), Some(kind));
            let mut out = Vec::new();
            let pods = [Arc::clone(&pod)];
            write(kind, &World::new(), &pods, &none, Nanos(5), &mut out).expect("a Vec takes all");
            // Perfetto's format is binary, but contains names as they are.
            assert!(out.windows(3).any(|w| w == b"web"), "{kind}");
        }
    }
}
