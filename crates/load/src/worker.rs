//! The loop of one worker: start what is due, wait, record what has ended.
//!
//! The same loop runs over every engine. It is the hot path: per request it draws an address,
//! fills a slot, and makes one histogram entry (in [`seatrial_gauge::Recorder::complete`]).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use seatrial_gauge::{InFlight, Operation, Recorder, lock};

use crate::arrival::Arrivals;
use crate::budget::Budget;
use crate::content::WorkerData;
use crate::coordinator::STOP_GRACE_NS;
use crate::engine::{Completion, Engine, Request, batch_max};
use crate::errno::SHORT_TRANSFER;
use crate::sizes::{Access, AccessMix};
use crate::verify::Corruption;

/// Failed requests kept as examples.
pub const ERRORS_MAX: usize = 32;

/// Corrupt blocks kept as examples.
pub const CORRUPTIONS_MAX: usize = 32;

/// Draws before a worker takes it that all blocks it may use are in flight already.
const DRAWS_MAX: u32 = 1_000;

/// A worker with this many errors in a row gives up: the target is gone.
const FAILURES_IN_A_ROW_MAX: u32 = 1_000;

/// Batches are halved while filling one takes longer than this, so that a slow device is reaped
/// one request at a time and its stalls keep exact edges.
const BATCH_FILL_NS_MAX: u64 = 1_000_000;

/// Longest sleep before the stop flag is looked at again.
const NAP_NS: u64 = 50_000_000;

/// One failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorSample {
    /// Index of its kind: of the operation, or of the recorder's kinds.
    pub kind: usize,
    /// Where.
    pub offset_bytes: u64,
    /// How much.
    pub length_bytes: u32,
    /// The kernel's error number; [`SHORT_TRANSFER`] when it moved fewer bytes than requested.
    pub errno: i32,
    /// When.
    pub at_ns: u64,
}

/// The record of a worker; shared, so that a sample can be closed while its worker hangs.
#[derive(Debug)]
pub struct Record {
    /// Latencies, timeline, quiet times, accounting.
    pub recorder: Recorder,
    /// Examples of failed requests.
    pub errors: Vec<ErrorSample>,
    /// All failed requests.
    pub errors_count: u64,
    /// Verified blocks.
    pub checked_blocks: u64,
    /// Blocks that were wrong.
    pub corrupt_blocks: u64,
    /// Examples of them, with their offsets.
    pub corruptions: Vec<(u64, Corruption)>,
    /// Whether the worker stopped because nothing but errors came back.
    pub gave_up: bool,
}

impl Record {
    /// An empty record.
    pub fn new(recorder: Recorder) -> Record {
        Record {
            recorder,
            errors: Vec::new(),
            errors_count: 0,
            checked_blocks: 0,
            corrupt_blocks: 0,
            corruptions: Vec::new(),
            gave_up: false,
        }
    }
}

/// The times and flags that all workers of a sample share.
#[derive(Clone, Debug)]
pub struct SampleControl {
    /// When the sample ends.
    pub end_ns: u64,
    /// Until when requests that are still in flight are waited for.
    pub grace_end_ns: u64,
    /// Ends the sample early.
    pub stop: Arc<AtomicBool>,
}

/// The plan of one worker.
#[derive(Debug)]
pub struct WorkerPlan {
    /// Which requests.
    pub mix: AccessMix,
    /// When.
    pub arrivals: Arrivals,
    /// The data of writes, and its verification.
    pub content: WorkerData,
    /// A sync after this many writes; 0 for none.
    pub sync_every: u64,
    /// What the cell may still do.
    pub budget: Arc<Budget>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    request: Request,
    intended_ns: u64,
}

/// One worker over its engine.
pub struct Worker<E> {
    engine: E,
    plan: WorkerPlan,
    in_flight: Arc<InFlight>,
    record: Arc<Mutex<Record>>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    ended: Vec<Completion>,
    now_ns: u64,
    batch: usize,
    writes_since_sync: u64,
    failures_in_a_row: u32,
    spent: bool,
}

