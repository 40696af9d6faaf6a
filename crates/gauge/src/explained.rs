//! An error as a user reads it: what was seen, the likely cause, and the next step.

/// What an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The request cannot be carried out.
    Usage,
    /// The target cannot be used.
    Target,
    /// The disk is full.
    Space,
    /// The system refuses what is needed.
    System,
    /// A defect of ours.
    Defect,
}

/// An error as a user reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// What it is about.
    pub class: Class,
    /// What was seen.
    pub seen: String,
    /// The likely cause.
    pub cause: String,
    /// What to try next.
    pub next_step: String,
}

impl Explained {
    /// Returns an error of a class.
    pub fn new(
        class: Class,
        seen: impl Into<String>,
        cause: impl Into<String>,
        next_step: impl Into<String>,
    ) -> Explained {
        Explained { class, seen: seen.into(), cause: cause.into(), next_step: next_step.into() }
    }

    /// Returns an error for a request that cannot be carried out.
    pub fn usage(
        seen: impl Into<String>,
        cause: impl Into<String>,
        next_step: impl Into<String>,
    ) -> Explained {
        Explained::new(Class::Usage, seen, cause, next_step)
    }

    /// A defect of ours.
    pub fn defect(seen: impl Into<String>) -> Explained {
        let cause = "This is a defect of Seatrial, not of its input";
        let next_step = "Please report it with the command line, and if possible, its input";
        Explained::new(Class::Defect, seen, cause, next_step)
    }
}
