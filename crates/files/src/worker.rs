//! The loop of one thread: its flowops again and again, until the sample ends or it is done.

use std::collections::HashMap;
use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rand_xoshiro::Xoshiro256PlusPlus;
use seatrial_gauge::{InFlight, Operation, lock};
use seatrial_load::worker::{ERRORS_MAX, ErrorSample, Record};

use crate::aio::Aio;
use crate::fileset::{FileSet, NoEntry};
use crate::slots::{AlignedBuffer, FileSlot};
use crate::spec::{EndCondition, FilesSpec, Flowop, Step, Verb};
use crate::waits::{EventGenerator, NAP, SampleEnd, Semaphore, WakeUp};

/// A thread that meets this many errors in a row gives up: its files are gone, or its steps do not
/// fit together.
const FAILURES_IN_A_ROW_MAX: u32 = 100;

/// Bytes for one event of `bwlimit`.
const EVENT_BYTES: u64 = 1 << 20;

/// Loops of `hog` between two checks for the end of the sample.
const HOG_CHUNK: u64 = 1 << 20;

/// How often and for how long threads waited in a flowop that is not a request.
#[derive(Debug, Default)]
pub struct WaitTotals {
    /// How often.
    pub count: AtomicU64,
    /// For how long, in sum.
    pub ns: AtomicU64,
}

/// Why a sample ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EndReason {
    /// Its time was over.
    Time = 0,
    /// A thread was done, or all of them, as the workload file says.
    Done = 1,
    /// A thread found no file that it could use.
    OutOfFiles = 2,
    /// As many bytes were written as the plan allows.
    Limit = 3,
}

impl EndReason {
    /// The word used in results.
    pub fn name(self) -> &'static str {
        ["time", "done", "out_of_files", "limit"][self as usize]
    }
}

/// State shared by all threads of a sample.
#[derive(Debug)]
pub struct SharedState {
    /// The workload.
    pub spec: FilesSpec,
    /// Its files.
    pub sets: Vec<FileSet>,
    /// The written data.
    pub data: AlignedBuffer,
    /// When it ends.
    pub sample_end: SampleEnd,
    /// Events, where there are any.
    pub events: Option<EventGenerator>,
    /// By kind, the semaphores of all threads that take posts there.
    pub semaphores: Vec<Vec<Arc<Semaphore>>>,
    /// By kind, the wake-ups of all threads that block there.
    pub wake_ups: Vec<Vec<Arc<WakeUp>>>,
    /// By kind.
    pub waited: Vec<WaitTotals>,
    /// Whole loops, by the number of `spec.threads`.
    pub loops: Vec<AtomicU64>,
    /// Times that a file was cut to its first size because its set had grown by its limit.
    pub cuts: AtomicU64,
    requests: AtomicU64,
    moved_bytes: AtomicU64,
    written_bytes: AtomicU64,
    ended: AtomicU8,
}

impl SharedState {
    /// The state before the start.
    pub fn new(
        spec: FilesSpec,
        sets: Vec<FileSet>,
        data: AlignedBuffer,
        sample_end: SampleEnd,
    ) -> SharedState {
        let kinds = spec.kinds.len();
        SharedState {
            events: spec.events_per_s.filter(|&rate| rate > 0.0).map(EventGenerator::new),
            loops: spec.threads.iter().map(|_| AtomicU64::new(0)).collect(),
            semaphores: vec![Vec::new(); kinds],
            wake_ups: vec![Vec::new(); kinds],
            waited: (0..kinds).map(|_| WaitTotals::default()).collect(),
            cuts: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            moved_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            ended: AtomicU8::new(EndReason::Time as u8),
            spec,
            sets,
            data,
            sample_end,
        }
    }

    /// Counts a request that ended well; ends the sample when enough has been written.
    pub fn count_request(&self, bytes: u64, is_write: bool) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
        if is_write {
            let before = self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
            if before + bytes >= self.spec.limit_bytes {
                self.end(EndReason::Limit);
            }
        }
    }

    /// Ends the sample; the first reason counts.
    pub fn end(&self, why: EndReason) {
        let time = EndReason::Time as u8;
        let (to, order) = (why as u8, Ordering::Relaxed);
        // Another reason came first.
        let _ = self.ended.compare_exchange(time, to, order, order);
        self.sample_end.end();
    }

    /// Why the sample ended.
    pub fn ended(&self) -> EndReason {
        match self.ended.load(Ordering::Relaxed) {
            1 => EndReason::Done,
            2 => EndReason::OutOfFiles,
            3 => EndReason::Limit,
            _ => EndReason::Time,
        }
    }
}

/// How a thread continues after a flowop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    Continue,
    /// It has finished its work.
    Done,
    /// It found no file.
    OutOfFiles,
    /// The sample is over.
    Over,
}

impl From<NoEntry> for NextStep {
    fn from(none: NoEntry) -> NextStep {
        match none {
            NoEntry::Exhausted => NextStep::OutOfFiles,
            NoEntry::Ended => NextStep::Over,
        }
    }
}

