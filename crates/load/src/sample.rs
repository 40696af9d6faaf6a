//! What one measured cell yields: the parts of a sample, before anybody interprets them.

use seatrial_gauge::recorder::KindTotals;
use seatrial_gauge::{
    AccountingError, Evidence, Operation, Outcome, RecorderParts, SliceRow, Stall,
    WorkerQuietPeriods, find_stalls, longest_in_order,
};

use crate::errno;
use crate::verify::Corruption;
use crate::watchdog::WatchdogObservations;
use crate::worker::{CORRUPTIONS_MAX, ERRORS_MAX, ErrorSample, Record};

/// The engine of a sample, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineReport {
    /// `io_uring`, `psync`, `simulated` or `null`.
    pub name: &'static str,
    /// Why, as a phrase.
    pub reason: String,
}

impl EngineReport {
    /// Returns the report with what the engine had to do without.
    pub fn lacking(mut self, lack: Option<&str>) -> EngineReport {
        if let Some(lack) = lack {
            self.reason = format!("{}; {lack}", self.reason);
        }
        self
    }
}

/// The parts of a sample.
#[derive(Debug)]
pub struct Sample {
    /// Which engine, and why.
    pub engine: EngineReport,
    /// The sample's start, on the clock that all times below count from.
    pub start_ns: u64,
    /// Start by the wall clock.
    pub started_unix_s: f64,
    /// Measured length.
    pub duration_ns: u64,
    /// Whether it was stopped before its limit.
    pub interrupted: bool,
    /// The accounting equation's terms.
    pub outcome: Outcome,
    /// Names of the kinds: operations, or flowops.
    pub names: Vec<String>,
    /// Totals by kind; empty for those that were not offered.
    pub kinds: Vec<KindTotals>,
    /// Length of a timeline slice.
    pub slice_ns: u64,
    /// The timeline.
    pub slices: Vec<SliceRow>,
    /// Stalls with what was seen during each, in order of time.
    pub stalls: Vec<(Stall, Evidence)>,
    /// Stalls beyond what is kept.
    pub stalls_dropped: u64,
    /// Age of the oldest request that never ended.
    pub oldest_in_flight_ns: u64,
    /// All failed requests.
    pub errors_count: u64,
    /// Examples of them.
    pub errors: Vec<ErrorSample>,
    /// Readings by name, unit last.
    pub counters: Vec<(&'static str, f64)>,
    /// Blocks checked, blocks wrong, examples; `None` where data were not checked.
    pub verification: Option<Verification>,
}

/// The result of verifying data against the ledger.
#[derive(Debug, Default)]
pub struct Verification {
    /// Blocks checked.
    pub checked_blocks: u64,
    /// Blocks that were wrong.
    pub corrupt_blocks: u64,
    /// Examples with their offsets.
    pub corruptions: Vec<(u64, Corruption)>,
}

/// The sums over workers, taken worker by worker.
#[derive(Debug)]
pub struct WorkerSums {
    outcome: Outcome,
    names: Vec<String>,
    kinds: Vec<KindTotals>,
    quiet_periods: Vec<WorkerQuietPeriods>,
    quiet_periods_dropped: u64,
    errors_count: u64,
    errors: Vec<ErrorSample>,
    verification: Verification,
    gave_up_workers: u64,
}

impl Default for WorkerSums {
    fn default() -> WorkerSums {
        WorkerSums::of_kinds(Operation::ALL.map(|operation| operation.name().to_owned()).into())
    }
}

impl WorkerSums {
    /// A pool of workers whose recorders count by kinds of these names.
    pub fn of_kinds(names: Vec<String>) -> WorkerSums {
        WorkerSums {
            kinds: vec![KindTotals::default(); names.len()],
            names,
            outcome: Outcome::default(),
            quiet_periods: Vec::new(),
            quiet_periods_dropped: 0,
            errors_count: 0,
            errors: Vec::new(),
            verification: Verification::default(),
            gave_up_workers: 0,
        }
    }

    /// Ends one worker's record at `end_ns` and takes it in.
    ///
    /// # Errors
    ///
    /// When the worker's requests do not add up.
    pub fn take_in(&mut self, record: &mut Record, end_ns: u64) -> Result<(), AccountingError> {
        let parts: RecorderParts = record.recorder.finish(end_ns)?;
        self.outcome = self.outcome.plus(parts.outcome);
        for (mine, theirs) in self.kinds.iter_mut().zip(&parts.kinds) {
            mine.completed += theirs.completed;
            mine.failed += theirs.failed;
            mine.transferred_bytes += theirs.transferred_bytes;
            mine.response.merge(&theirs.response);
            mine.service.merge(&theirs.service);
        }
        self.quiet_periods.push(parts.quiet);
        self.quiet_periods_dropped += parts.quiet_periods_dropped;
        self.errors_count += record.errors_count;
        self.errors.append(&mut record.errors);
        self.verification.checked_blocks += record.checked_blocks;
        self.verification.corrupt_blocks += record.corrupt_blocks;
        self.verification.corruptions.append(&mut record.corruptions);
        self.gave_up_workers += u64::from(record.gave_up);
        Ok(())
    }

