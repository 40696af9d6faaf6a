//! The outstanding requests of a worker, readable by the watchdog while the worker is blocked.
//!
//! A worker that hangs in a system call cannot report its hang. So it publishes the start of every
//! request in a slot before it submits it, and clears the slot when it reaps it. Each slot has one
//! writer; readers need no lock and may see a state a few nanoseconds old, which is all they need.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Operation;

/// Low bits of a slot that hold the operation kind plus one; the rest is the start in ns.
const KIND_BITS: u32 = 3;

/// The slots and submit-side counters of one worker.
#[derive(Debug)]
pub struct InFlight {
    slots: Box<[AtomicU64]>,
    offered: AtomicU64,
    started: AtomicU64,
    last_end_ns: AtomicU64,
    due_ns: AtomicU64,
    /// 0 while the worker is running.
    retired_ns: AtomicU64,
    /// `u64::MAX` until it is known.
    run_delay_ns: AtomicU64,
}

/// The outstanding requests at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlightView {
    /// Outstanding requests by operation index.
    pub operations: [u32; Operation::ALL.len()],
    /// Start of the oldest outstanding request; `None` when there is none.
    pub oldest_start_ns: Option<u64>,
    /// The time at which a worker without outstanding requests is due to start one;
    /// `None` when every worker has something outstanding or is done.
    pub due_ns: Option<u64>,
    /// Last completion; the sample's start before the first.
    pub last_end_ns: u64,
    /// Workers that may still start requests.
    pub at_work: u32,
    /// When the last of the others gave up starting requests.
    pub retired_ns: u64,
}

impl InFlightView {
    /// Number of outstanding requests.
    pub fn depth(&self) -> u32 {
        self.operations.iter().sum()
    }

    /// The time since which nothing has ended although a request was outstanding or due; may be in
    /// the future.
    pub fn quiet_from_ns(&self) -> Option<u64> {
        let waiting_from_ns = earlier(self.oldest_start_ns, self.due_ns)?;
        Some(waiting_from_ns.max(self.last_end_ns))
    }

    /// The time at which everything was over: nothing is started any more and nothing outstanding;
    /// `None` before that.
    pub fn ended_ns(&self) -> Option<u64> {
        let is_over = self.at_work == 0 && self.depth() == 0;
        is_over.then_some(self.last_end_ns.max(self.retired_ns))
    }

    /// Both views as one.
    pub fn plus(self, other: InFlightView) -> InFlightView {
        let mut operations = self.operations;
        for (mine, theirs) in operations.iter_mut().zip(other.operations) {
            *mine += theirs;
        }
        InFlightView {
            operations,
            oldest_start_ns: earlier(self.oldest_start_ns, other.oldest_start_ns),
            due_ns: earlier(self.due_ns, other.due_ns),
            last_end_ns: self.last_end_ns.max(other.last_end_ns),
            at_work: self.at_work + other.at_work,
            retired_ns: self.retired_ns.max(other.retired_ns),
        }
    }
}

impl InFlight {
    /// Slots for `depth` requests of a sample that starts at `start_ns`.
    pub fn new(depth: usize, start_ns: u64) -> InFlight {
        InFlight {
            slots: (0..depth).map(|_| AtomicU64::new(0)).collect(),
            offered: AtomicU64::new(0),
            started: AtomicU64::new(0),
            last_end_ns: AtomicU64::new(start_ns),
            due_ns: AtomicU64::new(start_ns),
            retired_ns: AtomicU64::new(0),
            run_delay_ns: AtomicU64::new(u64::MAX),
        }
    }

    /// A request's time has come. Only the worker itself may call this.
    #[inline]
    pub fn offer(&self) {
        bump(&self.offered);
    }

    /// The time of so many requests has come. Only the worker itself may call this.
    pub fn offer_many(&self, count: u64) {
        self.offered.store(self.offered() + count, Ordering::Relaxed);
    }

    /// A request goes to the target now. Only the worker itself may call this.
    #[inline]
    pub fn begin(&self, slot: usize, operation: Operation, started_ns: u64) {
        bump(&self.started);
        let kind = operation.index() as u64 + 1;
        self.slots[slot].store((started_ns << KIND_BITS) | kind, Ordering::Relaxed);
    }

    /// Empties a slot; returns its operation and start.
    #[inline]
    pub fn end(&self, slot: usize) -> Option<(Operation, u64)> {
        let stored = self.slots[slot].load(Ordering::Relaxed);
        self.slots[slot].store(0, Ordering::Relaxed);
        read_slot(stored)
    }

    /// Publishes the time of the last completion.
    #[inline]
    pub fn completed_at(&self, at_ns: u64) {
        self.last_end_ns.store(at_ns, Ordering::Relaxed);
    }

