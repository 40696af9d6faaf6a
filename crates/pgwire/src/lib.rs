//! PostgreSQL's protocol, as far as its two ends are ours.
//!
//! [`messages`] reads and writes messages, [`startup`] lets a client in and proves who it is,
//! [`answer`] is what a server says to a statement, and [`link`] a socket that never waits.
//! [`null_server`] is a server that answers at once, to show what a driver can do by itself.
//! Connections are not encrypted: a driver that encrypts would measure its own processor.

pub mod answer;
pub mod link;
pub mod messages;
pub mod null_server;
pub mod startup;
