//! Admission of a request to the apiserver: who refused it, which webhooks were called, and what
//! the sources cannot tell.

use super::{Catalogue, Cause};
use crate::correlate::Request;
use kflow_model::{Body, Text, audit::AuditStage};

/// Whether webhooks of one kind (mutating, validating) were called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// The number of webhooks that the evidence names.
    Webhooks(usize),
    /// A source that records such calls was read, and records none.
    None,
    /// No source that records such calls was read.
    Unknown,
}

/// What the evidence of one request tells about its admission.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Authorisation allowed the request, and admission refused it.
    pub refused: bool,
    /// Why it was refused, where the refusal's message matches a cause of the catalogue.
    pub cause: Option<&'static Cause>,
    /// The Pod Security level and version that was enforced: `restricted:latest`.
    pub pod_security: Option<Text>,
    /// Calls of mutating webhooks. The audit log has an annotation for each, at every level from Metadata on
    /// (k8s.io/apiserver, pkg/admission/plugin/webhook/mutating/dispatcher.go, `addMutationAnnotation`), and a trace
    /// has a span.
    pub mutating: Called,
    /// Calls of validating webhooks. The audit log has nothing about a call that let the request pass:
    /// only a trace has.
    pub validating: Called,
}

/// Verbs that go through admission; requests that only read do not (k8s.io/apiserver, pkg/admission/interfaces.go,
/// `Operation`).
const ADMITTED: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

/// Returns the admission of a request; `None` when its verb needs none, or when its end was not seen.
pub fn of(r: &Request) -> Option<Admission> {
    if !ADMITTED.contains(&r.verb.as_str()) || r.ended.is_none() {
        return None;
    }
    let audits = || {
        r.evidence.iter().filter_map(|e| match &e.body {
            Body::Audit(a) if a.stage == AuditStage::ResponseComplete => Some(a),
            _ => None,
        })
    };
    let level = audits().find_map(|a| a.annotation("pod-security.kubernetes.io/enforce-policy"));
    let called = |mutating: bool, told: bool| {
        let named = r.webhooks.iter().filter(|w| w.mutating == mutating).count();
        match named {
            0 if told => Called::None,
            0 => Called::Unknown,
            n => Called::Webhooks(n),
        }
    };
    // `FailedCreate` is the reason of the Event in which a controller reports the same message.
    let refusal = || Catalogue::get().best("FailedCreate", &r.message, |_| true);
    let cause = r.is_error().then(refusal).flatten().map(|(c, _)| c);
    Some(Admission {
        refused: cause.is_some() || r.code == 403 && r.decision == "allow",
        cause,
        pod_security: level.map(Into::into),
        mutating: called(true, audits().next().is_some() || r.span.is_some()),
        validating: called(false, r.span.is_some()),
    })
}
