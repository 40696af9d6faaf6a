//! An error as a user reads it: what was seen, the likely cause, and the next step.

/// The class of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The request cannot be carried out.
    Usage,
    /// The target cannot be used.
    Target,
    /// The disk is full.
    Space,
    /// The system refuses what is needed.
    System,
    /// A defect of Seatrial.
    Defect,
}

/// An error as a user reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserError {
    /// Its class.
    pub class: ErrorClass,
    /// What was seen.
    pub seen: String,
    /// The likely cause.
    pub cause: String,
    /// What to try next.
    pub next_step: String,
}

impl UserError {
    /// Returns an error of a class.
    pub fn new(
        class: ErrorClass,
        seen: impl Into<String>,
        cause: impl Into<String>,
        next_step: impl Into<String>,
    ) -> UserError {
        UserError { class, seen: seen.into(), cause: cause.into(), next_step: next_step.into() }
    }

    /// Returns an error for a request that cannot be carried out.
    pub fn usage(
        seen: impl Into<String>,
        cause: impl Into<String>,
        next_step: impl Into<String>,
    ) -> UserError {
        UserError::new(ErrorClass::Usage, seen, cause, next_step)
    }

    /// A defect of Seatrial.
    pub fn defect(seen: impl Into<String>) -> UserError {
        let cause = "This is a defect of Seatrial, not of its input";
        let next_step = "Please report it with the command line, and if possible, its input";
        UserError::new(ErrorClass::Defect, seen, cause, next_step)
    }
}
