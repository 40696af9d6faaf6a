//! One sample of a workload of files: makes the sets, starts the threads, closes the sample.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use rand_xoshiro::rand_core::Rng;
use seatrial_gauge::user_error::{ErrorClass, UserError};
use seatrial_gauge::{AccountingError, InFlight, Recorder, RecorderSettings, Timeline};
use seatrial_load::coordinator::{
    GRACE_NS, WatchdogThread, WorkerHandle, await_endings, close, counters, ended_early,
    fine_timer, same_moment, take_rows,
};
use seatrial_load::live::Live;
use seatrial_load::procfs;
use seatrial_load::rng::stream;
use seatrial_load::running::Running;
use seatrial_load::sample::{EngineReport, Sample, SampleFrame, WorkerSums};
use seatrial_load::watchdog::WatchdogTargets;
use seatrial_load::worker::Record;

use crate::aio::Aio;
use crate::fileset::FileSet;
use crate::make::{PreparedFiles, drop_cached, make, settle};
use crate::slots::{AlignedBuffer, FileSlot};
use crate::spec::{AIO_DEPTH_MAX, FilesSpec, SpecError, Step, ThreadSpec, Verb};
use crate::waits::{SampleEnd, Semaphore, WakeUp};
use crate::worker::{EndReason, SharedState, Worker};

/// Data that writes share.
const DATA_BYTES: usize = 16 << 20;

/// Why a sample could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The specification makes no sense.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The files could not be made.
    #[error("{folder}: the files of the workload could not be made: {source}")]
    Make {
        /// In which folder.
        folder: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The threads could not be started.
    #[error("the threads of the workload could not be started: {0}")]
    Threads(io::Error),
    /// The buffers would not fit into memory.
    #[error(
        "{needed_bytes} bytes of buffers (threads x largest transfer) would not fit into the \
         {available_bytes} bytes of memory that are available"
    )]
    Memory {
        /// What the threads take.
        needed_bytes: u64,
        /// What there is.
        available_bytes: u64,
    },
    /// It was stopped before it began.
    #[error("the workload was stopped while its files were made")]
    Stopped,
    /// A defect of Seatrial.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
}

