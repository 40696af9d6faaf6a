//! Stalls: times in which a transaction was in progress and none ended, for longer than the
//! threshold.
//!
//! Between two consecutive ends nothing ended: where that gap is long enough, it may be a stall.
//! Later lines show whether a transaction was in progress in it: each client's first line after the
//! gap, if that transaction began before the gap was over. Under a schedule a transaction that is
//! due counts, as in the engine (`seatrial_gauge::stall`). Each line looks only at the gaps since
//! its client's line before, so the work is bounded.
//!
//! The line of a failed transaction does not contain its start. In a closed loop that was when the
//! client's previous one had ended; under a schedule nothing is claimed. A skipped one was never in
//! progress, and its line is not an end: such lines are written together, when the client is free
//! again.

use seatrial_gauge::longest_in_order;

use super::line::{Ending, Line};
use super::spec::LogSpec;

/// Gaps that are kept until the end. At a threshold of 50 ms that is at least 3.6 hours of them.
const GAPS_MAX: usize = 1 << 18;

/// A time in which transactions were in progress and none ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStall {
    /// From the sample's start: the last end, or the first start after it.
    pub start_ns: u64,
    /// Until the next end.
    pub length_ns: u64,
    /// Transactions in progress when it ended, by kind.
    pub operations: Box<[u32]>,
}

impl LogStall {
    /// Transactions in progress when it ended.
    pub fn depth(&self) -> u32 {
        self.operations.iter().sum()
    }
}

/// The stalls of a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// In order of time.
    pub kept: Vec<LogStall>,
    /// Those beyond what is kept.
    pub dropped: u64,
}

/// A long time between two ends.
#[derive(Debug)]
struct Gap {
    from_us: u64,
    to_us: u64,
    /// Since when a transaction was in progress in it, according to the lines so far.
    busy_from_us: Option<u64>,
    operations: Box<[u32]>,
}

/// Finds stalls, line by line, in order of time.
#[derive(Debug)]
pub struct StallFinder {
    start_us: u64,
    threshold_us: u64,
    has_lag: bool,
    kinds: usize,
    last_end_us: u64,
    /// Each client's last end, by process; 0 before its first.
    client_ends_us: Vec<Vec<u64>>,
    gaps: Vec<Gap>,
    gaps_dropped: u64,
}

impl StallFinder {
    /// Finds the stalls of a sample that starts at a time.
    pub fn new(spec: &LogSpec, start_us: u64, kinds: usize) -> StallFinder {
        StallFinder {
            start_us,
            threshold_us: spec.stall_threshold_ms * 1_000,
            has_lag: spec.has_lag,
            kinds,
            last_end_us: start_us,
            client_ends_us: vec![Vec::new(); spec.processes.len()],
            gaps: Vec::new(),
            gaps_dropped: 0,
        }
    }

    /// Takes in a line.
    #[inline]
    pub fn take_in(&mut self, process: usize, kind: usize, line: &Line) {
        if line.ending == Ending::Skipped {
            return;
        }
        let end_us = line.end_unix_us;
        if end_us.saturating_sub(self.last_end_us) >= self.threshold_us {
            self.note_gap(end_us);
        }
        self.last_end_us = self.last_end_us.max(end_us);
        let previous_end_us = self.replace_client_end(process, line.client as usize, end_us);
        let start_us = match line.ending {
            Ending::Failed(_) if self.has_lag => end_us,
            Ending::Failed(_) => previous_end_us,
            Ending::Completed { .. } | Ending::Skipped => line.start_unix_us(),
        };
        let since_us = previous_end_us.max(start_us);
        for gap in self.gaps.iter_mut().rev().take_while(|gap| gap.to_us > since_us) {
            let busy_from_us = start_us.max(gap.from_us);
            gap.busy_from_us =
                Some(gap.busy_from_us.map_or(busy_from_us, |us| us.min(busy_from_us)));
            gap.operations[kind] += 1;
        }
    }

    /// The stalls, when all lines were taken in.
    pub fn finish(self) -> Stalls {
        let stalls = self.gaps.into_iter().filter_map(|gap| {
            let from_us = gap.busy_from_us?;
            let length_us = gap.to_us - from_us;
            (length_us >= self.threshold_us).then(|| LogStall {
                start_ns: from_us.saturating_sub(self.start_us) * 1_000,
                length_ns: length_us * 1_000,
                operations: gap.operations,
            })
        });
        let found: Vec<LogStall> = stalls.collect();
        let (kept, dropped) =
            longest_in_order(found, |stall| stall.length_ns, |stall| stall.start_ns);
        Stalls { kept, dropped: dropped + self.gaps_dropped }
    }

    #[cold]
    fn note_gap(&mut self, to_us: u64) {
        if self.gaps.len() == GAPS_MAX {
            self.gaps_dropped += 1;
            return;
        }
        self.gaps.push(Gap {
            from_us: self.last_end_us,
            to_us,
            busy_from_us: None,
            operations: vec![0; self.kinds].into_boxed_slice(),
        });
    }

    /// Sets a client's last end and returns the one before.
    #[inline]
    fn replace_client_end(&mut self, process: usize, client: usize, end_us: u64) -> u64 {
        let ends_us = &mut self.client_ends_us[process];
        if client >= ends_us.len() {
            ends_us.resize(client + 1, 0);
        }
        std::mem::replace(&mut ends_us[client], end_us)
    }
}
