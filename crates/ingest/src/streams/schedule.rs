//! Assigns transactions to streams, and start times that keep conflicts in order.
//!
//! A list schedule on a clock that counts statements: transactions are placed in the order of the
//! log, each as early as a stream is free and all that it conflicts with have ended. Where the log
//! has times, the clock counts µs, and none begins before its own time.

use std::collections::HashMap;

use seatrial_sqltext::table_access::TableAccess;

/// Limit of remembered names; beyond it, everything before counts as a conflict.
const NAMES_MAX: usize = 1 << 20;

/// Where a transaction was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Its stream, from 0.
    pub stream: usize,
    /// When its first statement begins, in ticks of the clock since the first.
    pub start: u64,
}

/// The ends of the last transactions that read or wrote a name.
#[derive(Debug, Clone, Copy, Default)]
struct LastAccessEnds {
    reads: u64,
    writes: u64,
}

/// The schedule so far.
#[derive(Debug)]
pub struct Schedule {
    has_times: bool,
    /// The time at which each stream becomes free.
    free_at: Vec<u64>,
    by_name: HashMap<Vec<u8>, LastAccessEnds>,
    /// The earliest start of any transaction: the end of the last one that conflicts with all.
    floor: u64,
    /// The end of all so far.
    last_end: u64,
}

impl Schedule {
    /// An empty schedule of this number of streams, at least one; of a log with times or without.
    pub fn new(streams: usize, has_times: bool) -> Schedule {
        Schedule {
            has_times,
            free_at: vec![0; streams.max(1)],
            by_name: HashMap::new(),
            floor: 0,
            last_end: 0,
        }
    }

    /// Finds stream and start for a transaction that accesses these names, not before a time.
    pub fn placement_for(&self, table_access: &TableAccess, earliest: u64) -> Placement {
        let conflicts_end = self.conflicts_end(table_access).max(earliest);
        let stream = if table_access.is_pinned { 0 } else { self.stream_for(conflicts_end) };
        Placement { stream, start: conflicts_end.max(self.free_at[stream]) }
    }

    /// Records a placed transaction and its end.
    pub fn take_in(&mut self, placement: Placement, table_access: TableAccess, end: u64) {
        self.free_at[placement.stream] = end;
        self.last_end = self.last_end.max(end);
        if table_access.everything {
            self.forget_until(end);
            return;
        }
        if self.by_name.len() > NAMES_MAX {
            self.forget_until(self.last_end);
        }
        for name in table_access.reads {
            let ends = self.by_name.entry(name).or_default();
            ends.reads = ends.reads.max(end);
        }
        for name in table_access.writes {
            let ends = self.by_name.entry(name).or_default();
            ends.writes = ends.writes.max(end);
        }
    }

    /// Streams that were used.
    pub fn streams_used(&self) -> usize {
        self.free_at.iter().filter(|free| **free > 0).count()
    }

    /// The length of the schedule, in statements one after the other.
    pub fn steps(&self) -> u64 {
        self.last_end
    }

    /// The time at which all conflicting transactions have ended.
    fn conflicts_end(&self, table_access: &TableAccess) -> u64 {
        if table_access.everything {
            return self.last_end;
        }
        let read = |name: &Vec<u8>| self.by_name.get(name).map_or(0, |ends| ends.writes);
        let write_conflicts =
            |name: &Vec<u8>| self.by_name.get(name).map_or(0, |ends| ends.writes.max(ends.reads));
        let reads = table_access.reads.iter().map(read).max().unwrap_or(0);
        let writes = table_access.writes.iter().map(write_conflicts).max().unwrap_or(0);
        reads.max(writes).max(self.floor)
    }

    /// The stream that idles least: the last to become free in time, else the first to become free.
    /// Where lengths are not known, the first to become free in any case: it likeliest is.
    fn stream_for(&self, conflicts_end: u64) -> usize {
        let streams = self.free_at.iter().enumerate();
        let in_time =
            streams.clone().filter(|(_, free)| **free <= conflicts_end && !self.has_times);
        let best = in_time.max_by_key(|(stream, free)| (**free, std::cmp::Reverse(*stream)));
        let (stream, _) =
            best.or_else(|| streams.min_by_key(|(_, free)| **free)).unwrap_or((0, &0));
        stream
    }

    /// Lets nothing begin before this time, so that earlier accesses need not be remembered.
    fn forget_until(&mut self, end: u64) {
        self.floor = end;
        self.by_name.clear();
    }
}
