//! The agent: one process on a node that sees, keeps and serves what happens there.
//!
//! ```text
//! sources of this node ──▶ channel ──▶ agent thread ──▶ ring ──▶ unix socket, 127.0.0.1
//!                                            ├────────▶ spool on disk ──▶ store
//!                                            └────────▶ counts ──▶ /metrics
//! ```
//!
//! The agent has no world: each viewer makes its own from the observations that the agent serves.
//!
//! | module | owns |
//! |---|---|
//! | [`clean`] | removes what an agent leaves on its node |
//! | [`debug`] | an agent on one node for as long as a command needs it |
//! | [`find`] | what a node's files say of it: distribution, logs of the control plane, audit log, tracing. Pure |
//! | [`install`] | installs the agents into a cluster, and uninstalls them |
//! | [`look`] | reads the files that [`find`] judges |
//! | [`manifest`] | the objects of an installation. Pure |
//! | [`metrics`] | counts of what the agent sees. Pure |
//! | [`nodes`] | the state of the agents of a cluster, node by node |
//! | `objects` | requests to the apiserver about the objects of an installation |
//! | [`run`] | the agent's process |
//! | [`scrape`] | serves the page of metrics by HTTP |

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
