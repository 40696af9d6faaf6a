//! Totals, histograms and timeline of a sample, line by line.

use seatrial_gauge::{
    Accounting, AccountingError, Histogram, KindTotals, Outcome, SliceRow, Timeline,
};

use super::line::{Ending, FailureKind, Line};
use super::spec::LogSpec;

/// Examples of failed transactions that are kept.
const FAILURES_MAX: usize = 32;

/// Exact sums over lines, as pgbench itself would print them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExactTotals {
    /// Completed transactions.
    pub transactions: u64,
    /// Transactions that were given up.
    pub failed: u64,
    /// Transactions that were too late to be started.
    pub skipped: u64,
    /// Clients that have a line.
    pub clients: u64,
    /// Of completed transactions.
    pub latency_us_sum: u128,
    /// Of completed transactions.
    pub latency_us_max: u64,
    /// Of completed transactions.
    pub lag_us_sum: u128,
    /// Of completed transactions.
    pub lag_us_max: u64,
    /// Of all transactions, failed ones too.
    pub retries: u64,
    /// Earliest known intended start; `None` without lines.
    pub first_start_unix_us: Option<u64>,
    /// Last end; `None` without lines.
    pub last_end_unix_us: Option<u64>,
}

impl ExactTotals {
    #[inline]
    fn take_in(&mut self, line: &Line) {
        match line.ending {
            Ending::Completed { latency_us, lag_us } => {
                self.transactions += 1;
                self.latency_us_sum += u128::from(latency_us);
                self.latency_us_max = self.latency_us_max.max(latency_us);
                self.lag_us_sum += u128::from(lag_us);
                self.lag_us_max = self.lag_us_max.max(lag_us);
            }
            Ending::Skipped => self.skipped += 1,
            Ending::Failed(_) => self.failed += 1,
        }
        self.retries += line.retries;
        let start_us = line.start_unix_us();
        let first_us = self.first_start_unix_us;
        self.first_start_unix_us =
            Some(first_us.map_or(start_us, |first_us| first_us.min(start_us)));
        self.last_end_unix_us = self.last_end_unix_us.max(Some(line.end_unix_us));
    }

    fn plus(mut self, other: &ExactTotals) -> ExactTotals {
        self.transactions += other.transactions;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.clients += other.clients;
        self.latency_us_sum += other.latency_us_sum;
        self.latency_us_max = self.latency_us_max.max(other.latency_us_max);
        self.lag_us_sum += other.lag_us_sum;
        self.lag_us_max = self.lag_us_max.max(other.lag_us_max);
        self.retries += other.retries;
        let starts = [self.first_start_unix_us, other.first_start_unix_us];
        self.first_start_unix_us = starts.into_iter().flatten().min();
        self.last_end_unix_us = self.last_end_unix_us.max(other.last_end_unix_us);
        self
    }
}

/// One failed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its kind.
    pub kind: usize,
    /// Why.
    pub reason: FailureKind,
    /// When it was given up, from the sample's start.
    pub at_ns: u64,
}

#[derive(Debug, Default)]
struct KindInProgress {
    totals: KindTotals,
    /// Response times of the current slice.
    slice: Histogram,
}

/// Sums up lines in order of time.
#[derive(Debug)]
pub struct SampleTotals {
    start_unix_ns: u64,
    has_lag: bool,
    kinds: Vec<KindInProgress>,
    timeline: Timeline,
    slice_ns: u64,
    slice_index: u64,
    slice_end_unix_ns: u64,
    lines: u64,
    processes: Vec<ExactTotals>,
    clients: Vec<Vec<bool>>,
    failures: Vec<Failure>,
}

/// The result of [`SampleTotals`].
#[derive(Debug)]
pub struct SampleParts {
    /// The accounting equation's terms.
    pub outcome: Outcome,
    /// Totals by kind.
    pub kinds: Vec<KindTotals>,
    /// Length of a slice.
    pub slice_ns: u64,
    /// The timeline.
    pub slices: Vec<SliceRow>,
    /// Examples of failed transactions.
    pub failures: Vec<Failure>,
    /// Exact sums over all processes.
    pub total: ExactTotals,
    /// Exact sums by process.
    pub processes: Vec<ExactTotals>,
}

