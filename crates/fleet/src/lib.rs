//! What happened on many nodes and over weeks: tables of it, and the standing questions.
//!
//! | module | owns |
//! |---|---|
//! | [`tables`] | rows of what sessions tell, as Parquet |
//! | [`engine`] | tables that can be asked in SQL |
//! | [`questions`] | the standing questions |
//! | [`answer`] | answers as text and rows |
//! | [`mod@store`] | the tables of a store |

pub mod answer;
pub mod engine;
pub mod questions;
mod ranks;
pub mod store;
pub mod tables;

pub use engine::{AskError, Engine, Rows, Tables};
pub use questions::{Asked, By, Question};
pub use tables::{Table, TableError};