    /// The worker sleeps, with nothing outstanding, until its next request is due.
    #[inline]
    pub fn sleep_until(&self, due_ns: u64) {
        self.due_ns.store(due_ns, Ordering::Relaxed);
    }

    /// The worker has started nothing since `at_ns` and never will again.
    pub fn retire(&self, at_ns: u64) {
        self.due_ns.store(u64::MAX, Ordering::Relaxed);
        self.retired_ns.store(at_ns.max(1), Ordering::Relaxed);
    }

    /// Publishes how long the worker's thread waited for a processor in total.
    pub fn leave_run_delay(&self, run_delay_ns: u64) {
        self.run_delay_ns.store(run_delay_ns, Ordering::Relaxed);
    }

    /// How long the worker's thread waited for a processor; `None` while it is running.
    pub fn run_delay_ns(&self) -> Option<u64> {
        Some(self.run_delay_ns.load(Ordering::Relaxed)).filter(|&delay_ns| delay_ns < u64::MAX)
    }

    /// Requests whose time has come.
    pub fn offered(&self) -> u64 {
        self.offered.load(Ordering::Relaxed)
    }

    /// Requests given to the target.
    pub fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// What is outstanding now.
    pub fn view(&self) -> InFlightView {
        let retired_ns = self.retired_ns.load(Ordering::Relaxed);
        let mut view = InFlightView {
            last_end_ns: self.last_end_ns.load(Ordering::Relaxed),
            at_work: u32::from(retired_ns == 0),
            retired_ns,
            ..InFlightView::default()
        };
        for slot in &self.slots {
            if let Some((operation, started_ns)) = read_slot(slot.load(Ordering::Relaxed)) {
                view.operations[operation.index()] += 1;
                view.oldest_start_ns = earlier(view.oldest_start_ns, Some(started_ns));
            }
        }
        if view.oldest_start_ns.is_none() {
            let due_ns = self.due_ns.load(Ordering::Relaxed);
            view.due_ns = (due_ns < u64::MAX).then_some(due_ns);
        }
        view
    }
}

fn earlier(one_ns: Option<u64>, other_ns: Option<u64>) -> Option<u64> {
    one_ns.into_iter().chain(other_ns).min()
}

/// One writer, so that a load and a store do what a locked instruction would, for less.
#[inline]
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

#[inline]
fn read_slot(stored: u64) -> Option<(Operation, u64)> {
    let kind = stored & ((1 << KIND_BITS) - 1);
    let operation = *Operation::ALL.get((kind as usize).checked_sub(1)?)?;
    Some((operation, stored >> KIND_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_kind_and_start_until_it_ends() {
        let in_flight = InFlight::new(3, 5);
        assert_eq!(in_flight.view().oldest_start_ns, None);
        in_flight.begin(2, Operation::Write, 1_000);
        in_flight.begin(0, Operation::Read, 900);
        let view = in_flight.view();
        assert_eq!((view.oldest_start_ns, view.depth(), view.last_end_ns), (Some(900), 2, 5));
        assert_eq!(view.operations, [1, 1, 0, 0, 0, 0]);
        assert_eq!(in_flight.end(0), Some((Operation::Read, 900)));
        assert_eq!(in_flight.end(0), None);
        assert_eq!(in_flight.view().oldest_start_ns, Some(1_000));
    }

    #[test]
    fn a_worker_between_requests_is_quiet_from_the_last_end_until_it_sleeps_or_retires() {
        let in_flight = InFlight::new(1, 5);
        assert_eq!(in_flight.view().quiet_from_ns(), Some(5));
        in_flight.begin(0, Operation::Read, 40);
        in_flight.completed_at(90);
        in_flight.end(0);
        assert_eq!(in_flight.view().quiet_from_ns(), Some(90));
        in_flight.sleep_until(700);
        assert_eq!(in_flight.view().quiet_from_ns(), Some(700));
        let busy = InFlight::new(1, 5);
        busy.begin(0, Operation::Read, 300);
        assert_eq!(in_flight.view().plus(busy.view()).quiet_from_ns(), Some(300));
        in_flight.retire(800);
        assert_eq!(in_flight.view().quiet_from_ns(), None);
    }

    #[test]
    fn a_sample_is_over_when_no_worker_starts_or_awaits_anything() {
        let (first, second) = (InFlight::new(1, 5), InFlight::new(1, 5));
        let ended_ns = || first.view().plus(second.view()).ended_ns();
        first.begin(0, Operation::Read, 10);
        second.retire(700);
        assert_eq!(ended_ns(), None, "one is at work");
        first.retire(600);
        assert_eq!(ended_ns(), None, "its request is outstanding");
        first.end(0);
        first.completed_at(650);
        assert_eq!(ended_ns(), Some(700), "the other requested a longer time");
        second.completed_at(900);
        assert_eq!(ended_ns(), Some(900));
    }
}
