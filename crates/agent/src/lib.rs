//! The agent: one process on a node that sees, keeps and serves what happens there.
//!
//! ```text
//! sources of this node ──▶ channel ──▶ agent thread ──▶ ring ──▶ unix socket, 127.0.0.1
//!                                            ├────────▶ spool on disk ──▶ store
//!                                            └────────▶ counts ──▶ /metrics
//! ```
//!
//! It has no world: who looks makes one of what is served.
//!
//! | module | owns |
//! |---|---|
//! | [`clean`] | removes what an agent leaves on its node |
//! | [`debug`] | an agent on one node for as long as somebody looks |
//! | [`find`] | what a node has, by its files: distribution, logs of the control plane, audit log, tracing. Pure |
//! | [`install`] | puts the agents into a cluster, and takes them out |
//! | [`look`] | reading those files |
//! | [`manifest`] | what an installation is made of. Pure |
//! | [`metrics`] | what is counted of what it sees. Pure |
//! | [`nodes`] | the agents of a cluster, node by node |
//! | `objects` | the objects of an installation, one by one |
//! | [`run`] | the process |
//! | [`scrape`] | serves a page of metrics |

pub mod clean;
pub mod debug;
pub mod find;
pub mod install;
pub mod look;
pub mod manifest;
pub mod metrics;
pub mod nodes;
mod objects;
pub mod run;
pub mod scrape;
