//! SQL as text: what PostgreSQL's statements are made of, and what they mean.
//!
//! | part | rule |
//! |---|---|
//! | [`lexer`] | the only code that splits SQL into tokens, folds names and takes literals out |
//! | [`statements`] | where statements end, and what each does to its transaction |
//! | [`block`] | which transaction of its session a statement is in |
//! | [`table_access`] | the tables that a statement touches, from its text alone |
//! | [`reading`] | the same from text and [`catalog`], with the values and ids in it |
//!
//! Nothing here does I/O.

pub mod block;
pub mod catalog;
pub mod lexer;
pub mod reading;
pub mod statements;
pub mod table_access;
