//! The tap itself.
//!
//! | module | owns |
//! |---|---|
//! | `follow` | from records to connections: order, losses, descriptors that come and go (pure) |
//! | `time` | from the kernel's clock to the wall clock |
//! | `kernel` | loading and attaching the programs, and their maps |
//! | `node` | sock_diag and /proc: which descriptors lead to the runtime |
//! | `apart` | the same in other network namespaces, which sock_diag does not list |
//! | `reconnect` | makes clients reconnect, when a person asks for it |
//! | `needs` | capabilities, tracefs, namespaces |
//! | `run` | the tap's thread |

mod apart;
mod follow;
mod kernel;
mod needs;
mod node;
mod reconnect;
mod run;
mod time;

pub use apart::network;
pub use kernel::loaded;
pub use needs::{missing_here, narrow};
pub use run::{Tap, probe};
