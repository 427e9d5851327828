//! Which container waits for its image, and behind which pull.
//!
//! The kubelet pulls one image at a time unless it is told otherwise (`serializeImagePulls`,
//! pkg/kubelet/apis/config/v1beta1/defaults.go), so a pull that is announced by `Pulling` and has no PullImage call
//! stands behind the one that is in flight on its node.

mod progress;

pub use progress::{Fate, Layer, Progress, Still};

use std::sync::Arc;

use super::history::PodHistory;
use super::text::span;
use crate::correlate::{Call, PodView, StageState, World};
use crate::flow::{self, Stage};
use crate::timeline::{Outcome, Span};
use kflow_model::cri::method;
use kflow_model::{Body, Evidence, Nanos, ObjectRef, PodUid, Source, Text};

/// How a container stands whose image no call in flight pulls.
#[derive(Clone, Debug)]
pub enum Standing {
    /// The kubelet said that it pulls, and nothing shows its call, or another pull before it.
    Pulling,
    /// The kubelet said that it pulls, and another pull goes first.
    Queued(Ahead),
    /// Its last pull failed, and the kubelet waits before it tries again.
    BackOff,
}

/// The pull that goes first.
#[derive(Clone, Debug)]
pub enum Ahead {
    /// A call in flight.
    Call(Arc<Call>),
    /// By the Events alone: it was announced earlier and has not ended.
    Announced(Announced),
}

impl Ahead {
    /// `ns/name` of its pod; empty for a call whose pod is not known.
    pub fn pod(&self) -> String {
        match self {
            Self::Call(c) if c.pod.is_empty() => String::new(),
            Self::Call(c) => format!("{}/{}", c.namespace, c.pod),
            Self::Announced(a) => a.pod.clone(),
        }
    }
    /// Its pod; `None` for a call whose pod is not known.
    pub fn object(&self) -> Option<ObjectRef> {
        let (namespace, name, uid) = match self {
            Self::Call(c) => (c.namespace.clone(), c.pod.clone(), &c.pod_uid),
            Self::Announced(a) => {
                let (namespace, name) = a.pod.split_once('/')?;
                (namespace.into(), name.into(), &a.uid)
            }
        };
        (!uid.is_empty()).then(|| ObjectRef {
            kind: "Pod".into(),
            namespace,
            name,
            uid: uid.as_str().into(),
        })
    }
    pub fn image(&self) -> &str {
        match self {
            Self::Call(c) => &c.image,
            Self::Announced(a) => &a.image,
        }
    }
    /// When it began.
    pub fn since(&self) -> Nanos {
        match self {
            Self::Call(c) => c.start,
            Self::Announced(a) => a.at,
        }
    }
    /// `behind the pull of IMAGE for ns/name, 12s so far`
    pub fn text(&self, now: Nanos) -> String {
        let pod = self.pod();
        let of = if pod.is_empty() {
            String::new()
        } else {
            format!(" for {pod}")
        };
        let took = span(now.since(self.since()));
        format!("behind the pull of {}{of}, {took} so far", self.image())
    }
}

/// A pull that was announced and has not ended, where no call shows it.
#[derive(Clone, Debug)]
pub struct Announced {
    /// Time of the announcement.
    pub at: Nanos,
    node: Text,
    uid: PodUid,
    /// `ns/name` of its pod.
    pub pod: String,
    pub image: String,
}

/// A container that waits for its image.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Name of the container.
    pub container: Text,
    /// Since when it waits.
    pub since: Nanos,
    /// How it stands.
    pub standing: Standing,
    /// What announced the pull; `None` of one that failed.
    pub evidence: Option<&'a Evidence>,
}

/// The pulls of all nodes at a moment.
#[derive(Clone, Debug, Default)]
pub struct Pulls {
    /// Calls in flight, oldest first, each with the node of its pod.
    flying: Vec<(Arc<Call>, Text)>,
    /// Oldest first.
    announced: Vec<Announced>,
    /// Losses of the tap.
    lost: Vec<Nanos>,
}

/// Image of a `Pulling image "…"`.
pub fn image_of(o: &Evidence) -> Option<String> {
    let text = match &o.body {
        Body::Event(e) => e.message.as_str(),
        Body::Log(l) => flow::line(l)?.name("message")?,
        _ => return None,
    };
    Some(text.split('"').nth(1)?.to_owned())
}