impl<E: Engine> Worker<E> {
    /// A worker with `depth` slots.
    pub fn new(
        engine: E,
        depth: usize,
        plan: WorkerPlan,
        in_flight: Arc<InFlight>,
        record: Arc<Mutex<Record>>,
    ) -> Worker<E> {
        let idle =
            Request { slot: 0, operation: Operation::Read, offset_bytes: 0, length_bytes: 0 };
        Worker {
            now_ns: engine.now_ns(),
            engine,
            plan,
            in_flight,
            record,
            slots: vec![Slot { request: idle, intended_ns: 0 }; depth],
            free: (0..depth).rev().collect(),
            ended: Vec::with_capacity(depth),
            batch: 1,
            writes_since_sync: 0,
            failures_in_a_row: 0,
            spent: false,
        }
    }

    /// Works until the term ends, then waits for what is in flight.
    ///
    /// # Errors
    ///
    /// When the engine itself fails.
    pub fn run(&mut self, control: &SampleControl) -> io::Result<()> {
        // The first requests are due at the sample's start, however late this thread woke.
        self.now_ns = self.in_flight.view().last_end_ns;
        while self.now_ns < control.end_ns && !self.spent && !control.stop.load(Ordering::Relaxed) {
            self.start_due();
            if self.spent {
                break; // a nap of a worker that has nothing more to do would count to the sample
            }
            if self.is_idle() {
                self.sleep(control.end_ns);
            } else {
                self.wait(control.end_ns)?;
            }
        }
        let stopped_ns =
            if control.stop.load(Ordering::Relaxed) { self.now_ns } else { control.end_ns };
        let retired_ns = self.now_ns.min(control.end_ns);
        self.drain(control)?;
        self.in_flight.retire(retired_ns);
        // After all that is timed: of a schedule far above the rate there may be many.
        self.offer_missed(stopped_ns);
        Ok(())
    }

    /// The engine, once the worker has ended.
    pub fn into_engine(self) -> E {
        self.engine
    }

    fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    #[inline]
    fn start_due(&mut self) {
        while let Some(&slot) = self.free.last() {
            if self.plan.sync_every > 0 && self.writes_since_sync >= self.plan.sync_every {
                self.writes_since_sync = 0;
                self.start(Request { slot, ..SYNC }, self.now_ns);
                continue;
            }
            let intended_ns = match self.plan.arrivals.peek_ns() {
                None => self.now_ns,
                Some(due_ns) if due_ns <= self.now_ns => due_ns,
                Some(_) => return,
            };
            if !self.plan.mix.may_start(self.slots.len() - self.free.len()) {
                return;
            }
            let Some(access) = self.draw_admitted() else {
                // Nothing is left to do, or every block that it may use is in flight: then the next
                // completion frees one.
                self.spent |= self.is_idle();
                return;
            };
            let Some(request) = self.next_request(slot, access) else {
                self.spent = true;
                return;
            };
            self.plan.arrivals.began(self.now_ns);
            self.plan.arrivals.pop();
            self.start(request, intended_ns);
        }
    }

    /// The next request; `None` when a limit is reached.
    #[inline]
    fn next_request(&mut self, slot: usize, access: Access) -> Option<Request> {
        let length_bytes = access.length_bytes;
        if !self.plan.budget.take(length_bytes) {
            self.plan.content.give_back(access.offset_bytes, u64::from(length_bytes));
            return None;
        }
        let request = Request {
            slot,
            operation: access.operation,
            offset_bytes: access.offset_bytes,
            length_bytes,
        };
        if access.operation.writes() {
            self.writes_since_sync += 1;
            let buffer = &mut self.engine.buffer(slot)[..length_bytes as usize];
            self.plan.content.prepare(&request, buffer);
        }
        Some(request)
    }

    #[inline]
    fn draw_admitted(&mut self) -> Option<Access> {
        for _ in 0..DRAWS_MAX {
            let access = self.plan.mix.next()?;
            if self.plan.content.admit(access.offset_bytes, u64::from(access.length_bytes)) {
                return Some(access);
            }
        }
        None
    }

    #[inline]
    fn start(&mut self, request: Request, intended_ns: u64) {
        self.free.pop();
        self.slots[request.slot] = Slot { request, intended_ns };
        self.in_flight.offer();
        self.engine.submit(request, &self.in_flight);
    }

