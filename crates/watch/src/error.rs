//! Why the kernel's block requests cannot be watched.

use std::io;
use std::path::PathBuf;

use seatrial_gauge::UserError;
use seatrial_gauge::user_error::ErrorClass;

const TRY_COUNTERS: &str = "Run it as root, or without rights watch the kernel's counters alone";

/// Why the kernel's block requests cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// tracefs is neither mounted nor can it be.
    #[error("tracefs cannot be mounted: {0}")]
    NoTracefs(io::Error),
    /// A tracepoint is absent, or cannot be read.
    #[error("the tracepoint {name} cannot be read ({path}): {error}")]
    Tracepoint {
        /// Its name.
        name: String,
        /// Its folder.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A tracepoint lacks a field.
    #[error("the tracepoint {name} has no field {field}")]
    Field {
        /// Its name.
        name: String,
        /// The field.
        field: &'static str,
    },
    /// A system call was refused.
    #[error("{call} was refused: {error}")]
    Refused {
        /// The call and its purpose.
        call: &'static str,
        /// The error of the system.
        error: io::Error,
    },
    /// The verifier rejected a program.
    #[error("the kernel's verifier rejected the program for {name}: {log}")]
    Rejected {
        /// The tracepoint.
        name: String,
        /// The last lines of its log.
        log: String,
    },
}

impl WatchError {
    /// Returns the error as a user reads it.
    pub fn explained(&self) -> UserError {
        let seen = self.to_string();
        match self {
            WatchError::Rejected { .. } | WatchError::Field { .. } => UserError::new(
                ErrorClass::System,
                seen,
                "This kernel's block tracepoints or its verifier differ from those known",
                "Please report it with the kernel's version; the kernel's counters work meanwhile",
            ),
            WatchError::Refused { error, .. } if error.raw_os_error() == Some(libc::EPERM) => {
                UserError::new(
                    ErrorClass::System,
                    seen,
                    "BPF needs CAP_BPF and CAP_PERFMON, or root, and is often off in containers",
                    TRY_COUNTERS,
                )
            }
            WatchError::Refused { .. } => UserError::new(
                ErrorClass::System,
                seen,
                "This kernel lacks BPF, or its limits are too low",
                TRY_COUNTERS,
            ),
            WatchError::NoTracefs(_) | WatchError::Tracepoint { .. } => UserError::new(
                ErrorClass::System,
                seen,
                "Tracepoints need root, and a kernel with CONFIG_BLOCK and tracefs",
                TRY_COUNTERS,
            ),
        }
    }
}
