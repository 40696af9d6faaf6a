//! SQL as text: what PostgreSQL's statements are made of, and what they mean.
//!
//! [`lexer`] is the only one that splits SQL into tokens, folds names and takes literals out;
//! [`statements`] finds where statements end, [`block`] which transaction they are in. [`touched`]
//! tells what a statement touches by its text alone; [`reading`] tells it with the target's
//! [`catalog`], and follows what a session has. Nothing here does I/O.

pub mod block;
pub mod catalog;
pub mod lexer;
pub mod reading;
pub mod statements;
pub mod touched;
