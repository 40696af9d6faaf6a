//! Which stream a transaction goes to, and when it may begin, so that conflicts keep their order.
//!
//! A list schedule on a clock that counts statements: transactions are placed in the order of the
//! log, each as early as a stream is free and all that it conflicts with have ended. Where the log
//! has times, the clock counts µs, and none begins before its own time.

use std::collections::HashMap;

use seatrial_sqltext::table_access::TableAccess;

/// Names that are remembered; with more, everything before the next one counts as a conflict.
const NAMES_MAX: usize = 1 << 20;

/// Where a transaction was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Its stream, from 0.
    pub stream: usize,
    /// When its first statement begins, in ticks of the clock since the first.
    pub start: u64,
}

/// When the last ones ended that read or wrote a name.
#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    reads: u64,
    writes: u64,
}

/// The schedule so far.
#[derive(Debug)]
pub struct Schedule {
    has_times: bool,
    /// When each stream is free again.
    free_at: Vec<u64>,
    by_name: HashMap<Vec<u8>, Ends>,
    /// Nothing may begin earlier: the end of the last one that touched everything.
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

    /// Finds the place of a transaction that touches these names, not before a time.
    pub fn place(&self, table_access: &TableAccess, earliest: u64) -> Slot {
        let ready = self.ready(table_access).max(earliest);
        let stream = if table_access.is_pinned { 0 } else { self.stream_for(ready) };
        Slot { stream, start: ready.max(self.free_at[stream]) }
    }

    /// Takes in that a transaction was placed there and ends so.
    pub fn take_in(&mut self, slot: Slot, table_access: TableAccess, end: u64) {
        self.free_at[slot.stream] = end;
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

    /// How long all of it takes, in statements one after the other.
    pub fn steps(&self) -> u64 {
        self.last_end
    }

    /// When all that conflicts with it has ended.
    fn ready(&self, table_access: &TableAccess) -> u64 {
        if table_access.everything {
            return self.last_end;
        }
        let read = |name: &Vec<u8>| self.by_name.get(name).map_or(0, |ends| ends.writes);
        let written =
            |name: &Vec<u8>| self.by_name.get(name).map_or(0, |ends| ends.writes.max(ends.reads));
        let reads = table_access.reads.iter().map(read).max().unwrap_or(0);
        let writes = table_access.writes.iter().map(written).max().unwrap_or(0);
        reads.max(writes).max(self.floor)
    }

    /// The stream that idles least: the last to become free in time, else the first to become free.
    /// Where lengths are not known, the first to become free in any case: it likeliest is.
    fn stream_for(&self, ready: u64) -> usize {
        let streams = self.free_at.iter().enumerate();
        let in_time = streams.clone().filter(|(_, free)| **free <= ready && !self.has_times);
        let best = in_time.max_by_key(|(stream, free)| (**free, std::cmp::Reverse(*stream)));
        let (stream, _) =
            best.or_else(|| streams.min_by_key(|(_, free)| **free)).unwrap_or((0, &0));
        stream
    }

    /// Nothing begins before this: what was known of names until then does not matter any more.
    fn forget_until(&mut self, end: u64) {
        self.floor = end;
        self.by_name.clear();
    }
}
