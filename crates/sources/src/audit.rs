//! The apiserver's audit log: requests about pods and what they need, with user, decision, latency and webhooks.
//!
//! Owns the pure half, [`decode`]: lines of a log or batches of a webhook in, observations out; and `live`, which
//! receives the webhook.

pub mod decode;
#[cfg(feature = "live")]
pub mod live;
