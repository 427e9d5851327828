//! One test binary: one link on small machines.