    /// The stalls of all workers together, each with the evidence that `observations` holds.
    pub fn stalls(
        &self,
        end_ns: u64,
        threshold_ns: u64,
        evidence: impl Fn(&Stall) -> Evidence,
    ) -> (Vec<(Stall, Evidence)>, u64) {
        let found = find_stalls(&self.quiet_periods, end_ns, threshold_ns);
        let (kept, dropped) = longest_in_order(found, Stall::length_ns, |stall| stall.start_ns);
        let kept = kept.into_iter().map(|stall| (stall, evidence(&stall))).collect();
        (kept, dropped + self.quiet_periods_dropped)
    }

    /// Makes the sample.
    pub fn into_sample(self, frame: SampleFrame) -> Sample {
        let (stalls, stalls_dropped) = frame.stalls;
        let mut errors = self.errors;
        errors.sort_by_key(|error| error.at_ns);
        errors.truncate(ERRORS_MAX);
        let mut verification = self.verification;
        verification.corruptions.sort_by_key(|&(offset_bytes, _)| offset_bytes);
        verification.corruptions.truncate(CORRUPTIONS_MAX);
        let mut counters = frame.counters;
        counters.push(("gave_up_workers", self.gave_up_workers as f64));
        Sample {
            engine: frame.engine,
            start_ns: frame.start_ns,
            started_unix_s: frame.started_unix_s,
            duration_ns: frame.duration_ns,
            interrupted: frame.interrupted,
            outcome: self.outcome,
            names: self.names,
            kinds: self.kinds,
            slice_ns: frame.slice_ns,
            slices: frame.slices,
            stalls,
            stalls_dropped,
            oldest_in_flight_ns: frame.oldest_in_flight_ns,
            errors_count: self.errors_count,
            errors,
            counters,
            verification: frame.checked.then_some(verification),
        }
    }
}

/// The part of a sample that is not a sum over its workers.
#[derive(Debug)]
pub struct SampleFrame {
    /// Which engine, and why.
    pub engine: EngineReport,
    /// The sample's start.
    pub start_ns: u64,
    /// Start by the wall clock.
    pub started_unix_s: f64,
    /// Its length.
    pub duration_ns: u64,
    /// Whether it was stopped.
    pub interrupted: bool,
    /// Length of a timeline slice.
    pub slice_ns: u64,
    /// The timeline.
    pub slices: Vec<SliceRow>,
    /// Stalls with evidence, and how many were dropped.
    pub stalls: (Vec<(Stall, Evidence)>, u64),
    /// Age of the oldest request that never ended.
    pub oldest_in_flight_ns: u64,
    /// Readings by name.
    pub counters: Vec<(&'static str, f64)>,
    /// Whether data were checked.
    pub checked: bool,
}

/// The watchdog's readings as counters.
pub fn watchdog_counters(observations: &WatchdogObservations) -> [(&'static str, f64); 5] {
    [
        ("kernel_workers_max", observations.kernel_workers_max as f64),
        ("watchdog_lateness_ns_max", observations.lateness_ns_max as f64),
        ("watchdog_lateness_ns_total", observations.lateness_ns_total as f64),
        ("steal_ns", observations.steal_ns_total() as f64),
        ("cpu_quota_ns", observations.quota_ns_total() as f64),
    ]
}

impl ErrorSample {
    /// The error's name, such as `EIO`.
    pub fn name(&self) -> String {
        errno::name(self.errno)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seatrial_gauge::{QuietPeriod, STALLS_MAX};

    const MS: u64 = 1_000_000;

    #[test]
    fn the_longest_stalls_are_kept_in_order_of_time() {
        let waits = |from_ms: u64, to_ms: u64| QuietPeriod {
            from_ns: from_ms * MS,
            busy_from_ns: Some(from_ms * MS),
            to_ns: to_ms * MS,
            operations: [1, 0, 0, 0, 0, 0],
        };
        let mut quiet_periods: Vec<_> = (0..1_100).map(|n| waits(n * 100, n * 100 + 60)).collect();
        quiet_periods.push(waits(110_000, 115_000));
        let quiet = WorkerQuietPeriods { quiet_periods, last: waits(115_000, 115_001) };
        let sums = WorkerSums { quiet_periods: vec![quiet], ..WorkerSums::default() };
        let (kept, dropped) = sums.stalls(115_001 * MS, 50 * MS, |_| Evidence::default());
        assert_eq!((kept.len(), dropped), (STALLS_MAX, 101));
        assert_eq!(kept.last().unwrap().0.length_ns(), 5_000 * MS);
        assert!(kept.is_sorted_by_key(|(stall, _)| stall.start_ns));
    }
}
