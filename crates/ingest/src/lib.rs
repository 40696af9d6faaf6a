//! Reads logs of a server into a trace, and logs of pgbench into the parts of a sample.
//!
//! [`log`] reads a server's log in any of its formats, and plain SQL; [`streams`] splits one
//! without sessions into some that run side by side. [`intake`] does both in the background and
//! writes a trace. [`pgbench_log`] reads pgbench's per-transaction logs.

pub mod intake;
pub mod log;
pub mod pgbench_log;
pub mod streams;