impl SampleTotals {
    /// The totals of a sample that starts at a time.
    pub fn new(spec: &LogSpec, start_unix_ns: u64, kinds: usize) -> SampleTotals {
        let slice_ns = spec.slice_ms * 1_000_000;
        SampleTotals {
            start_unix_ns,
            has_lag: spec.has_lag,
            kinds: (0..kinds).map(|_| KindInProgress::default()).collect(),
            timeline: Timeline::new(slice_ns),
            slice_ns,
            slice_index: 0,
            slice_end_unix_ns: start_unix_ns + slice_ns,
            lines: 0,
            processes: vec![ExactTotals::default(); spec.processes.len()],
            clients: vec![Vec::new(); spec.processes.len()],
            failures: Vec::new(),
        }
    }

    /// Takes in a line. One that ended before the sample's start counts in its first slice.
    #[inline]
    pub fn take_in(&mut self, process: usize, kind: usize, line: &Line) {
        let end_unix_ns = line.end_unix_us * 1_000;
        if end_unix_ns >= self.slice_end_unix_ns {
            self.end_slice(end_unix_ns);
        }
        self.lines += 1;
        self.processes[process].take_in(line);
        self.note_client(process, line.client as usize);
        let totals = &mut self.kinds[kind];
        match line.ending {
            Ending::Completed { latency_us, lag_us } => {
                totals.totals.completed += 1;
                totals.slice.record(latency_us * 1_000);
                if self.has_lag {
                    totals.totals.service.record((latency_us - lag_us) * 1_000);
                }
            }
            Ending::Skipped => {}
            Ending::Failed(reason) => {
                totals.totals.failed += 1;
                if self.failures.len() < FAILURES_MAX {
                    let at_ns = end_unix_ns.saturating_sub(self.start_unix_ns);
                    self.failures.push(Failure { kind, reason, at_ns });
                }
            }
        }
    }

    /// Ends the sample.
    ///
    /// # Errors
    ///
    /// When the terms of the accounting equation do not agree, which is a defect of this code.
    pub fn finish(mut self) -> Result<SampleParts, AccountingError> {
        self.flush();
        for (exact, clients) in self.processes.iter_mut().zip(&self.clients) {
            exact.clients = clients.iter().filter(|&&is_seen| is_seen).count() as u64;
        }
        let total = self.processes.iter().fold(ExactTotals::default(), ExactTotals::plus);
        // Offered transactions are counted by lines, started ones by process, outcomes by
        // kind: three independent counts.
        let outcome = Accounting {
            offered: self.lines,
            started: self.lines - total.skipped,
            completed: self.kinds.iter().map(|kind| kind.totals.completed).sum(),
            failed: self.kinds.iter().map(|kind| kind.totals.failed).sum(),
            in_flight: 0,
        };
        let (slice_ns, slices) = self.timeline.into_rows();
        Ok(SampleParts {
            outcome: outcome.close()?,
            kinds: self.kinds.into_iter().map(|kind| kind.totals).collect(),
            slice_ns,
            slices,
            failures: self.failures,
            total,
            processes: self.processes,
        })
    }

    #[inline]
    fn note_client(&mut self, process: usize, client: usize) {
        let clients = &mut self.clients[process];
        if client >= clients.len() {
            clients.resize(client + 1, false);
        }
        clients[client] = true;
    }

    #[cold]
    fn end_slice(&mut self, end_unix_ns: u64) {
        self.flush();
        self.slice_index = (end_unix_ns - self.start_unix_ns) / self.slice_ns;
        self.slice_end_unix_ns = self.start_unix_ns + (self.slice_index + 1) * self.slice_ns;
    }

    fn flush(&mut self) {
        for (index, kind) in self.kinds.iter_mut().enumerate() {
            if kind.slice.entries() == 0 {
                continue;
            }
            let slice = std::mem::take(&mut kind.slice);
            kind.totals.response.merge(&slice);
            self.timeline.add(self.slice_index, index, 0, |histogram| histogram.merge(&slice));
        }
    }
}
