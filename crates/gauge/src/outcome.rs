//! What became of every request: the accounting equation.
//!
//! ```text
//! offered = completed + failed + late_skipped + in_flight_at_end
//! offered = started + late_skipped
//! started = completed + failed + in_flight_at_end
//! ```
//!
//! In a closed loop a request is offered when it is started. Under an arrival schedule it is
//! offered when its time has come; one that could not be started before the sample ended is
//! `late_skipped`, never forgotten.
//!
//! The terms come from three independent sources: what the worker submits ([`crate::InFlight`]),
//! what it reaps ([`crate::Recorder`]), and the slots that are still occupied. A lost or doubled
//! completion therefore breaks the equation instead of hiding in it.

/// The counters of one worker at the end of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounting {
    /// Requests whose time had come, counted by the submitting side.
    pub offered: u64,
    /// Requests given to the target, counted by the submitting side.
    pub started: u64,
    /// Requests that ended well, counted by the reaping side.
    pub completed: u64,
    /// Requests that ended with an error, counted by the reaping side.
    pub failed: u64,
    /// Slots that still hold a request.
    pub in_flight: u64,
}

/// The equation's terms of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Requests whose time had come.
    pub offered: u64,
    /// Requests that ended well.
    pub completed: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// Requests whose time had come but which were never started.
    pub late_skipped: u64,
    /// Requests started and not ended.
    pub in_flight_at_end: u64,
}

/// A sample whose requests do not add up: a defect of the engine, never of the target.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the requests do not add up: {0:?}; this is a defect of Seatrial, please report it")]
pub struct AccountingError(pub Accounting);

impl Accounting {
    /// Ends the sample: the equation must hold. Offered requests that were not started become
    /// `late_skipped`.
    pub fn close(self) -> Result<Outcome, AccountingError> {
        let ended_or_in_flight = self.completed + self.failed + self.in_flight;
        let late_skipped = self.offered.checked_sub(self.started).ok_or(AccountingError(self))?;
        if self.started != ended_or_in_flight {
            return Err(AccountingError(self));
        }
        let outcome = Outcome {
            offered: self.offered,
            completed: self.completed,
            failed: self.failed,
            late_skipped,
            in_flight_at_end: self.in_flight,
        };
        if outcome.adds_up() { Ok(outcome) } else { Err(AccountingError(self)) }
    }
}

impl Outcome {
    /// Whether the equation holds.
    pub fn adds_up(&self) -> bool {
        self.offered == self.completed + self.failed + self.late_skipped + self.in_flight_at_end
    }

    /// The sum over workers.
    pub fn plus(self, other: Outcome) -> Outcome {
        Outcome {
            offered: self.offered + other.offered,
            completed: self.completed + other.completed,
            failed: self.failed + other.failed,
            late_skipped: self.late_skipped + other.late_skipped,
            in_flight_at_end: self.in_flight_at_end + other.in_flight_at_end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_started_is_late_skipped() {
        let sample = Accounting { offered: 10, started: 7, completed: 4, failed: 1, in_flight: 2 };
        let outcome = sample.close().unwrap();
        assert_eq!((outcome.late_skipped, outcome.in_flight_at_end), (3, 2));
        assert!(outcome.adds_up());
    }

    #[test]
    fn a_lost_completion_is_an_error() {
        let sample = Accounting { offered: 5, started: 5, completed: 4, failed: 0, in_flight: 0 };
        assert_eq!(sample.close(), Err(AccountingError(sample)));
    }

    #[test]
    fn a_completion_out_of_nothing_is_an_error() {
        let sample = Accounting { offered: 1, started: 1, completed: 2, failed: 0, in_flight: 0 };
        assert!(sample.close().is_err());
        let sample = Accounting { offered: 0, started: 1, completed: 1, failed: 0, in_flight: 0 };
        assert!(sample.close().is_err());
    }
}
