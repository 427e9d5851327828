//! The terminal UI: panes, widgets, themes, keys. It draws a snapshot and never changes one.
//!
//! | module | owns |
//! |---|---|
//! | [`action`] | every command, in one table |
//! | [`keys`] | the key map |
//! | [`model`], [`update`] | the state, and how input changes it: pure; I/O is returned as effects |
//! | [`view`], [`layout`] | the frame, and where panes are |
//! | [`pane`] | one file per pane |
//! | [`widget`], [`canvas`], [`text`], [`glyph`], [`theme`], [`time`] | the parts that panes draw with |
//! | [`banner`] | what could not be read, above every pane |
//! | [`config`] | the user's configuration |
//! | [`offscreen`] | frames drawn without a terminal |
//! | [`picture`] | the whole life of one pod as a picture |
//! | [`svg`] | a drawn buffer as an SVG picture |
//! | [`filter`] | the filter that is typed after `/` |
//! | [`backend`] | the interface to the engine |
//! | [`writer`] | writes files in a thread of its own, so that drawing does not wait |
//!
//! Input becomes an action, the action changes the model, the model is drawn. Drawing reads a snapshot and the model;
//! it changes nothing and does no I/O.

#![expect(
    clippy::many_single_char_names,
    reason = "drawing counts in x, y, w and h; t and g are theme and glyphs everywhere"
)]
#![expect(
    clippy::format_push_string,
    reason = "titles and details of one line: `write!` would add a result that cannot fail"
)]

pub mod action;
pub mod backend;
pub mod banner;
pub mod canvas;
pub mod cast;
pub mod config;
pub mod describe;
pub mod filter;
pub mod glyph;
pub mod help;
pub mod keys;
pub mod layout;
pub mod model;
pub mod offscreen;
pub mod pane;
pub mod picture;
pub mod replay;
pub mod run;
mod settings;
pub mod shared;
pub mod strip;
pub mod svg;
pub mod text;
pub mod theme;
pub mod time;
pub mod timezone;
pub mod tour;
pub mod update;
pub mod view;
pub mod widget;
pub mod writer;
