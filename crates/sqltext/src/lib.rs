//! Analysis of SQL: tokens, statements, transactions, and accessed tables.
//!
//! | part | rule |
//! |---|---|
//! | [`lexer`] | the only code that splits SQL into tokens, folds names and takes literals out |
//! | [`statements`] | the ends of statements, and their effects on the transaction |
//! | [`block`] | which transaction of its session a statement is in |
//! | [`table_access`] | the tables that a statement accesses, from its text only |
//! | [`reading`] | the same from text and [`catalog`], with the values and ids in it |
//!
//! Nothing here does I/O.

pub mod block;
pub mod catalog;
pub mod lexer;
pub mod reading;
pub mod statements;
pub mod table_access;
