//! What is known of a request's admission: who refused it, which webhooks were called, and what cannot be known.

use super::{Catalogue, Cause};
use crate::correlate::Request;
use kflow_model::{Body, Text, audit::AuditStage};

/// What is known of calls of one kind of webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// So many are named.
    Webhooks(usize),
    /// What would name a call was seen, and names none.
    None,
    /// Nothing was seen that would name a call.
    Unknown,
}

/// Admission of one request.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Authorisation allowed the request, and admission refused it.
    pub refused: bool,
    /// Why it was refused, where the refusal's message matches a cause of the catalogue.
    pub cause: Option<&'static Cause>,
    /// Level and version of Pod Security that was enforced: `restricted:latest`.
    pub pod_security: Option<Text>,
    /// Of a call the audit log has an annotation, at every level from Metadata on, and a trace has a span
    /// (k8s.io/apiserver, pkg/admission/plugin/webhook/mutating/dispatcher.go, `addMutationAnnotation`).
    pub mutating: Called,
    /// Of a call that let the request pass the audit log has nothing: only a trace has.
    pub validating: Called,
}

/// Verbs that go through admission; what only reads does not (k8s.io/apiserver, pkg/admission/interfaces.go, `Operation`).
const ADMITTED: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

/// The admission of a request; `None` of one that needs none, or whose answer was not seen.
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
    // The reason of the Event by which a controller tells the same message.
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