/// One thread.
pub(crate) struct Worker {
    pub shared: Arc<SharedState>,
    /// Number of its kind in `spec.threads`.
    pub thread: usize,
    pub in_flight: Arc<InFlight>,
    pub record: Arc<Mutex<Record>>,
    pub rng: Xoshiro256PlusPlus,
    pub slots: Vec<FileSlot>,
    pub buffer: AlignedBuffer,
    pub aio: Option<Aio>,
    pub semaphores: HashMap<usize, Arc<Semaphore>>,
    pub wake_ups: HashMap<usize, Arc<WakeUp>>,
    /// Requests and waits that ended well, by kind.
    pub done: Vec<u64>,
    /// Bytes moved, by kind.
    pub moved_bytes: Vec<u64>,
    /// By kind of a limit: what it has let through.
    pub paid: Vec<u64>,
    /// By kind: the next slot of those that it uses in turn.
    pub turns: Vec<usize>,
    pub failures_in_a_row: u32,
}

impl Worker {
    /// Works until the sample ends or the thread is done.
    pub fn run(&mut self) {
        let shared = self.shared.clone();
        let steps = &shared.spec.threads[self.thread].steps;
        let flow = loop {
            match self.steps(steps) {
                NextStep::Continue => shared.loops[self.thread].fetch_add(1, Ordering::Relaxed),
                other => break other,
            };
            if shared.sample_end.is_over() {
                break NextStep::Over;
            }
        };
        let ends_all = shared.spec.end != EndCondition::AllDone;
        match flow {
            NextStep::Done if ends_all => shared.end(EndReason::Done),
            NextStep::OutOfFiles if shared.spec.end == EndCondition::FirstDone => {
                shared.end(EndReason::Done)
            }
            NextStep::OutOfFiles if ends_all => shared.end(EndReason::OutOfFiles),
            _ => {}
        }
    }

    fn steps(&mut self, steps: &[Step]) -> NextStep {
        for step in steps {
            let flow = match step {
                Step::Group(group) => {
                    let count = group.repeat.draw_whole(&mut self.rng);
                    self.repeated(count, |worker| worker.steps(&group.steps))
                }
                Step::Flowop(flowop) => {
                    let count = flowop.iters.draw_whole(&mut self.rng);
                    self.repeated(count, |worker| worker.flowop(flowop))
                }
            };
            if flow != NextStep::Continue {
                return flow;
            }
        }
        NextStep::Continue
    }

    fn repeated(&mut self, count: u64, mut work: impl FnMut(&mut Worker) -> NextStep) -> NextStep {
        for _ in 0..count {
            if self.shared.sample_end.is_over() {
                return NextStep::Over;
            }
            match work(self) {
                NextStep::Continue => {}
                other => return other,
            }
        }
        NextStep::Continue
    }

    fn flowop(&mut self, flowop: &Flowop) -> NextStep {
        if flowop.verb.operation().is_some() {
            let flow = self.request(flowop);
            if self.failures_in_a_row >= FAILURES_IN_A_ROW_MAX {
                lock(&self.record).gave_up = true;
                return NextStep::Done;
            }
            return flow;
        }
        let shared = self.shared.clone();
        let began_ns = shared.sample_end.clock.now_ns();
        // Nothing is outstanding and nothing is due while a thread waits.
        self.in_flight.sleep_until(u64::MAX);
        let flow = self.wait(flowop);
        let ended_ns = shared.sample_end.clock.now_ns();
        self.in_flight.sleep_until(ended_ns);
        if let Some(flow) = flow {
            let waited = &shared.waited[flowop.kind];
            waited.count.fetch_add(1, Ordering::Relaxed);
            waited.ns.fetch_add(ended_ns.saturating_sub(began_ns), Ordering::Relaxed);
            self.done[flowop.kind] += 1;
            return flow;
        }
        NextStep::Continue
    }

    /// A flowop that is not a request; `None` where it has nothing to do.
    fn wait(&mut self, flowop: &Flowop) -> Option<NextStep> {
        let value = flowop.value.as_ref().map_or(0.0, |value| value.draw(&mut self.rng));
        let shared = self.shared.clone();
        let sample_end = &shared.sample_end;
        let went = match flowop.verb {
            Verb::AioWait => self.waited_for_writes(sample_end),
            Verb::Block => {
                self.wake_ups.get(&flowop.kind).is_none_or(|wake_up| wake_up.wait(sample_end))
            }
            Verb::Wakeup => {
                flowop
                    .targets
                    .iter()
                    .flat_map(|&kind| &shared.wake_ups[kind])
                    .for_each(|b| b.wake());
                true
            }
            Verb::SemBlock => {
                let semaphore = self.semaphores.get(&flowop.kind);
                semaphore.is_none_or(|semaphore| semaphore.take(value as u64, sample_end))
            }
            Verb::SemPost => flowop
                .targets
                .iter()
                .flat_map(|&kind| &shared.semaphores[kind])
                .all(|semaphore| semaphore.post(value as u64, flowop.blocking, sample_end)),
            Verb::Delay => {
                sample_end
                    .sleep_until(sample_end.clock.now_ns().saturating_add((value * 1e9) as u64));
                !sample_end.is_over()
            }
            Verb::Hog => hog(value as u64, sample_end),
            Verb::FinishOnCount => return Some(done_if(self.count_of(flowop) as f64 >= value)),
            Verb::FinishOnBytes => return Some(done_if(self.bytes_of(flowop) as f64 >= value)),
            _ => {
                let events = shared.events.as_ref()?;
                events.take(self.events_due(flowop), sample_end)
            }
        };
        Some(if went { NextStep::Continue } else { NextStep::Over })
    }

