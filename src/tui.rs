//! The terminal: panes, widgets, themes, keys. Draws a snapshot, never changes one.

pub mod action;
pub mod canvas;
pub mod glyph;
pub mod keys;
pub mod text;
pub mod theme;
pub mod time;
