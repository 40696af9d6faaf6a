//! One cell under way: workers, watchdog, and the one who waits for them.
//!
//! The coordinator prepares every worker, gives them one start and one end, and closes the sample
//! when they are done. A worker that never comes back from the kernel is left behind: its record is
//! shared, so the sample is closed without it and says what is still in flight.

use std::io;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use seatrial_gauge::user_error::{ErrorClass, UserError};
use seatrial_gauge::{
    AccountingError, Clock, InFlight, Operation, Recorder, RecorderSettings, Timeline,
};

use crate::address::AddressPlan;
use crate::arrival::Arrivals;
use crate::budget::Budget;
use crate::buffers::Buffers;
use crate::choice::{EngineSelection, KernelEngine};
use crate::content::{LedgerStore, LedgerStoreError};
use crate::coordinator::{
    GRACE_NS, WatchdogThread, WorkerHandle, await_endings, await_start, close, counters,
    ended_early, fine_timer, same_moment, take_rows,
};
use crate::listed::{self, ListEntry};
use crate::live::Live;
use crate::procfs;
use crate::psync::PsyncEngine;
use crate::running::Running;
use crate::sample::{EngineReport, Sample, SampleFrame, WorkerSums};
use crate::sim;
use crate::sizes::AccessMix;
use crate::spec::{ArrivalSpec, CellSpec, SpecError, TargetKind};
use crate::target::{OpenError, Target};
use crate::uring::{UringEngine, open_ring};
use crate::watchdog::WatchdogTargets;
use crate::worker::{Record, SampleControl, Worker, WorkerPlan};

/// Why a cell could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The specification makes no sense.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The ledger of verifiable data cannot be kept.
    #[error(transparent)]
    LedgerStore(#[from] LedgerStoreError),
    /// The target cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The engine failed.
    #[error("the {engine} engine failed: {source}")]
    Engine {
        /// Which engine.
        engine: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The buffers would not fit into memory.
    #[error(
        "{needed_bytes} bytes of buffers (threads x depth x largest block) would not fit into \
         the {available_bytes} bytes of memory that are available"
    )]
    Memory {
        /// What the cell takes.
        needed_bytes: u64,
        /// What there is.
        available_bytes: u64,
    },
    /// A defect of Seatrial.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    /// The simulated device's model makes no sense.
    #[error("target.model: {0}")]
    Model(String),
}

impl TrialError {
    /// Returns it as a user reads it.
    pub fn explained(&self) -> UserError {
        let seen = self.to_string();
        match self {
            TrialError::Spec(_) | TrialError::Model(_) | TrialError::LedgerStore(_) => {
                UserError::usage(
                    format!("The engine refused the cell: {seen}"),
                    "The study's parameters make no sense on this target",
                    "Check the test with --plan, and its key in docs/study-file.md",
                )
            }
            TrialError::Open(_) => UserError::new(
                ErrorClass::Target,
                seen,
                "The target is missing, may not be opened, or does not support O_DIRECT",
                "Check it with `seatrial check`, or measure with --buffered",
            ),
            TrialError::Engine { source, .. } if source.raw_os_error() == Some(libc::EMFILE) => {
                UserError::new(
                    ErrorClass::System,
                    seen,
                    "The limit of open files (RLIMIT_NOFILE) is reached; each io_uring thread \
                     needs one",
                    "Raise it with `ulimit -n`, use fewer threads, or --engine psync",
                )
            }
            TrialError::Engine { engine: THREADS, .. } => UserError::new(
                ErrorClass::System,
                seen,
                "A limit of processes and threads of this user, container or service",
                "Raise it (`ulimit -u`, pids.max, TasksMax=), or use fewer threads",
            ),
            TrialError::Engine { .. } => UserError::new(
                ErrorClass::System,
                seen,
                "A limit of this session (threads, locked memory, memory) or of the kernel",
                "Try fewer threads or --engine psync; `seatrial check` names what is limited",
            ),
            TrialError::Memory { .. } => UserError::usage(
                seen,
                "Every request in flight has its own buffer",
                "Use fewer threads, less depth or smaller blocks",
            ),
            TrialError::Accounting(_) => UserError::defect(seen),
        }
    }
}

/// A cell under way.
pub type Trial = Running<Result<Sample, TrialError>>;

