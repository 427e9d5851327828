//! The map of the call flow: stages, steps, the Kubernetes functions behind them, and which evidence lights which step.
//!
//! Owns the closed set of [`Stage`]s and (as data) the steps inside each. Pure.

pub mod stage;

pub use stage::Stage;