    fn sleep(&mut self, end_ns: u64) {
        let due_ns = self.plan.arrivals.peek_ns().unwrap_or(end_ns);
        self.in_flight.sleep_until(due_ns);
        self.engine.sleep_until(due_ns.min(end_ns).min(self.now_ns + NAP_NS));
        self.now_ns = self.engine.now_ns();
    }

    #[inline]
    fn wait(&mut self, end_ns: u64) -> io::Result<()> {
        let next_due_ns = self.plan.arrivals.peek_ns().filter(|_| !self.free.is_empty());
        let until_ns = waits_until_ns(next_due_ns, self.now_ns, end_ns);
        let in_flight = self.slots.len() - self.free.len();
        let began_ns = self.now_ns;
        self.reap(self.batch.min(in_flight), until_ns)?;
        if self.plan.arrivals.peek_ns().is_none() {
            self.adapt_batch(self.now_ns.saturating_sub(began_ns));
        }
        Ok(())
    }

    #[inline]
    fn adapt_batch(&mut self, took_ns: u64) {
        if took_ns > BATCH_FILL_NS_MAX {
            self.batch = (self.batch / 2).max(1);
        } else if self.batch < batch_max(self.slots.len()) {
            self.batch += 1;
        }
    }

    fn reap(&mut self, min_ended: usize, until_ns: u64) -> io::Result<()> {
        self.engine.reap(min_ended, until_ns, &self.in_flight, &mut self.ended)?;
        match self.ended.last() {
            Some(last) => self.now_ns = last.at_ns,
            None => self.now_ns = self.engine.now_ns(),
        }
        self.record_ended();
        Ok(())
    }

    #[inline]
    fn record_ended(&mut self) {
        let mut record = lock(&self.record);
        for completion in self.ended.drain(..) {
            let slot = &self.slots[completion.slot];
            self.free.push(completion.slot);
            let is_own = slot.request.operation != Operation::Sync;
            self.plan.arrivals.ended(completion.at_ns, is_own);
            if completion.result == slot.request.length_bytes as i32 {
                self.failures_in_a_row = 0;
                let moved_bytes = u64::from(slot.request.length_bytes);
                record.recorder.complete(
                    completion.slot,
                    slot.intended_ns,
                    completion.at_ns,
                    moved_bytes,
                );
                if self.plan.content.is_kept() {
                    let length = slot.request.length_bytes as usize;
                    let buffer = &self.engine.buffer(completion.slot)[..length];
                    self.plan.content.settle(&slot.request, buffer, &mut record);
                }
            } else {
                self.failures_in_a_row += 1;
                self.plan.content.abandon(&slot.request);
                note_failure(&mut record, &completion, slot);
            }
        }
        if self.failures_in_a_row >= FAILURES_IN_A_ROW_MAX {
            self.spent = true;
            record.gave_up = true;
        }
    }

    /// Under a schedule, requests whose time came and which were never started are offered all
    /// the same: the accounting calls them late_skipped.
    fn offer_missed(&mut self, until_ns: u64) {
        if self.spent || !self.plan.arrivals.is_open() {
            return;
        }
        self.in_flight.offer_many(self.plan.arrivals.skip_before(until_ns));
    }

    fn drain(&mut self, control: &SampleControl) -> io::Result<()> {
        let mut grace_end_ns = control.grace_end_ns;
        while !self.is_idle() && self.now_ns < grace_end_ns {
            if control.stop.load(Ordering::Relaxed) {
                grace_end_ns = grace_end_ns.min(self.now_ns + STOP_GRACE_NS);
            }
            self.reap(1, grace_end_ns)?;
        }
        Ok(())
    }
}

/// Until when completions are waited for. A request that is due already is held back until another
/// one ends.
#[inline]
fn waits_until_ns(next_due_ns: Option<u64>, now_ns: u64, end_ns: u64) -> u64 {
    next_due_ns.filter(|&due_ns| due_ns > now_ns).map_or(end_ns, |due_ns| due_ns.min(end_ns))
}

const SYNC: Request =
    Request { slot: 0, operation: Operation::Sync, offset_bytes: 0, length_bytes: 0 };

