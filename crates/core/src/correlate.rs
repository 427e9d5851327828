//! The world: which observation belongs to which pod, and what it means.
//!
//! [`World::observe`] only files evidence: it joins an observation to a pod by UID, by sandbox, container or trace
//! id, or by name and time, and keeps what cannot be joined yet. A pod's [`PodView`] and timeline are a pure function
//! of the *sorted set* of its evidence: [`World::refresh`] captures the evidence of the pods that changed, and a view is
//! derived from it at the first read. So the order of arrival cannot matter: late, early, duplicated and reordered
//! evidence ends in the same timeline by construction.
//!
//! A clone of the world is cheap (pods are shared until they change): snapshots for the UI and checkpoints for seeking
//! are clones.

pub mod calls;
pub mod conditions;
mod context;
pub mod coverage;
mod derive;
mod generations;
mod image_calls;
pub mod kubelet;
mod lazy;
mod observed;
pub mod owners;
pub mod pulls;
pub mod requests;
mod shards;
pub mod startup_latency;
mod status;
pub mod steps;
pub mod view;
pub mod world;

pub use calls::{Call, CallLog};
pub(crate) use coverage::BLINK;
pub use coverage::{Coverage, Failing, Hindsight, Incomplete, Lost};
pub use kubelet::KubeletActivity;
pub use lazy::Lazy;
pub use observed::Observed;
pub use pulls::ImagePulls;
pub use requests::{About, Request, RequestLog};
pub use startup_latency::PodStart;
pub use view::{ContainerView, PodView, RunState, StageState};
pub use world::{
    Actor, DEFAULT_SCHEDULER, LEADER_LEASES, LazyPod, Lease, NODE_LEASES, NodeState, ObjectState,
    Pod, Presence, Retention, Retired, Sign, Sizes, Skew, SourceState, Unfiled, World,
};
