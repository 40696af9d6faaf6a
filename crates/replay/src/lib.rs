//! SQL logs: readers, trace format, playback; and a server that answers at once.
//!
//! - [`pgbench_log`] turns pgbench's per-transaction logs into the parts of a sample.
//! - [`null_server`] speaks enough of PostgreSQL's protocol to show what a driver can do by itself.

pub mod null_server;
pub mod pgbench_log;
