//! Tests against a real containerd. Ignored unless `tests/real/run.sh` has started one (`KFLOW_REAL`).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that meets what it does not expect has failed"
)]

mod cri;
mod events;
mod life;
mod pulls;
mod tap;
