//! Which container waits for its image, and behind which pull.
//!
//! The kubelet pulls one image at a time unless it is configured otherwise (`serializeImagePulls`,
//! pkg/kubelet/apis/config/v1beta1/defaults.go). So a pull that is announced by `Pulling` and has no PullImage call
//! waits for the one that is in flight on its node.

mod progress;

pub use progress::{Fate, Layer, PIECE, Progress, Still};

use std::sync::Arc;

use super::history::PodHistory;
use super::text::span;
use crate::correlate::{Call, PodView, StageState, World};
use crate::flow::{self, Stage};
use crate::timeline::{Outcome, Span};
use kflow_model::cri::method;
use kflow_model::{Body, Evidence, Nanos, ObjectRef, PodUid, Source, Text, scope};

/// What a container waits for whose image no call in flight pulls.
#[derive(Clone, Debug)]
pub enum Standing {
    /// The kubelet announced the pull; neither its call nor another pull ahead of it was seen.
    Pulling,
    /// The kubelet announced the pull, and another pull goes first.
    Queued(Ahead),
    /// The last pull failed, and the kubelet waits before it tries again.
    BackOff,
}

/// The pull that goes first.
#[derive(Clone, Debug)]
pub enum Ahead {
    /// A PullImage in flight.
    Call(Arc<Call>),
    /// A pull that was announced earlier and has not ended, known from Events alone.
    Announced(Announced),
}

impl Ahead {
    /// `ns/name` of the pod that pulls; empty for a call whose pod is not known.
    pub fn pod(&self) -> String {
        match self {
            Self::Call(c) if c.pod.is_empty() => String::new(),
            Self::Call(c) => format!("{}/{}", c.namespace, c.pod),
            Self::Announced(a) => a.pod.clone(),
        }
    }
    /// The pod that pulls; `None` for a call whose pod is not known.
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
    /// When the pull began, or was announced.
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
        let took = match self {
            Self::Call(_) => format!("{took} so far"),
            Self::Announced(_) => format!("announced {took} ago"),
        };
        format!("behind the pull of {}{of}, {took}", self.image())
    }
    /// Its progress, where the runtime of this node shows it.
    pub fn progress(&self, world: &World, now: Nanos) -> Option<Progress> {
        Progress::of(world, self.image(), self.since(), now)
    }
}

/// A pull that was announced and has not ended, where no call shows it.
#[derive(Clone, Debug)]
pub struct Announced {
    /// Time of the announcement.
    pub at: Nanos,
    node: Text,
    uid: PodUid,
    /// `ns/name` of the pod that pulls.
    pub pod: String,
    pub image: String,
}

/// A container that waits for its image.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    pub container: Text,
    pub since: Nanos,
    /// What the container waits for.
    pub standing: Standing,
    /// The announcement of the pull; `None` when the last pull failed.
    pub evidence: Option<&'a Evidence>,
}

/// Whether the other pods of a node are known, whose pulls may go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// All pods of the node were listed.
    Listed,
    /// Only the pods of some namespaces were asked for.
    OfNamespaces,
    /// Only some pods were asked for.
    Some,
    /// Nothing tells.
    Unknown,
}

impl Others {
    /// Returns which pods of a node are known.
    pub fn of(world: &World, node: &str, now: Nanos) -> Self {
        let coverage = world.coverage();
        // A list that shows pods of any namespace and name.
        let whole = |bounds: &str| scope::covers(bounds, "", node, "");
        let mut bounds = coverage.watches().filter(|(r, ..)| *r == "pods").peekable();
        match coverage.incomplete_where("pods", whole, now) {
            Some(None) if !node.is_empty() => Self::Listed,
            Some(_) => Self::Unknown,
            None if bounds.peek().is_none() => Self::Unknown,
            None if bounds.all(|(_, b, _)| scope::namespace_of(b).is_some()) => Self::OfNamespaces,
            None => Self::Some,
        }
    }
}

/// The pulls on all nodes at a moment.
#[derive(Clone, Debug, Default)]
pub struct Pulls {
    /// Calls in flight, oldest first, each with the node of its pod.
    flying: Vec<(Arc<Call>, Text)>,
    /// Pulls that were announced and have not ended, oldest first.
    announced: Vec<Announced>,
    /// When the tap lost observations.
    lost: Vec<Nanos>,
}

/// Returns the image of a `Pulling image "…"` message; `None` for another observation.
pub fn image_of(o: &Evidence) -> Option<String> {
    let text = match &o.body {
        Body::Event(e) => e.message.as_str(),
        Body::Log(l) => flow::line(l)?.name("message")?,
        _ => return None,
    };
    Some(text.split('"').nth(1)?.to_owned())
}

/// True for a pod that may wait for an image. Stages before Image count too, because some sources do not show that
/// they have ended. A pod that was deleted waits on: the kubelet does not cancel its pull.
///
/// The check is cheap for pods without a pull, which are nearly all pods of a node.
fn may_wait(pod: &PodView) -> bool {
    let stage = pod.current.map(|(stage, _)| stage);
    let starts = stage.is_some_and(|s| (Stage::Admit..=Stage::Start).contains(&s));
    let nothing = matches!(
        pod.stage(Stage::Image),
        StageState::NotReached | StageState::Unseen
    );
    let ends = stage == Some(Stage::Terminate) && pod.pull_announced;
    pod.gone.is_none() && (ends || starts && (pod.pull_announced || !nothing))
}

impl Pulls {
    /// Gathers the pulls from the world as of `now`.
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

    /// Returns the containers of a pod that wait for an image which no call in flight pulls.
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

    /// As [`Self::wanted`], for a pod whose history was not gathered.
    pub fn of_pod<'a>(&self, pod: &'a PodView, now: Nanos) -> Vec<Wanted<'a>> {
        if may_wait(pod) {
            self.wanted(&PodHistory::gather(pod, now))
        } else {
            Vec::new()
        }
    }

    /// True when the tap has lost observations since a moment.
    pub fn lost_since(&self, since: Nanos) -> bool {
        self.lost.iter().any(|at| *at >= since)
    }

    /// Returns what a pull of the pod waits for that was announced at `since` and for which no call is in flight.
    fn standing(&self, pod: &PodView, since: Nanos) -> Standing {
        let here = |node: &Text| node.is_empty() || pod.node.is_empty() || *node == pod.node;
        // Where the tap may have lost the call of this very pull, it waits only for what began before it.
        let lost = self.lost_since(since);
        let goes_first = |c: &Call| c.pod_uid != pod.uid && (!lost || c.start < since);
        let mut flying = self.flying.iter();
        let call = flying.find(|(c, node)| goes_first(c) && here(node));
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

    /// Returns the pull that goes before a step of a timeline; `None` when the step does not wait for another pull.
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

/// True for a step `EnsureImageExists` in flight, which may wait for other pulls.
pub fn may_be_queued(step: &Span) -> bool {
    step.step == "EnsureImageExists" && step.outcome == Outcome::InFlight
}
