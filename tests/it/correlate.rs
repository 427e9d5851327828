//! The correlator on real sessions: it shows what happened, whatever the order in which observations arrive.

mod by_status;
mod carried;
mod clocks;
mod drawn;
mod kubectl;
mod lives;
mod order;
mod proof;
mod summed;
mod tried;

use std::path::PathBuf;

use kflow_core::correlate::World;
use kflow_model::{Evidence, Nanos};

/// Observations of a recorded session, in order of arrival.
#[expect(clippy::panic, reason = "a broken fixture fails the test")]
pub(crate) fn session(name: &str) -> Vec<Evidence> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/sessions")
        .join(format!("{name}.kflow.zst"));
    kflow_model::session::load(&path)
        .unwrap_or_else(|e| panic!("{name}: {e}"))
        .observations
}

/// The world after these observations.
pub(crate) fn world<'a>(observations: impl IntoIterator<Item = &'a Evidence>) -> World {
    let mut w = World::new();
    for o in observations {
        w.observe(o);
    }
    w.refresh();
    w
}

/// The world as of a moment: it has observed what was seen by then.
fn as_of(observations: &[Evidence], at: Nanos) -> World {
    world(observations.iter().filter(|o| o.stamp.seen <= at))
}

pub(crate) const SESSIONS: [&str; 14] = [
    "S1-basics",
    "S2-stuck-early",
    "S3-crashes",
    "S4-runtime",
    "S5-burst",
    "S6-slowpull",
    "S7-restart-json",
    "S8-node",
    "S9-evented-json",
    "S10-pleg",
    "S11-control-plane",
    "S12-alpha-gates",
    "S13-crictl",
    "S14-verbosity2",
];
