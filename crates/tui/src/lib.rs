//! The terminal: panes, widgets, themes, keys. Draws a snapshot, never changes one.
//!
//! | module | owns |
//! |---|---|
//! | [`action`] | every command, in one table |
//! | [`keys`] | the live key map |
//! | [`model`], [`update`] | the state, and what input does to it: pure, answers with effects |
//! | [`view`], [`layout`] | the frame and where panes stand |
//! | [`pane`] | one file a pane |
//! | [`widget`], [`canvas`], [`text`], [`glyph`], [`theme`], [`time`] | what panes are drawn with |
//! | [`banner`] | what could not be read, above every pane |
//! | [`config`] | the user's configuration |
//! | [`offscreen`] | frames without a terminal |
//! | [`svg`] | a buffer as a picture |
//! | [`filter`] | what is typed after `/` |
//! | [`backend`] | what the terminal asks of the engine |
//! | [`writer`] | files, written off the drawing thread |
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
