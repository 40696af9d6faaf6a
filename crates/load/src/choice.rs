//! Which engine carries a cell, and why.

use crate::sample::EngineReport;
use crate::spec::{CellSpec, EngineChoice, SpecError};
use crate::target::Target;
use crate::uring;
use seatrial_gauge::Operation;

/// The engines over a real kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelEngine {
    /// pread, pwrite, fdatasync.
    Psync,
    /// io_uring.
    Uring,
}

impl KernelEngine {
    /// The word used in results.
    pub fn name(self) -> &'static str {
        match self {
            KernelEngine::Psync => "psync",
            KernelEngine::Uring => "io_uring",
        }
    }
}

/// The engine chosen for a cell, and the workers that it takes.
#[derive(Clone, Debug)]
pub struct EngineSelection {
    /// The engine.
    pub kernel_engine: KernelEngine,
    /// Worker threads.
    pub workers: u32,
    /// Requests in flight of each.
    pub depth: usize,
    /// What the sample says about it.
    pub report: EngineReport,
}

impl EngineSelection {
    /// Chooses as the specification asks and the kernel allows.
    ///
    /// # Errors
    ///
    /// [`SpecError`] when io_uring is requested for what takes more than one call to it.
    pub fn for_spec(spec: &CellSpec, target: &Target) -> Result<EngineSelection, SpecError> {
        Ok(match spec.engine {
            // Several threads would not keep the order of a list.
            EngineChoice::Psync if spec.list.is_some() && spec.depth > 1 => return Err(no_order()),
            EngineChoice::Auto if spec.list.is_some() && spec.depth > 1 => {
                if uring::unavailable_reason().is_some() {
                    return Err(no_order());
                }
                ring(spec, target, "depth is above 1")
            }
            EngineChoice::Psync if has_deep_streams(spec) => return Err(no_streams()),
            EngineChoice::Auto
                if has_deep_streams(spec)
                    && (has_sequences(spec) || uring::unavailable_reason().is_some()) =>
            {
                return Err(no_streams());
            }
            EngineChoice::IoUring if has_sequences(spec) => return Err(no_sequences()),
            EngineChoice::IoUring => ring(spec, target, "requested"),
            EngineChoice::Psync => threads(spec, target, "requested"),
            EngineChoice::Auto if has_sequences(spec) => {
                threads(spec, target, "a commit or a copy is a sequence of calls")
            }
            EngineChoice::Auto if spec.depth == 1 => threads(spec, target, "depth is 1"),
            EngineChoice::Auto => match uring::unavailable_reason() {
                None => ring(spec, target, "depth is above 1"),
                Some(reason) => {
                    threads(spec, target, &format!("io_uring cannot be used: {reason}"))
                }
            },
        })
    }
}

/// A commit is a single call only where each write is durable by itself.
fn has_sequences(spec: &CellSpec) -> bool {
    spec.accesses.iter().any(|access| match access.operation {
        Operation::Commit => !spec.target.dsync,
        operation => operation == Operation::Copy,
    })
}

/// Threads of one call each would not keep to the depths of several streams.
fn has_deep_streams(spec: &CellSpec) -> bool {
    !spec.streams.is_empty() && spec.depth > 1
}

fn no_streams() -> SpecError {
    SpecError::Refused {
        key: "streams".into(),
        problem: "have several requests in flight, which needs io_uring; allow it (`seatrial \
                  check` says what forbids it), or use depth 1"
            .into(),
    }
}

fn no_sequences() -> SpecError {
    SpecError::Refused {
        key: "engine".into(),
        problem: "is io_uring, but a commit or a copy is a sequence of calls; \
                  use auto or psync, or for a commit dsync"
            .into(),
    }
}

fn no_order() -> SpecError {
    SpecError::Refused {
        key: "list".into(),
        problem: "has several requests in flight, which one thread sends in their order only by \
                  io_uring; allow it (`seatrial check` says what forbids it), or use depth 1"
            .into(),
    }
}

fn ring(spec: &CellSpec, target: &Target, reason: &str) -> EngineSelection {
    EngineSelection {
        kernel_engine: KernelEngine::Uring,
        workers: spec.threads,
        depth: spec.depth as usize,
        report: report(KernelEngine::Uring, target, reason),
    }
}

/// A system call carries one request, so depth becomes threads.
fn threads(spec: &CellSpec, target: &Target, reason: &str) -> EngineSelection {
    EngineSelection {
        kernel_engine: KernelEngine::Psync,
        workers: spec.threads * spec.depth,
        depth: 1,
        report: report(KernelEngine::Psync, target, reason),
    }
}

fn report(kernel_engine: KernelEngine, target: &Target, reason: &str) -> EngineReport {
    if target.is_null() {
        let reason = format!("the {} engine without a target: {reason}", kernel_engine.name());
        return EngineReport { name: "null", reason };
    }
    EngineReport { name: kernel_engine.name(), reason: reason.to_owned() }
}