/// Starts a cell in background threads.
///
/// # Errors
///
/// [`TrialError`] when the cell makes no sense on this target, the target cannot be opened or no
/// thread can be started.
pub fn start(spec: CellSpec) -> Result<Trial, TrialError> {
    let setup = match spec.target.kind {
        TargetKind::Simulated => None,
        _ => {
            let target = Target::open(&spec)?;
            let selection = EngineSelection::for_spec(&spec, &target)?;
            Some((WorkerSetup::gather(spec.clone(), target, &selection)?, selection.report))
        }
    };
    let work = move |stop: &Arc<AtomicBool>, live: &Arc<Live>| match setup {
        None => sim::measure(&spec, stop),
        Some((setup, report)) => measure(setup, report, stop, live),
    };
    let panicked = |source| Err(TrialError::Engine { engine: "coordinating", source });
    Running::of(work, panicked).map_err(thread_failed)
}

/// What failed if no thread could be made.
const THREADS: &str = "threads";

fn thread_failed(source: io::Error) -> TrialError {
    TrialError::Engine { engine: THREADS, source }
}

/// The setup of every worker thread.
struct WorkerSetup {
    spec: CellSpec,
    clock: Clock,
    target: Target,
    kernel_engine: KernelEngine,
    plan: AddressPlan,
    ledger_store: LedgerStore,
    writes: bool,
    reads_apart: bool,
    budget: Arc<Budget>,
    list: Option<Arc<[ListEntry]>>,
    workers: u32,
    depth: usize,
}

/// What a worker receives when all are ready.
struct StartSignal {
    in_flight: Arc<InFlight>,
    record: Arc<Mutex<Record>>,
    start_ns: u64,
    control: SampleControl,
}

/// A worker that is ready for its start.
struct ReadyWorker {
    thread: i32,
    start: Sender<StartSignal>,
    /// What the engine had to do without.
    lack: Option<&'static str>,
}

fn measure(
    setup: WorkerSetup,
    report: EngineReport,
    stop: &Arc<AtomicBool>,
    live: &Live,
) -> Result<Sample, TrialError> {
    require_memory(&setup)?;
    let setup = Arc::new(setup);
    let (ready_workers, endings) = setup.prepare()?;
    let report = report.lacking(ready_workers.iter().find_map(|ready| ready.lack));
    setup.ledger_store.open()?;
    let timeline = Arc::new(Mutex::new(Timeline::new(setup.spec.slice_ms * 1_000_000)));
    let late_ns = setup.spec.start_at_ns.map(|at_ns| await_start(at_ns, stop));
    let processor_before_ns = procfs::processor_ns();
    let (start_ns, started_unix_s) = same_moment(&setup.clock);
    let end_ns = start_ns + (setup.spec.limit.duration_s * 1e9) as u64;
    let grace_end_ns = end_ns + GRACE_NS;
    let control = SampleControl { end_ns, grace_end_ns, stop: stop.clone() };
    let handles = setup.send_off(ready_workers, start_ns, &control, &timeline);
    let watch = WatchdogThread::begin(setup.clock, setup.targets(&handles, start_ns));
    let unrated = setup.spec.has_syncs().then_some(Operation::Sync.index());
    live.begin(setup.clock, start_ns, timeline.clone(), unrated, watch.status.clone());
    let failure = await_endings(&setup.clock, &endings, handles.len(), grace_end_ns, stop);
    let observations = watch.end();
    live.end();
    let saved = setup.ledger_store.save();
    if let Some(error) = failure {
        return Err(setup.engine_failed(Some(error)));
    }
    let (sums, measured_end_ns, oldest_in_flight_ns) =
        close(&setup.clock, &handles, WorkerSums::default(), start_ns)?;
    saved?;
    let threshold_ns = setup.spec.stall_threshold_ms * 1_000_000;
    let stalls = sums.stalls(measured_end_ns, threshold_ns, |stall| observations.evidence(stall));
    let (slice_ns, slices) = take_rows(&timeline);
    Ok(sums.into_sample(SampleFrame {
        engine: report,
        start_ns,
        started_unix_s,
        duration_ns: measured_end_ns - start_ns,
        interrupted: stop.load(Ordering::Relaxed) && measured_end_ns < end_ns,
        slice_ns,
        slices,
        stalls,
        oldest_in_flight_ns,
        counters: counters(processor_before_ns, &observations)
            .into_iter()
            .chain(late_ns.map(|late_ns| ("start_lateness_ns", late_ns as f64)))
            .collect(),
        checked: setup.ledger_store.is_checked(),
    }))
}

