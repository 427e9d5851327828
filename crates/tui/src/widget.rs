//! Parts that several panes are made of.

pub mod facts;
pub mod ruler;
pub mod scroll;
pub mod stage;
pub mod table;