#[cold]
fn note_failure(record: &mut Record, completion: &Completion, slot: &Slot) {
    let request = &slot.request;
    record.recorder.fail(completion.slot, slot.intended_ns, completion.at_ns);
    record.errors_count += 1;
    if record.errors.len() < ERRORS_MAX {
        record.errors.push(ErrorSample {
            kind: request.operation.index(),
            offset_bytes: request.offset_bytes,
            length_bytes: request.length_bytes,
            errno: if completion.result < 0 { -completion.result } else { SHORT_TRANSFER },
            at_ns: completion.at_ns,
        });
    }
}

#[cfg(test)]
mod tests {
    use seatrial_gauge::{RecorderSettings, Timeline};

    use super::*;
    use crate::address::AddressPlan;
    use crate::content::LedgerStore;
    use crate::spec::CellSpec;

    /// A device that never answers, on a virtual clock, while the user interrupts after a second.
    struct HungEngine {
        now_ns: u64,
        stop: Arc<AtomicBool>,
    }

    impl Engine for HungEngine {
        fn now_ns(&self) -> u64 {
            self.now_ns
        }

        fn submit(&mut self, request: Request, in_flight: &InFlight) {
            in_flight.begin(request.slot, request.operation, self.now_ns);
        }

        fn reap(
            &mut self,
            _min_ended: usize,
            until_ns: u64,
            _in_flight: &InFlight,
            _ended: &mut Vec<Completion>,
        ) -> io::Result<()> {
            self.sleep_until(until_ns.min(self.now_ns + NAP_NS));
            Ok(())
        }

        fn sleep_until(&mut self, until_ns: u64) {
            self.now_ns = self.now_ns.max(until_ns);
            self.stop.store(self.now_ns >= 1_000_000_000, Ordering::Relaxed);
        }

        fn buffer(&mut self, _slot: usize) -> &mut [u8] {
            &mut []
        }
    }

    #[test]
    fn a_stopped_worker_of_a_hung_device_counts_what_it_missed_in_time() {
        let spec = CellSpec::parse(
            r#"{"seed": 1, "limit": {"duration_s": 10.0},
                "target": {"kind": "null", "size_bytes": 65536},
                "range": {"start_bytes": 0, "length_bytes": 65536},
                "accesses": [{"operation": "read", "sizes": [{"bytes": 4096}],
                              "align_bytes": 4096, "address": {"kind": "random"}}],
                "arrival": {"kind": "fixed", "rate_per_s": 100.0}}"#,
        )
        .unwrap();
        let plan = WorkerPlan {
            mix: AccessMix::new(&spec, &AddressPlan::new(&spec).unwrap(), 0),
            arrivals: Arrivals::new(&spec.arrival, 0, 1, spec.seed, 0),
            content: LedgerStore::new(&spec).unwrap().content(0),
            sync_every: 0,
            budget: Arc::new(Budget::new(&spec.limit)),
        };
        let in_flight = Arc::new(InFlight::new(1, 0));
        let settings = RecorderSettings {
            start_ns: 0,
            slice_ns: 100_000_000,
            stall_threshold_ns: 50_000_000,
            scheduled: true,
        };
        let timeline = Arc::new(Mutex::new(Timeline::new(settings.slice_ns)));
        let recorder = Recorder::new(settings, in_flight.clone(), timeline);
        let record = Arc::new(Mutex::new(Record::new(recorder)));
        let stop = Arc::new(AtomicBool::new(false));
        let engine = HungEngine { now_ns: 0, stop: stop.clone() };
        let mut worker = Worker::new(engine, 1, plan, in_flight.clone(), record.clone());
        worker
            .run(&SampleControl { end_ns: 10_000_000_000, grace_end_ns: 20_000_000_000, stop })
            .unwrap();
        let now_ns = worker.into_engine().now_ns;
        assert_eq!(now_ns, 1_000_000_000 + STOP_GRACE_NS);
        let outcome = lock(&record).recorder.finish(now_ns).unwrap().outcome;
        assert_eq!((outcome.late_skipped, outcome.in_flight_at_end), (99, 1));
    }

    #[test]
    fn a_worker_whose_request_is_held_back_waits_for_a_completion() {
        assert_eq!(waits_until_ns(Some(70), 50, 90), 70);
        assert_eq!(waits_until_ns(Some(100), 50, 90), 90);
        assert_eq!([Some(50), Some(20), None].map(|due| waits_until_ns(due, 50, 90)), [90; 3]);
    }
}
