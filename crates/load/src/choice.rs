//! Which engine carries a cell, and why.

use crate::sample::EngineReport;
use crate::spec::{CellSpec, EngineChoice};
use crate::target::Target;
use crate::uring;
use seatrial_gauge::Operation;

/// The engines over a real kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// pread, pwrite, fdatasync.
    Psync,
    /// io_uring.
    Uring,
}

impl Carrier {
    /// The word used in results.
    pub fn name(self) -> &'static str {
        match self {
            Carrier::Psync => "psync",
            Carrier::Uring => "io_uring",
        }
    }
}

/// The engine chosen for a cell, and the workers that it takes.
#[derive(Clone, Debug)]
pub struct EngineChosen {
    /// The engine.
    pub carrier: Carrier,
    /// Worker threads.
    pub workers: u32,
    /// Requests in flight of each.
    pub depth: usize,
    /// What the sample says about it.
    pub report: EngineReport,
}

impl EngineChosen {
    /// Chooses as the specification asks and the kernel allows.
    pub fn for_spec(spec: &CellSpec, target: &Target) -> EngineChosen {
        let uring_refused = || uring::unavailable_reason();
        match spec.engine {
            EngineChoice::IoUring => ring(spec, target, "asked for"),
            EngineChoice::Psync => threads(spec, target, "asked for"),
            EngineChoice::Auto if has_sequences(spec) => {
                threads(spec, target, "a commit or a copy is a sequence of calls")
            }
            EngineChoice::Auto if spec.depth == 1 => threads(spec, target, "depth is 1"),
            EngineChoice::Auto => match uring_refused() {
                None => ring(spec, target, "depth is above 1"),
                Some(reason) => {
                    threads(spec, target, &format!("io_uring cannot be used: {reason}"))
                }
            },
        }
    }
}

fn has_sequences(spec: &CellSpec) -> bool {
    let sequence = |operation: Operation| matches!(operation, Operation::Commit | Operation::Copy);
    spec.accesses.iter().any(|access| sequence(access.operation))
}

fn ring(spec: &CellSpec, target: &Target, reason: &str) -> EngineChosen {
    EngineChosen {
        carrier: Carrier::Uring,
        workers: spec.threads,
        depth: spec.depth as usize,
        report: report(Carrier::Uring, target, reason),
    }
}

/// A system call carries one request, so depth becomes threads.
fn threads(spec: &CellSpec, target: &Target, reason: &str) -> EngineChosen {
    EngineChosen {
        carrier: Carrier::Psync,
        workers: spec.threads * spec.depth,
        depth: 1,
        report: report(Carrier::Psync, target, reason),
    }
}

fn report(carrier: Carrier, target: &Target, reason: &str) -> EngineReport {
    if target.is_null() {
        let reason = format!("the {} engine without a target: {reason}", carrier.name());
        return EngineReport { name: "null", reason };
    }
    EngineReport { name: carrier.name(), reason: reason.to_owned() }
}
