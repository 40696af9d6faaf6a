//! Block requests of the machine, seen by BPF programs on the kernel's block tracepoints.
//!
//! The programs are assembled here, for the kernel that runs, with the offsets that it has: of its
//! structures where it publishes its types (BTF), else of the tracepoints' fields in their `format`
//! files. So neither kprobes nor a compiler is needed, on the user's machine or ours.
//!
//! | part | rule |
//! |---|---|
//! | [`source`] | where a program finds a request's device, sector, length and operation |
//! | [`btf`] | offsets in the kernel's structures |
//! | [`tracefs`] | tracepoints: their numbers and the offsets of their fields |
//! | [`asm`] | instructions of BPF, with labels |
//! | [`layout`] | what the programs and their reader share: keys, values, buckets |
//! | [`program`] | the three programs: a request arrives, is issued, is completed |
//! | [`bpf`] | the system calls: maps, programs, attachment |
//! | [`ring`] | requests one by one, from the kernel's ring buffer |
//! | [`watch`] | all of it together |

pub mod asm;
pub mod bpf;
pub mod btf;
pub mod error;
pub mod layout;
pub mod program;
pub mod ring;
pub mod source;
pub mod tracefs;
pub mod watch;

pub use error::WatchError;
pub use watch::{LostCounts, Watch, WatchSpec};
