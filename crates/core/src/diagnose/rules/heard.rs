//! When the components that have to act next (kubelet, scheduler, controllers) last showed a sign of life, in words.

use super::Context;
use crate::correlate::{Actor, LEADER_LEASES, Lease};
use crate::diagnose::cluster::leases_lost;
use crate::diagnose::limits;
use crate::diagnose::text::{at, span};
use kflow_model::Evidence;
use kflow_model::{Body, Nanos, Source};

/// The newest sign of life of a component.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub(super) at: Nanos,
    /// What the sign was: `its lease`.
    by: &'static str,
    /// The observation; `None` for the tap and the kubelet's log, of which only the time is kept.
    pub(super) evidence: Option<Evidence>,
    /// Observations of this kind were lost after `at`, so that a later sign of life may have been lost.
    lost: bool,
}

impl Heard {
    /// `at 23:07:10 UTC, 52 s ago (its lease)`.
    pub(super) fn in_words(&self, now: Nanos) -> String {
        let lost = if self.lost { LOST } else { "" };
        format!(
            "at {}, {} ago ({}{lost})",
            at(self.at, now),
            span(now.since(self.at)),
            self.by
        )
    }
}

/// Added to the words about a component whose later sign of life may have been lost.
const LOST: &str = "; what came later was lost in part";

fn by(o: &Evidence) -> &'static str {
    match &o.body {
        Body::Object(_) => "its lease",
        Body::Event(_) => "an Event of it",
        Body::Audit(a) if a.resource == "leases" => "its lease, by the audit log",
        _ => "a request of it",
    }
}

fn sign(cx: Context<'_>, actor: &Actor) -> Option<Heard> {
    let sign = cx.world.heard(actor).filter(|s| s.at <= cx.now)?;
    let lost = leases_lost(cx.world, sign.evidence.source, sign.at);
    Some(Heard {
        at: sign.at,
        by: by(&sign.evidence),
        evidence: Some(sign.evidence.clone()),
        lost: lost.is_some(),
    })
}

pub(super) fn kubelet(cx: Context<'_>, node: &str) -> Option<Heard> {
    let told = sign(cx, &Actor::Kubelet(node.into()));
    let local = cx
        .shared
        .node_spoke
        .filter(|_| cx.shared.is_local(node))
        .map(|at| Heard {
            at,
            by: "its log, or a call of it",
            evidence: None,
            lost: cx.shared.node_quiet.is_some_and(|quiet| quiet > at),
        });
    [told, local].into_iter().flatten().max_by_key(|h| h.at)
}

pub(super) fn scheduler(cx: Context<'_>, name: &str) -> Option<Heard> {
    let name = if name.is_empty() {
        crate::correlate::DEFAULT_SCHEDULER
    } else {
        name
    };
    sign(cx, &Actor::Scheduler(name.into()))
}

/// The newest sign of life of kube-controller-manager.
pub(super) fn controllers(cx: Context<'_>) -> Option<Heard> {
    sign(cx, &Actor::Controllers)
}

/// Returns the lease of a CSI controller. external-provisioner names it like its driver
/// (`cmd/csi-provisioner/csi-provisioner.go`, main: `provisionerName`), external-attacher
/// `external-attacher-leader-DRIVER` (`cmd/csi-attacher/main.go`, main). `sanitizeName` of
/// kubernetes-csi/csi-lib-utils (`leaderelection/leader_election.go`, 0.24) changes both names: it puts a hyphen in
/// place of every character that is no letter, digit or hyphen, and an X after a hyphen at the end. The namespace is
/// the sidecar's own (`inClusterNamespace`).
pub(super) fn driver<'w>(cx: Context<'w>, prefix: &str, driver: &str) -> Option<&'w Lease> {
    let mut plain: String = driver
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    if plain.ends_with('-') {
        plain.push('X');
    }
    let wanted = format!("{prefix}{plain}");
    cx.world
        .leases()
        .filter(|(_, name, _)| *name == wanted)
        .max_by_key(|(ns, _, l)| (*ns == LEADER_LEASES, l.renewed))
        .map(|(_, _, l)| l)
}

/// Returns when a driver's controller last renewed its lease, in words, and whether it has missed a renewal.
pub(super) fn driver_in_words(cx: Context<'_>, l: &Lease) -> String {
    let age = cx.now.since(l.renewed);
    let lasts = l.lasts(limits::LEADER.ns);
    let lost = leases_lost(cx.world, Source::Kube, l.renewed);
    let over = if cx.now.since(lost.unwrap_or(l.renewed)) >= lasts + lasts / 2 {
        format!(
            ", although it has to renew its lease within {}: it does not run",
            span(lasts)
        )
    } else if lost.is_some() {
        LOST.to_owned()
    } else {
        String::new()
    };
    format!("at {}, {} ago{over}", at(l.renewed, cx.now), span(age))
}

/// True when the watches have delivered something after `since`: they are alive, and what they do not
/// show has not happened.
pub(super) fn watches_live(cx: Context<'_>, since: Nanos) -> bool {
    cx.world
        .source(Source::Kube)
        .last
        .is_some_and(|t| t > since)
}