impl WorkerSetup {
    fn gather(
        spec: CellSpec,
        target: Target,
        selection: &EngineSelection,
    ) -> Result<WorkerSetup, TrialError> {
        let mut spec = spec;
        spec.threads = selection.workers;
        let plan = AddressPlan::new(&spec)?;
        Ok(WorkerSetup {
            clock: procfs::process_clock(),
            target,
            kernel_engine: selection.kernel_engine,
            plan,
            ledger_store: LedgerStore::new(&spec)?,
            writes: spec.accesses.iter().any(|access| access.operation.writes()),
            reads_apart: reads_apart(&spec),
            budget: Arc::new(Budget::new(&spec.limit)),
            list: spec.list.as_ref().map(|list| listed::read(&list.path, &spec)).transpose()?,
            workers: selection.workers,
            depth: selection.depth,
            spec,
        })
    }

    /// Starts all worker threads and waits until each is ready for its start.
    fn prepare(
        self: &Arc<WorkerSetup>,
    ) -> Result<(Vec<ReadyWorker>, Receiver<io::Result<()>>), TrialError> {
        let (ready_sender, ready_receiver) = mpsc::channel();
        let (ending_sender, endings) = mpsc::channel();
        for worker in 0..self.workers {
            let (setup, ready, ending) =
                (self.clone(), ready_sender.clone(), ending_sender.clone());
            let body = move || {
                let outcome = setup.work(worker, ready);
                // The receiver may be gone already.
                let _ = ending.send(outcome);
            };
            let named = thread::Builder::new().name(format!("worker-{worker}"));
            named.spawn(body).map_err(thread_failed)?;
        }
        drop((ready_sender, ending_sender));
        let mut workers = Vec::new();
        while workers.len() < self.workers as usize {
            match ready_receiver.recv() {
                Ok(ready) => workers.push(ready),
                Err(_) => {
                    let first = endings.iter().find_map(Result::err);
                    return Err(self.engine_failed(first));
                }
            }
        }
        Ok((workers, endings))
    }

    fn engine_failed(&self, source: Option<io::Error>) -> TrialError {
        let source = source.unwrap_or_else(ended_early);
        TrialError::Engine { engine: self.kernel_engine.name(), source }
    }

    /// The life of one worker thread.
    fn work(&self, worker: u32, ready: Sender<ReadyWorker>) -> io::Result<()> {
        fine_timer();
        let map = if self.reads_apart { Buffers::map_apart } else { Buffers::map };
        let buffers = map(self.depth, largest_bytes(&self.spec) as usize)?;
        match self.kernel_engine {
            KernelEngine::Psync => {
                let engine =
                    PsyncEngine::new(self.clock, &self.target, self.spec.sync_kind, buffers);
                self.serve(worker, engine, None, ready)
            }
            KernelEngine::Uring => {
                let mut ring = open_ring(self.depth, self.spec.iopoll)?;
                let engine = UringEngine::new(
                    self.clock,
                    &mut ring,
                    &self.target,
                    self.spec.sync_kind,
                    buffers,
                )?;
                let lack = (!engine.buffers_registered())
                    .then_some("buffers could not be registered (ulimit -l is too low)");
                self.serve(worker, engine, lack, ready)
            }
        }
    }

    fn serve<E: crate::engine::Engine>(
        &self,
        worker: u32,
        mut engine: E,
        lack: Option<&'static str>,
        ready: Sender<ReadyWorker>,
    ) -> io::Result<()> {
        let mut content = self.ledger_store.content(worker);
        for slot in (0..self.depth).filter(|_| self.writes) {
            content.fill(engine.buffer(slot));
        }
        let mix = AccessMix::new(&self.spec, &self.plan, worker);
        let mix = match &self.list {
            Some(list) => mix.with_list(list.clone()),
            None => mix,
        };
        let (start, started) = mpsc::channel();
        let this = ReadyWorker { thread: procfs::this_thread(), start, lack };
        let announced = ready.send(this).is_ok();
        // While any sender lives, the coordinator waits for those that are not ready yet.
        drop(ready);
        let Some(go) = announced.then(|| started.recv().ok()).flatten() else { return Ok(()) };
        let stream = self.spec.streams.get(self.spec.place_of(worker).0);
        let plan = WorkerPlan {
            mix,
            arrivals: self.arrivals(worker, go.start_ns),
            content,
            sync_every: stream.map_or(self.spec.sync_every, |stream| stream.sync_every),
            budget: self.budget.clone(),
        };
        let depth = stream.map_or(self.depth, |stream| stream.depth as usize);
        let worker = Worker::new(engine, depth, plan, go.in_flight.clone(), go.record);
        // The kernel owns the buffers of requests that have not ended: they are freed only when
        // none is left, and never where a panic ends the worker.
        let mut worker = ManuallyDrop::new(worker);
        let outcome = worker.run(&go.control);
        if let Some(run_delay_ns) = procfs::run_delay_ns(procfs::this_thread()) {
            go.in_flight.leave_run_delay(run_delay_ns);
        }
        if go.in_flight.view().depth() == 0 {
            drop(ManuallyDrop::into_inner(worker));
        }
        outcome
    }

