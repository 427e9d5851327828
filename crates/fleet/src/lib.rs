//! Tables of what happened on many nodes over weeks, and the standing questions about them.
//!
//! | module | owns |
//! |---|---|
//! | [`tables`] | rows made of sessions, as Parquet |
//! | [`engine`] | SQL queries over tables |
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
