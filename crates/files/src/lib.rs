//! Workloads of files: threads that open, read, append, delete and sync files of sets.
//!
//! Python reads a workload file of Filebench (its language is WML) and passes it as one
//! [`spec::FilesSpec`]. [`trial::start`] makes the sets of files, starts one
//! worker a thread and closes the sample with the parts of the load engine. Every wait
//! has a bound: it ends with the sample.

mod aio;
pub mod draw;
pub mod fileset;
pub mod make;
mod requests;
mod slots;
pub mod spec;
pub mod tree;
pub mod trial;
pub mod waits;
mod worker;