    fn waited_for_writes(&self, sample_end: &SampleEnd) -> bool {
        // Bounded: a sample that ends for another reason does not wait for its time.
        let Some(aio) = &self.aio else { return true };
        while !sample_end.is_over() {
            let until_ns = sample_end.clock.now_ns() + NAP.as_nanos() as u64;
            if aio.wait_all(until_ns.min(sample_end.end_ns), sample_end) {
                return true;
            }
        }
        false
    }

    /// Requests of the targets in this thread; of the whole workload without targets.
    fn count_of(&self, flowop: &Flowop) -> u64 {
        if flowop.targets.is_empty() {
            return self.shared.requests.load(Ordering::Relaxed);
        }
        flowop.targets.iter().map(|&kind| self.done[kind]).sum()
    }

    fn bytes_of(&self, flowop: &Flowop) -> u64 {
        if flowop.targets.is_empty() {
            return self.shared.moved_bytes.load(Ordering::Relaxed);
        }
        flowop.targets.iter().map(|&kind| self.moved_bytes[kind]).sum()
    }

    /// Events that a limit takes for the requests of this thread since its last call, so that all
    /// threads together keep the rate.
    fn events_due(&mut self, flowop: &Flowop) -> u64 {
        let shared = self.shared.clone();
        let kinds = &shared.spec.kinds;
        let is_target = |kind: usize| flowop.targets.is_empty() || flowop.targets.contains(&kind);
        let unit = |kind: usize| match flowop.verb {
            Verb::OpsLimit => kinds[kind].verb.operation().is_some(),
            _ => kinds[kind].verb.moves_data(),
        };
        let chosen = (0..kinds.len()).filter(|&kind| is_target(kind) && unit(kind));
        let paid = self.paid[flowop.kind];
        let (events, paid_now) = match flowop.verb {
            Verb::EventLimit => (1, paid),
            Verb::BwLimit => {
                let bytes: u64 = chosen.map(|kind| self.moved_bytes[kind]).sum();
                let events = bytes.saturating_sub(paid).div_ceil(EVENT_BYTES);
                (events, paid + events * EVENT_BYTES)
            }
            _ => {
                let count: u64 = chosen.map(|kind| self.done[kind]).sum();
                (count.saturating_sub(paid), count)
            }
        };
        self.paid[flowop.kind] = paid_now;
        events
    }

    /// One request: timed, counted, and recorded as failed where it fails. `None` then.
    pub fn timed<T>(
        &mut self,
        flowop: &Flowop,
        work: impl FnOnce(&mut Worker) -> io::Result<(u64, T)>,
    ) -> Option<T> {
        let operation = flowop.verb.operation()?;
        let clock = self.shared.sample_end.clock;
        self.in_flight.offer();
        self.in_flight.begin(0, operation, clock.now_ns());
        let outcome = work(self);
        let at_ns = clock.now_ns();
        let mut record = lock(&self.record);
        match outcome {
            Ok((bytes, value)) => {
                record.recorder.complete_as(flowop.kind, 0, at_ns, bytes);
                drop(record);
                self.failures_in_a_row = 0;
                self.done[flowop.kind] += 1;
                self.moved_bytes[flowop.kind] += bytes;
                self.shared.count_request(bytes, operation == Operation::Write);
                Some(value)
            }
            Err(error) => {
                note_failure(&mut record, flowop.kind, 0, at_ns, &error);
                self.failures_in_a_row += 1;
                None
            }
        }
    }
}

/// Records a failed request.
pub(crate) fn note_failure(
    record: &mut Record,
    kind: usize,
    slot: usize,
    at_ns: u64,
    error: &io::Error,
) {
    record.recorder.fail_as(kind, slot, at_ns);
    record.errors_count += 1;
    if record.errors.len() < ERRORS_MAX {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        record.errors.push(ErrorSample { kind, offset_bytes: 0, length_bytes: 0, errno, at_ns });
    }
}

fn done_if(is_done: bool) -> NextStep {
    if is_done { NextStep::Done } else { NextStep::Continue }
}

/// Uses the processor for the given number of loops, each of which writes to memory.
fn hog(loops: u64, sample_end: &SampleEnd) -> bool {
    let mut cell = 0u8;
    for first in (0..loops).step_by(HOG_CHUNK as usize) {
        for _ in first..loops.min(first + HOG_CHUNK) {
            *black_box(&mut cell) = 1;
        }
        if sample_end.is_over() {
            return false;
        }
    }
    true
}
