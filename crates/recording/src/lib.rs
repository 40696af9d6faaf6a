//! Recorded block requests: what one is, the file that keeps them, other programs' formats.

pub mod foreign;
pub mod request;

pub use request::{Operation, Request};
