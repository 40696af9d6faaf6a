//! An error as a user is told of it: what was seen, the likely cause, and what to do.

use std::io::ErrorKind;
use std::path::Path;

use crate::{TraceError, checkpoint, schema};

/// Whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// What was asked for cannot be done.
    Usage,
    /// The disk is full.
    Space,
    /// A defect of ours.
    Defect,
}

/// An error as a user is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// Whose fault it is.
    pub fault: Fault,
    /// What was seen.
    pub seen: String,
    /// The likely cause.
    pub cause: String,
    /// What to try next.
    pub next: String,
}

impl Explained {
    /// What was asked for cannot be done.
    pub fn usage(
        seen: impl Into<String>,
        cause: impl Into<String>,
        next: impl Into<String>,
    ) -> Explained {
        Explained { fault: Fault::Usage, seen: seen.into(), cause: cause.into(), next: next.into() }
    }

    /// A defect of ours.
    pub fn defect(seen: impl Into<String>) -> Explained {
        let cause = "This is a defect of Seatrial, not of your log";
        let next = "Please report it, if you can with the log";
        Explained { fault: Fault::Defect, ..Explained::usage(seen, cause, next) }
    }
}

impl TraceError {
    /// What a user is told of a trace that cannot be written or read.
    pub fn explained(&self) -> Explained {
        let again = "Read its log again with `seatrial sql read LOG... -o FILE`";
        match self {
            TraceError::Io { path, action, source } => {
                let seen = format!("{} cannot be {action}: {source}", path.display());
                let is_full = source.kind() == ErrorKind::StorageFull || is_full(&seen);
                let fault = if is_full { Fault::Space } else { Fault::Usage };
                if checkpoint::was_cut_off(path) {
                    let why = if is_full { "Its disk is full" } else { "It was not completed" };
                    let cause = format!("{why}; what was secured of it can be recovered");
                    let next = format!(
                        "Make room, and a trace of it with `seatrial sql capture --recover -o {}`",
                        path.display()
                    );
                    return Explained { fault, ..Explained::usage(seen, cause, next) };
                }
                if is_full {
                    let cause = "Its disk is full; nothing was left there";
                    let next = "Make room, or name a file on another disk with -o";
                    return Explained { fault, ..Explained::usage(seen, cause, next) };
                }
                let cause = "It or its folder is missing, or closed to this user";
                Explained::usage(
                    seen,
                    cause,
                    format!("See `ls -ld {}` and its folder", path.display()),
                )
            }
            TraceError::NotATrace { path, reason } => Explained::usage(
                format!("{} is no trace: {reason}", path.display()),
                "It is a log, or another file",
                "Make a trace of a log with `seatrial sql read LOG... -o FILE`",
            ),
            TraceError::Version { path, found } => Explained::usage(
                format!(
                    "{} is a trace of version {found}, not {}",
                    path.display(),
                    schema::VERSION
                ),
                "Another version of Seatrial wrote it",
                again,
            ),
            TraceError::Damaged { path, reason } => Explained::usage(
                format!("{} is damaged: {reason}", path.display()),
                "It was cut off or changed after it was written",
                again,
            ),
            TraceError::CutOff { path } => Explained::usage(
                format!(
                    "{} was cut off while it was written, and can be recovered",
                    path.display()
                ),
                "A capture to this name was killed, or its machine went down",
                format!(
                    "Make a trace of it with `seatrial sql capture --recover -o {0}`, or remove \
                     {0}.part.end",
                    path.display()
                ),
            ),
            TraceError::InUse { path } => Explained::usage(
                format!("{} is being written by another process", path.display()),
                "A capture or a reading to this name is at work",
                format!("Name another file with -o; `fuser {}` tells who it is", part_of(path)),
            ),
            TraceError::UnknownSession(_) | TraceError::Origin(_) => {
                Explained::defect(self.to_string())
            }
        }
    }
}

fn part_of(trace: &Path) -> String {
    checkpoint::part_of(trace).display().to_string()
}

/// Parquet hands on the system's words, not its number.
fn is_full(seen: &str) -> bool {
    ["os error 28", "os error 122"].iter().any(|number| seen.contains(number))
}