    fn arrivals(&self, worker: u32, start_ns: u64) -> Arrivals {
        match (&self.list, &self.spec.arrival) {
            (Some(list), ArrivalSpec::Listed {}) => Arrivals::of_list(list.clone(), start_ns),
            _ => Arrivals::of_worker(&self.spec, worker, start_ns),
        }
    }

    fn send_off(
        &self,
        workers: Vec<ReadyWorker>,
        start_ns: u64,
        control: &SampleControl,
        timeline: &Arc<Mutex<Timeline>>,
    ) -> Vec<WorkerHandle> {
        let settings = RecorderSettings {
            start_ns,
            slice_ns: self.spec.slice_ms * 1_000_000,
            stall_threshold_ns: self.spec.stall_threshold_ms * 1_000_000,
            scheduled: !matches!(self.spec.arrival, ArrivalSpec::Closed {}),
        };
        let mut handles = Vec::new();
        for ready in workers {
            let in_flight = Arc::new(InFlight::new(self.depth, start_ns));
            let recorder = Recorder::new(settings, in_flight.clone(), timeline.clone());
            let record = Arc::new(Mutex::new(Record::new(recorder)));
            let (hand_flight, hand_record) = (in_flight.clone(), record.clone());
            // A worker that has died meanwhile is reported by its ending.
            let _ = ready.start.send(StartSignal {
                in_flight,
                record,
                start_ns,
                control: control.clone(),
            });
            handles.push(WorkerHandle {
                in_flight: hand_flight,
                record: hand_record,
                thread: ready.thread,
            });
        }
        handles
    }

    fn targets(&self, handles: &[WorkerHandle], start_ns: u64) -> WatchdogTargets {
        let device = self.spec.target.device.clone().or_else(|| self.target.device());
        WatchdogTargets {
            workers: handles
                .iter()
                .map(|handle| (handle.in_flight.clone(), handle.thread))
                .collect(),
            device: device.filter(|_| !self.target.is_null()),
            uses_ring: self.kernel_engine == KernelEngine::Uring,
            start_ns,
            ended: Arc::new(AtomicBool::new(false)),
            stall_threshold_ns: self.spec.stall_threshold_ms * 1_000_000,
            status: Arc::default(),
        }
    }
}

fn largest_bytes(spec: &CellSpec) -> u64 {
    spec.accesses.iter().map(|access| access.size_bytes_max()).max().unwrap_or(0)
}

/// Where data are both read and written, buffers are apart; but verifiable data are made anew for
/// each write.
fn reads_apart(spec: &CellSpec) -> bool {
    let moves = |operations: [Operation; 2]| {
        spec.accesses.iter().any(|access| operations.contains(&access.operation))
    };
    let reads = moves([Operation::Read, Operation::Copy]);
    reads && moves([Operation::Write, Operation::Commit]) && !spec.is_verifiable()
}

/// Buffers are mapped and populated before the start: too many would summon the OOM killer.
fn require_memory(setup: &WorkerSetup) -> Result<(), TrialError> {
    let per_slot = if setup.reads_apart { 2 } else { 1 };
    let slots = u64::from(setup.workers) * setup.depth as u64 * per_slot;
    let needed_bytes = slots.saturating_mul(largest_bytes(&setup.spec).next_multiple_of(4096));
    match procfs::memory_available_bytes() {
        Some(available_bytes) if needed_bytes > available_bytes / 2 => {
            Err(TrialError::Memory { needed_bytes, available_bytes })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every engine needs them.
    #[test]
    fn for_a_lack_of_threads_no_other_engine_is_advised() {
        let error = thread_failed(io::Error::from_raw_os_error(libc::EAGAIN)).explained();
        assert!(!error.next_step.contains("psync"), "{}", error.next_step);
    }
}
