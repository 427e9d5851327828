//! Parts that several panes use.

pub mod details;
pub mod page;
pub mod ruler;
pub mod scroll;
pub mod stage;
pub mod table;
