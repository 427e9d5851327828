//! The relay: bytes in = bytes out, whatever happens to the tap, the decoder or a subscriber.

mod faults;
mod relay;
mod rig;
mod service;