impl FilesError {
    /// Returns it as a user reads it.
    pub fn explained(&self) -> UserError {
        let seen = self.to_string();
        match self {
            FilesError::Spec(_) => UserError::usage(
                format!("The engine refused the workload: {seen}"),
                "A number of the workload file is out of the range that can be handled",
                "Check it with --plan, and see docs/filebench.md",
            ),
            FilesError::Make { source, .. } if is_full(source) => UserError::new(
                ErrorClass::Space,
                seen,
                "The file system is full, has no inodes left, or a quota is exhausted",
                "Use fewer or smaller files: --set nfiles=1000, for example",
            ),
            FilesError::Make { .. } => UserError::new(
                ErrorClass::Target,
                seen,
                "The file system or its device is failing, or limits the size of files",
                "Check `dmesg`, and the space with `df`",
            ),
            FilesError::Threads(_) => UserError::new(
                ErrorClass::System,
                seen,
                "A limit of this session (threads, memory)",
                "Use fewer threads: --set nthreads=10, for example",
            ),
            FilesError::Memory { .. } => UserError::usage(
                seen,
                "Every thread has a buffer for what it reads",
                "Use fewer threads, or smaller transfers: --set iosize=64k, for example",
            ),
            FilesError::Stopped => UserError::usage(seen, "It was interrupted", "Start it again"),
            FilesError::Accounting(_) => UserError::defect(seen),
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// How often and for how long threads waited in a flowop that is not a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitSummary {
    /// Name of the flowop.
    pub name: String,
    /// How often.
    pub count: u64,
    /// For how long, in sum.
    pub ns: u64,
}

/// The part of a sample that only workloads of files have.
#[derive(Debug)]
pub struct FilesPart {
    /// What was made before.
    pub made: PreparedFiles,
    /// How long that took, with waiting for the device.
    pub made_ns: u64,
    /// Whole loops of equal threads, by their name.
    pub loops: Vec<(String, u64)>,
    /// Waits by flowop.
    pub waited: Vec<WaitSummary>,
    /// Why the sample ended.
    pub ended: EndReason,
    /// Events taken and due; `None` without a rate.
    pub events: Option<(u64, u64)>,
    /// Times that a file was cut to its first size because its set had grown by its limit.
    pub cuts: u64,
}

/// A sample under way.
pub type FilesTrial = Running<Result<(Sample, FilesPart), FilesError>>;

/// Starts a sample in background threads.
///
/// # Errors
///
/// [`FilesError`] when the specification makes no sense or no thread can be started.
pub fn start(spec: FilesSpec) -> Result<FilesTrial, FilesError> {
    let seed = spec.set_seed;
    let set = |set: &crate::spec::SetSpec| FileSet::new(set.clone(), &spec.folder, seed);
    let sets = spec.sets.iter().map(set).collect::<Result<Vec<_>, _>>()?;
    require_memory(&spec)?;
    let work = move |stop: &Arc<AtomicBool>, live: &Arc<Live>| measure(spec, sets, stop, live);
    Running::of(work, |source| Err(FilesError::Threads(source))).map_err(FilesError::Threads)
}

fn measure(
    spec: FilesSpec,
    sets: Vec<FileSet>,
    stop: &Arc<AtomicBool>,
    live: &Live,
) -> Result<(Sample, FilesPart), FilesError> {
    let clock = procfs::process_clock();
    let data = shared_data(&spec);
    let began_ns = clock.now_ns();
    let made = prepare(&spec, &sets, data.all(), stop)?;
    let made_ns = clock.now_ns() - began_ns;
    if stop.load(Ordering::Relaxed) {
        return Err(FilesError::Stopped);
    }
    let slice_ns = spec.slice_ms.max(1) * 1_000_000;
    let timeline = Arc::new(Mutex::new(Timeline::new(slice_ns)));
    let processor_before_ns = procfs::processor_ns();
    // Threads are started first, and wait for this moment.
    let sample_end = SampleEnd {
        clock,
        start_ns: 0,
        end_ns: (spec.duration_s * 1e9) as u64,
        over: AtomicBool::new(false),
        stop: stop.clone(),
    };
    let threads = StartedThreads::start(spec, sets, data, sample_end, &timeline)?;
    let (shared, handles) = (&threads.shared, &threads.handles);
    let (start_ns, end_ns) = (shared.sample_end.start_ns, shared.sample_end.end_ns);
    let threshold_ns = shared.spec.stall_threshold_ms * 1_000_000;
    let watch = WatchdogThread::begin(clock, targets(shared, handles, start_ns, threshold_ns));
    live.begin(clock, start_ns, timeline.clone(), None, watch.status.clone());
    let failure = await_endings(&clock, &threads.endings, handles.len(), end_ns + GRACE_NS, stop);
    shared.sample_end.end();
    let observations = watch.end();
    live.end();
    if let Some(error) = failure {
        return Err(FilesError::Threads(error));
    }
    let names = shared.spec.kinds.iter().map(|kind| kind.name.clone()).collect();
    let sums = WorkerSums::of_kinds(names);
    let (sums, measured_end_ns, oldest_in_flight_ns) = close(&clock, handles, sums, start_ns)?;
    let stalls = sums.stalls(measured_end_ns, threshold_ns, |stall| observations.evidence(stall));
    let (slice_ns, slices) = take_rows(&timeline);
    let sample = sums.into_sample(SampleFrame {
        engine: EngineReport { name: "files", reason: "the requests are calls on files".into() },
        start_ns,
        started_unix_s: threads.started_unix_s,
        duration_ns: measured_end_ns - start_ns,
        interrupted: stop.load(Ordering::Relaxed) && measured_end_ns < end_ns,
        slice_ns,
        slices,
        stalls,
        oldest_in_flight_ns,
        counters: counters(processor_before_ns, &observations),
        checked: false,
    });
    let part = part_of(shared, made, made_ns, measured_end_ns - start_ns);
    Ok((sample, part))
}

fn part_of(shared: &SharedState, made: PreparedFiles, made_ns: u64, elapsed_ns: u64) -> FilesPart {
    let loops = shared.spec.threads.iter().zip(&shared.loops);
    let waited = shared.spec.kinds.iter().zip(&shared.waited).map(|(kind, waited)| WaitSummary {
        name: kind.name.clone(),
        count: waited.count.load(Ordering::Relaxed),
        ns: waited.ns.load(Ordering::Relaxed),
    });
    FilesPart {
        made,
        made_ns,
        loops: loops
            .map(|(thread, count)| (thread.name.clone(), count.load(Ordering::Relaxed)))
            .collect(),
        waited: waited.filter(|waited| waited.count > 0).collect(),
        ended: shared.ended(),
        events: shared.events.as_ref().map(|events| events.counts(elapsed_ns)),
        cuts: shared.cuts.load(Ordering::Relaxed),
    }
}

/// Makes the sets unless they are there, and waits until they are on their device.
fn prepare(
    spec: &FilesSpec,
    sets: &[FileSet],
    data: &[u8],
    stop: &AtomicBool,
) -> Result<PreparedFiles, FilesError> {
    let failed = |source| FilesError::Make { folder: spec.folder.display().to_string(), source };
    let made =
        if spec.make { make(sets, data, stop).map_err(failed)? } else { PreparedFiles::default() };
    if !stop.load(Ordering::Relaxed) {
        settle(&spec.folder).map_err(failed)?;
        let mut cold = sets.iter().filter(|set| spec.cold || set.spec.cold);
        cold.try_for_each(drop_cached).map_err(failed)?;
    }
    Ok(made)
}

fn shared_data(spec: &FilesSpec) -> AlignedBuffer {
    let largest = largest_bytes(spec, &|_| true) as usize;
    let mut data = AlignedBuffer::of(DATA_BYTES.max(largest + (1 << 20)));
    let mut rng = stream(spec.seed, "data", 0);
    for word in data.all_mut().chunks_exact_mut(8) {
        word.copy_from_slice(&rng.next_u64().to_le_bytes());
    }
    data
}

/// The largest transfer of those threads.
fn largest_bytes(spec: &FilesSpec, of: &dyn Fn(&ThreadSpec) -> bool) -> u64 {
    let mut largest: f64 = 0.0;
    for thread in spec.threads.iter().filter(|thread| of(thread)) {
        each_flowop(&thread.steps, &mut |flowop| {
            let bytes = flowop.io_bytes.as_ref().map_or(0.0, crate::draw::NumberSpec::largest);
            largest = largest.max(bytes);
        });
    }
    (largest as u64).min(crate::spec::IO_BYTES_MAX)
}

fn each_flowop(steps: &[Step], visit: &mut dyn FnMut(&crate::spec::Flowop)) {
    for step in steps {
        match step {
            Step::Group(group) => each_flowop(&group.steps, visit),
            Step::Flowop(flowop) => visit(flowop),
        }
    }
}

fn require_memory(spec: &FilesSpec) -> Result<(), FilesError> {
    let of_threads = spec.threads.iter().map(|thread| {
        let is_thread = |other: &ThreadSpec| std::ptr::eq(other, thread);
        largest_bytes(spec, &is_thread).saturating_mul(thread.instances)
    });
    let needed_bytes = of_threads.fold(DATA_BYTES as u64, u64::saturating_add);
    match procfs::memory_available_bytes() {
        Some(available_bytes) if needed_bytes > available_bytes / 2 => {
            Err(FilesError::Memory { needed_bytes, available_bytes })
        }
        _ => Ok(()),
    }
}

/// The started threads.
struct StartedThreads {
    shared: Arc<SharedState>,
    handles: Vec<WorkerHandle>,
    endings: Receiver<io::Result<()>>,
    started_unix_s: f64,
}

/// The setup of a thread.
struct ThreadSetup {
    thread: usize,
    number: u64,
    semaphores: HashMap<usize, Arc<Semaphore>>,
    wake_ups: HashMap<usize, Arc<WakeUp>>,
    writes_later: bool,
}

/// What a thread receives when all are ready.
struct StartSignal {
    shared: Arc<SharedState>,
    in_flight: Arc<InFlight>,
    record: Arc<Mutex<Record>>,
}

impl StartedThreads {
    /// Starts all threads; they work from a moment on that is the same for all, from which the
    /// term counts.
    fn start(
        spec: FilesSpec,
        sets: Vec<FileSet>,
        data: AlignedBuffer,
        mut sample_end: SampleEnd,
        timeline: &Arc<Mutex<Timeline>>,
    ) -> Result<StartedThreads, FilesError> {
        let mut semaphores = vec![Vec::new(); spec.kinds.len()];
        let mut wake_ups = vec![Vec::new(); spec.kinds.len()];
        let (ending_sender, endings) = mpsc::channel();
        let (ready_sender, readies) = mpsc::channel();
        for setup in thread_setups(&spec, &mut semaphores, &mut wake_ups) {
            let (ending, ready) = (ending_sender.clone(), ready_sender.clone());
            let body = move || {
                let outcome = run_thread(setup, &ready);
                // The receiver may be gone already.
                let _ = ending.send(outcome);
            };
            let named = thread::Builder::new().name("worker".into());
            named.spawn(body).map_err(FilesError::Threads)?;
        }
        drop((ending_sender, ready_sender));
        let threads = spec.threads_count() as usize;
        let ready: Vec<(i32, bool, Sender<StartSignal>)> = readies.iter().take(threads).collect();
        if ready.len() < threads {
            return Err(FilesError::Threads(ended_early()));
        }
        let (start_ns, started_unix_s) = same_moment(&sample_end.clock);
        sample_end.start_ns = start_ns;
        sample_end.end_ns = sample_end.end_ns.saturating_add(start_ns);
        let mut shared = SharedState::new(spec, sets, data, sample_end);
        (shared.semaphores, shared.wake_ups) = (semaphores, wake_ups);
        let shared = Arc::new(shared);
        let handles = send_off(&shared, ready, timeline);
        Ok(StartedThreads { shared, handles, endings, started_unix_s })
    }
}

fn send_off(
    shared: &Arc<SharedState>,
    ready: Vec<(i32, bool, Sender<StartSignal>)>,
    timeline: &Arc<Mutex<Timeline>>,
) -> Vec<WorkerHandle> {
    let settings = RecorderSettings {
        start_ns: shared.sample_end.start_ns,
        slice_ns: shared.spec.slice_ms.max(1) * 1_000_000,
        stall_threshold_ns: shared.spec.stall_threshold_ms * 1_000_000,
        scheduled: false,
    };
    let kinds = shared.spec.kinds.len();
    let mut handles = Vec::new();
    for (thread, writes_later, go) in ready {
        let depth = if writes_later { 1 + AIO_DEPTH_MAX } else { 1 };
        let in_flight = Arc::new(InFlight::new(depth, settings.start_ns));
        let recorder = Recorder::with_kinds(settings, in_flight.clone(), timeline.clone(), kinds);
        let record = Arc::new(Mutex::new(Record::new(recorder)));
        handles.push(WorkerHandle { in_flight: in_flight.clone(), record: record.clone(), thread });
        // A thread that has died meanwhile is reported by its ending.
        let _ = go.send(StartSignal { shared: shared.clone(), in_flight, record });
    }
    handles
}

/// The setups of all threads, each with its own semaphores and wake-ups.
fn thread_setups(
    spec: &FilesSpec,
    semaphores: &mut [Vec<Arc<Semaphore>>],
    wake_ups: &mut [Vec<Arc<WakeUp>>],
) -> Vec<ThreadSetup> {
    let mut thread_setups = Vec::new();
    for (thread, threads) in spec.threads.iter().enumerate() {
        for number in 0..threads.instances {
            let mut setup = ThreadSetup {
                thread,
                number,
                semaphores: HashMap::new(),
                wake_ups: HashMap::new(),
                writes_later: false,
            };
            each_flowop(&threads.steps, &mut |flowop| match flowop.verb {
                Verb::SemBlock => {
                    setup.semaphores.entry(flowop.kind).or_insert_with(|| {
                        let semaphore = Arc::new(Semaphore::new(flowop.high_water));
                        semaphores[flowop.kind].push(semaphore.clone());
                        semaphore
                    });
                }
                Verb::Block => {
                    setup.wake_ups.entry(flowop.kind).or_insert_with(|| {
                        let wake_up = Arc::new(WakeUp::default());
                        wake_ups[flowop.kind].push(wake_up.clone());
                        wake_up
                    });
                }
                Verb::AioWrite => setup.writes_later = true,
                _ => {}
            });
            thread_setups.push(setup);
        }
    }
    thread_setups
}

/// The life of one thread.
fn run_thread(
    setup: ThreadSetup,
    ready: &Sender<(i32, bool, Sender<StartSignal>)>,
) -> io::Result<()> {
    fine_timer();
    let (start, started) = mpsc::channel();
    if ready.send((procfs::this_thread(), setup.writes_later, start)).is_err() {
        return Ok(());
    }
    let Ok(StartSignal { shared, in_flight, record }) = started.recv() else { return Ok(()) };
    let aio = setup.writes_later.then(|| Aio::start(&shared, &record)).transpose()?;
    let kinds = shared.spec.kinds.len();
    let thread_spec = &shared.spec.threads[setup.thread];
    let buffer_bytes = largest_bytes(&shared.spec, &|thread| std::ptr::eq(thread, thread_spec));
    let mut worker = Worker {
        thread: setup.thread,
        rng: stream(shared.spec.seed, &format!("thread {}", thread_spec.name), setup.number),
        slots: (0..thread_spec.slots.max(1)).map(|_| FileSlot::default()).collect(),
        buffer: AlignedBuffer::of(buffer_bytes as usize),
        aio,
        semaphores: setup.semaphores,
        wake_ups: setup.wake_ups,
        done: vec![0; kinds],
        moved_bytes: vec![0; kinds],
        paid: vec![0; kinds],
        turns: vec![0; kinds],
        failures_in_a_row: 0,
        in_flight: in_flight.clone(),
        record,
        shared: shared.clone(),
    };
    worker.run();
    let (clock, sample_end) = (shared.sample_end.clock, &shared.sample_end);
    in_flight.retire(clock.now_ns());
    if let Some(aio) = &worker.aio {
        let grace_end_ns = clock.now_ns().min(sample_end.end_ns).saturating_add(GRACE_NS);
        aio.wait_all(grace_end_ns, sample_end);
    }
    if let Some(run_delay_ns) = procfs::run_delay_ns(procfs::this_thread()) {
        in_flight.leave_run_delay(run_delay_ns);
    }
    Ok(())
}

fn targets(
    shared: &SharedState,
    handles: &[WorkerHandle],
    start_ns: u64,
    stall_threshold_ns: u64,
) -> WatchdogTargets {
    WatchdogTargets {
        workers: handles.iter().map(|handle| (handle.in_flight.clone(), handle.thread)).collect(),
        device: shared.spec.device.clone(),
        uses_ring: false,
        start_ns,
        ended: Arc::new(AtomicBool::new(false)),
        stall_threshold_ns,
        status: Arc::default(),
    }
}

#[cfg(test)]
mod tests;
