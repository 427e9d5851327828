//! Runs sources, owns the one world, tees to the recorder, publishes snapshots.
//!
//! | module | owns |
//! |---|---|
//! | [`snapshot`] | what panes and exporters may see |
//! | [`pipeline`] | world, diagnoser and log, moved forward by observations: the same for live and replay |
//! | [`ask`] | asks the agents of several nodes once |
//! | [`import`] | raw captures in, a session out |
//! | [`cluster`] | a whole cluster, and the node of it that is open |
//! | [`nodes`] | the nodes of a snapshot, one row each |
//! | `live` | live sources, and the world while they run |
//! | [`post`] | posts spans to a trace store |
//! | `record` | the recorder: a tee to a file |
//! | [`overview`] | the incidents of a session, past ones too |
//! | [`replay`] | a session as a player: cursor, speed, steps, seeking |

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test may wait for the disk")
)]

pub mod ask;
pub mod cluster;
pub mod import;
pub mod live;
pub mod nodes;
pub mod overview;
pub mod pipeline;
pub mod post;
pub mod record;
pub mod replay;
pub mod snapshot;

pub use self::pipeline::{Pipeline, world_at};
pub use cluster::Cluster;
pub use overview::Overview;
pub use replay::Player;
pub use snapshot::{ObservationLog, Snapshot};
