//! Through the proxy to a real containerd. Ignored unless `tests/real/run.sh` has started one (`KFLOW_REAL`).

mod cri;
mod life;
