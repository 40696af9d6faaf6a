//! PostgreSQL's protocol for our own clients and servers.
//!
//! [`messages`] reads and writes messages, [`startup`] authenticates a client, [`answer`] is a
//! server's answer to a statement, and [`link`] a nonblocking socket. [`null_server`] is a server
//! that answers immediately, to measure a driver's maximum rate. Connections are not encrypted: a
//! driver that encrypts would measure its own processor.

pub mod answer;
pub mod link;
pub mod messages;
pub mod null_server;
pub mod startup;