/// True for a pod that may wait for an image: with part of the sources the stages before it have not been seen to end.
///
/// Pods of which no pull was seen, which are nearly all of a node's, cost nothing here.
fn may_wait(pod: &PodView) -> bool {
    let stage = pod.current.map(|(stage, _)| stage);
    let starts = stage.is_some_and(|s| (Stage::Admit..=Stage::Start).contains(&s));
    let nothing = matches!(
        pod.stage(Stage::Image),
        StageState::NotReached | StageState::Unseen
    );
    pod.gone.is_none() && starts && (pod.pull_announced || !nothing)
}

impl Pulls {
    /// Reads the world once.
    pub fn of(world: &World, now: Nanos) -> Self {
        let node = |c: &Call| {
            let pod = world.pod(&c.pod_uid);
            pod.map(|p| p.node.clone()).unwrap_or_default()
        };
        let flying = world
            .calls()
            .in_flight()
            .filter(|c| c.method == method::PULL_IMAGE && c.start <= now)
            .map(|c| (Arc::clone(c), node(c)))
            .collect();
        let mut announced: Vec<Announced> = Vec::new();
        for p in world.every_pod().iter().filter(|p| may_wait(p)) {
            let f = PodHistory::gather(p, now);
            announced.extend(f.pulling().filter_map(|(_, at, o)| {
                Some(Announced {
                    at,
                    node: p.node.clone(),
                    uid: p.uid.clone(),
                    pod: p.key(),
                    image: image_of(o)?,
                })
            }));
        }
        announced.sort_by(|a, b| (a.at, &a.uid).cmp(&(b.at, &b.uid)));
        let gaps = &world.source(Source::Cri).gaps;
        Self {
            flying,
            announced,
            lost: gaps.iter().map(|g| g.stamp.at).collect(),
        }
    }

    /// The containers of a pod that wait for an image, and that no call in flight pulls.
    pub fn wanted<'a>(&self, f: &PodHistory<'a>) -> Vec<Wanted<'a>> {
        let pod = f.view;
        if !may_wait(pod) {
            return Vec::new();
        }
        let announced = f.pulling().map(|(c, at, o)| Wanted {
            container: c.name.clone(),
            since: at,
            standing: self.standing(pod, at),
            evidence: Some(o),
        });
        let backs_off = |s: &&Span| {
            s.step == "ImagePullBackOff" && !s.is_stage() && s.outcome == Outcome::InFlight
        };
        let failed = pod.timeline.spans.iter().filter(backs_off).map(|s| Wanted {
            container: s.container.clone(),
            since: s.start.at,
            standing: Standing::BackOff,
            evidence: None,
        });
        announced.chain(failed).collect()
    }

    /// The same, of a pod whose facts were not gathered.
    pub fn of_pod<'a>(&self, pod: &'a PodView, now: Nanos) -> Vec<Wanted<'a>> {
        if may_wait(pod) {
            self.wanted(&PodHistory::gather(pod, now))
        } else {
            Vec::new()
        }
    }

    /// How a pull of a pod stands that was announced at `since` and that no call in flight is.
    fn standing(&self, pod: &PodView, since: Nanos) -> Standing {
        // What the tap lost may have been the call of this very pull.
        if self.lost.iter().any(|at| *at >= since) {
            return Standing::Pulling;
        }
        let here = |node: &Text| node.is_empty() || pod.node.is_empty() || *node == pod.node;
        let call = self
            .flying
            .iter()
            .find(|(c, node)| c.pod_uid != pod.uid && here(node));
        if let Some((call, _)) = call {
            return Standing::Queued(Ahead::Call(Arc::clone(call)));
        }
        let earlier = self
            .announced
            .iter()
            .find(|a| a.node == pod.node && a.at < since && a.uid != pod.uid);
        match earlier {
            Some(a) => Standing::Queued(Ahead::Announced(a.clone())),
            None => Standing::Pulling,
        }
    }

    /// The pull that goes before a step of a timeline, when the step is one that waits for another pull.
    pub fn ahead(&self, pod: &PodView, step: &Span, now: Nanos) -> Option<Ahead> {
        if !may_be_queued(step) {
            return None;
        }
        let of_step = |w: &Wanted<'_>| w.container == step.container;
        match self.of_pod(pod, now).into_iter().find(of_step)?.standing {
            Standing::Queued(ahead) => Some(ahead),
            Standing::Pulling | Standing::BackOff => None,
        }
    }
}

/// An image is made to exist, which may wait for other pulls.
pub fn may_be_queued(step: &Span) -> bool {
    step.step == "EnsureImageExists" && step.outcome == Outcome::InFlight
}
