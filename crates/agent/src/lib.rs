//! The agent: one process on a node that sees, keeps and serves what happens there.
//!
//! ```text
//! sources of this node ──▶ channel ──▶ agent thread ──▶ ring ──▶ unix socket, 127.0.0.1
//!                                            └────────▶ spool on disk
//! ```
//!
//! It has no world: who looks makes one of what is served.
//!
//! | module | owns |
//! |---|---|
//! | [`find`] | what a node has, by its files: distribution, logs of the control plane, audit log, tracing. Pure |
//! | [`look`] | reading those files |
//! | [`manifest`] | what an installation is made of. Pure |
//! | [`run`] | the process |

pub mod find;
pub mod look;
pub mod manifest;
pub mod run;
