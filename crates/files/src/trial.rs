//! One sample of a workload of files: makes the sets, starts the threads, closes the sample.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use rand_xoshiro::rand_core::Rng;
use seatrial_gauge::explained::{Class, Explained};
use seatrial_gauge::{AccountingError, Flight, Recorder, RecorderSettings, Timeline};
use seatrial_load::coordinator::{
    GRACE_NS, Hand, Watch, await_endings, close, counters, ended_early, fine_timer, same_moment,
    take_rows,
};
use seatrial_load::live::Live;
use seatrial_load::procfs;
use seatrial_load::rng::stream;
use seatrial_load::running::Running;
use seatrial_load::sample::{EngineReport, Frame, Pool, Sample};
use seatrial_load::watchdog::Watched;
use seatrial_load::worker::Record;

use crate::aio::Aio;
use crate::fileset::FileSet;
use crate::make::{Made, drop_cached, make, settle};
use crate::slots::{Memory, Slot};
use crate::spec::{AIO_DEPTH_MAX, FilesSpec, SpecError, Step, ThreadSpec, Verb};
use crate::waits::{Bell, Semaphore, Term};
use crate::worker::{Ended, Worker, World};

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
    /// A defect of ours.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
}

impl FilesError {
    /// Returns it as a user reads it.
    pub fn explained(&self) -> Explained {
        let seen = self.to_string();
        match self {
            FilesError::Spec(_) => Explained::usage(
                format!("The engine refused the workload: {seen}"),
                "A number of the workload file is out of the range that can be handled",
                "Check it with --plan, and see docs/filebench.md",
            ),
            FilesError::Make { source, .. } if is_full(source) => Explained::new(
                Class::Space,
                seen,
                "The file system is full, has no inodes left, or a quota is exhausted",
                "Use fewer or smaller files: --set nfiles=1000, for example",
            ),
            FilesError::Make { .. } => Explained::new(
                Class::Target,
                seen,
                "The file system or its device is failing, or limits the size of files",
                "Check `dmesg`, and the space with `df`",
            ),
            FilesError::Threads(_) => Explained::new(
                Class::System,
                seen,
                "A limit of this session (threads, memory)",
                "Use fewer threads: --set nthreads=10, for example",
            ),
            FilesError::Memory { .. } => Explained::usage(
                seen,
                "Every thread has a buffer for what it reads",
                "Use fewer threads, or smaller transfers: --set iosize=64k, for example",
            ),
            FilesError::Stopped => Explained::usage(seen, "It was interrupted", "Start it again"),
            FilesError::Accounting(_) => Explained::defect(seen),
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// How often and for how long threads waited in a flowop that is no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitedTotal {
    /// Name of the flowop.
    pub name: String,
    /// How often.
    pub count: u64,
    /// For how long, in sum.
    pub ns: u64,
}

/// What only samples of files have.
#[derive(Debug)]
pub struct FilesPart {
    /// What was made before.
    pub made: Made,
    /// How long that took, with waiting for the device.
    pub made_ns: u64,
    /// Whole loops of equal threads, by their name.
    pub loops: Vec<(String, u64)>,
    /// Waits by flowop.
    pub waited: Vec<WaitedTotal>,
    /// Why the sample ended.
    pub ended: Ended,
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
    let term = Term {
        clock,
        start_ns: 0,
        end_ns: (spec.duration_s * 1e9) as u64,
        over: AtomicBool::new(false),
        stop: stop.clone(),
    };
    let crew = Crew::start(spec, sets, data, term, &timeline)?;
    let (world, hands) = (&crew.world, &crew.hands);
    let (start_ns, end_ns) = (world.term.start_ns, world.term.end_ns);
    let threshold_ns = world.spec.stall_threshold_ms * 1_000_000;
    let watch = Watch::begin(clock, watched(world, hands, start_ns, threshold_ns));
    live.begin(clock, start_ns, timeline.clone(), watch.pulse.clone());
    let failure = await_endings(&clock, &crew.endings, hands.len(), end_ns + GRACE_NS, stop);
    world.term.end();
    let sightings = watch.end();
    live.end();
    if let Some(error) = failure {
        return Err(FilesError::Threads(error));
    }
    let names = world.spec.kinds.iter().map(|kind| kind.name.clone()).collect();
    let pool = Pool::of_kinds(names);
    let (pool, measured_end_ns, oldest_in_flight_ns) = close(&clock, hands, pool, start_ns)?;
    let stalls = pool.stalls(measured_end_ns, threshold_ns, |stall| sightings.evidence(stall));
    let (slice_ns, slices) = take_rows(&timeline);
    let sample = pool.into_sample(Frame {
        engine: EngineReport { name: "files", reason: "the requests are calls on files".into() },
        start_ns,
        started_unix_s: crew.started_unix_s,
        duration_ns: measured_end_ns - start_ns,
        interrupted: stop.load(Ordering::Relaxed) && measured_end_ns < end_ns,
        slice_ns,
        slices,
        stalls,
        oldest_in_flight_ns,
        counters: counters(processor_before_ns, &sightings),
        checked: false,
    });
    let part = part_of(world, made, made_ns, measured_end_ns - start_ns);
    Ok((sample, part))
}

fn part_of(world: &World, made: Made, made_ns: u64, elapsed_ns: u64) -> FilesPart {
    let loops = world.spec.threads.iter().zip(&world.loops);
    let waited = world.spec.kinds.iter().zip(&world.waited).map(|(kind, waited)| WaitedTotal {
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
        ended: world.ended(),
        events: world.events.as_ref().map(|events| events.counts(elapsed_ns)),
        cuts: world.cuts.load(Ordering::Relaxed),
    }
}

/// Makes the sets unless they are there, and waits until they are on their device.
fn prepare(
    spec: &FilesSpec,
    sets: &[FileSet],
    data: &[u8],
    stop: &AtomicBool,
) -> Result<Made, FilesError> {
    let failed = |source| FilesError::Make { folder: spec.folder.display().to_string(), source };
    let made = if spec.make { make(sets, data, stop).map_err(failed)? } else { Made::default() };
    if !stop.load(Ordering::Relaxed) {
        settle(&spec.folder).map_err(failed)?;
        let mut cold = sets.iter().filter(|set| spec.cold || set.spec.cold);
        cold.try_for_each(drop_cached).map_err(failed)?;
    }
    Ok(made)
}

fn shared_data(spec: &FilesSpec) -> Memory {
    let largest = largest_bytes(spec, &|_| true) as usize;
    let mut data = Memory::of(DATA_BYTES.max(largest + (1 << 20)));
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
            let bytes = flowop.io_bytes.as_ref().map_or(0.0, crate::draw::Amount::largest);
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
        let own = |other: &ThreadSpec| std::ptr::eq(other, thread);
        largest_bytes(spec, &own).saturating_mul(thread.instances)
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
struct Crew {
    world: Arc<World>,
    hands: Vec<Hand>,
    endings: Receiver<io::Result<()>>,
    started_unix_s: f64,
}

/// What a thread is given before it starts.
struct ThreadSetup {
    thread: usize,
    number: u64,
    semaphores: HashMap<usize, Arc<Semaphore>>,
    bells: HashMap<usize, Arc<Bell>>,
    writes_later: bool,
}

/// What a thread learns when all are ready.
struct Go {
    world: Arc<World>,
    flight: Arc<Flight>,
    record: Arc<Mutex<Record>>,
}

impl Crew {
    /// Starts all threads; they work from a moment on that is the same for all, from which the
    /// term counts.
    fn start(
        spec: FilesSpec,
        sets: Vec<FileSet>,
        data: Memory,
        mut term: Term,
        timeline: &Arc<Mutex<Timeline>>,
    ) -> Result<Crew, FilesError> {
        let mut semaphores = vec![Vec::new(); spec.kinds.len()];
        let mut bells = vec![Vec::new(); spec.kinds.len()];
        let (ending_sender, endings) = mpsc::channel();
        let (ready_sender, readies) = mpsc::channel();
        for place in places(&spec, &mut semaphores, &mut bells) {
            let (ending, ready) = (ending_sender.clone(), ready_sender.clone());
            let body = move || {
                let outcome = live_of(place, &ready);
                // The receiver may be gone already.
                let _ = ending.send(outcome);
            };
            let named = thread::Builder::new().name("worker".into());
            named.spawn(body).map_err(FilesError::Threads)?;
        }
        drop((ending_sender, ready_sender));
        let wanted = spec.threads_count() as usize;
        let ready: Vec<(i32, bool, Sender<Go>)> = readies.iter().take(wanted).collect();
        if ready.len() < wanted {
            return Err(FilesError::Threads(ended_early()));
        }
        let (start_ns, started_unix_s) = same_moment(&term.clock);
        term.start_ns = start_ns;
        term.end_ns = term.end_ns.saturating_add(start_ns);
        let mut world = World::new(spec, sets, data, term);
        (world.semaphores, world.bells) = (semaphores, bells);
        let world = Arc::new(world);
        let hands = send_off(&world, ready, timeline);
        Ok(Crew { world, hands, endings, started_unix_s })
    }
}

fn send_off(
    world: &Arc<World>,
    ready: Vec<(i32, bool, Sender<Go>)>,
    timeline: &Arc<Mutex<Timeline>>,
) -> Vec<Hand> {
    let settings = RecorderSettings {
        start_ns: world.term.start_ns,
        slice_ns: world.spec.slice_ms.max(1) * 1_000_000,
        stall_threshold_ns: world.spec.stall_threshold_ms * 1_000_000,
        scheduled: false,
    };
    let kinds = world.spec.kinds.len();
    let mut hands = Vec::new();
    for (thread, writes_later, go) in ready {
        let depth = if writes_later { 1 + AIO_DEPTH_MAX } else { 1 };
        let flight = Arc::new(Flight::new(depth, settings.start_ns));
        let recorder = Recorder::with_kinds(settings, flight.clone(), timeline.clone(), kinds);
        let record = Arc::new(Mutex::new(Record::new(recorder)));
        hands.push(Hand { flight: flight.clone(), record: record.clone(), thread });
        // A thread that has died meanwhile is reported by its ending.
        let _ = go.send(Go { world: world.clone(), flight, record });
    }
    hands
}

/// The places of all threads, each with its own semaphores and bells.
fn places(
    spec: &FilesSpec,
    semaphores: &mut [Vec<Arc<Semaphore>>],
    bells: &mut [Vec<Arc<Bell>>],
) -> Vec<ThreadSetup> {
    let mut places = Vec::new();
    for (thread, threads) in spec.threads.iter().enumerate() {
        for number in 0..threads.instances {
            let mut place = ThreadSetup {
                thread,
                number,
                semaphores: HashMap::new(),
                bells: HashMap::new(),
                writes_later: false,
            };
            each_flowop(&threads.steps, &mut |flowop| match flowop.verb {
                Verb::SemBlock => {
                    place.semaphores.entry(flowop.kind).or_insert_with(|| {
                        let own = Arc::new(Semaphore::new(flowop.high_water));
                        semaphores[flowop.kind].push(own.clone());
                        own
                    });
                }
                Verb::Block => {
                    place.bells.entry(flowop.kind).or_insert_with(|| {
                        let own = Arc::new(Bell::default());
                        bells[flowop.kind].push(own.clone());
                        own
                    });
                }
                Verb::AioWrite => place.writes_later = true,
                _ => {}
            });
            places.push(place);
        }
    }
    places
}

/// The life of one thread.
fn live_of(place: ThreadSetup, ready: &Sender<(i32, bool, Sender<Go>)>) -> io::Result<()> {
    fine_timer();
    let (start, started) = mpsc::channel();
    if ready.send((procfs::this_thread(), place.writes_later, start)).is_err() {
        return Ok(());
    }
    let Ok(Go { world, flight, record }) = started.recv() else { return Ok(()) };
    let aio = place.writes_later.then(|| Aio::start(&world, &record)).transpose()?;
    let kinds = world.spec.kinds.len();
    let own = &world.spec.threads[place.thread];
    let buffer_bytes = largest_bytes(&world.spec, &|thread| std::ptr::eq(thread, own));
    let mut worker = Worker {
        thread: place.thread,
        rng: stream(world.spec.seed, &format!("thread {}", own.name), place.number),
        slots: (0..own.slots.max(1)).map(|_| Slot::default()).collect(),
        buffer: Memory::of(buffer_bytes as usize),
        aio,
        semaphores: place.semaphores,
        bells: place.bells,
        done: vec![0; kinds],
        moved_bytes: vec![0; kinds],
        paid: vec![0; kinds],
        turns: vec![0; kinds],
        failures_in_a_row: 0,
        flight: flight.clone(),
        record,
        world: world.clone(),
    };
    worker.run();
    let (clock, term) = (world.term.clock, &world.term);
    flight.retire(clock.now_ns());
    if let Some(aio) = &worker.aio {
        let grace_end_ns = clock.now_ns().min(term.end_ns).saturating_add(GRACE_NS);
        aio.wait_all(grace_end_ns, term);
    }
    if let Some(run_delay_ns) = procfs::run_delay_ns(procfs::this_thread()) {
        flight.leave_run_delay(run_delay_ns);
    }
    Ok(())
}

fn watched(world: &World, hands: &[Hand], start_ns: u64, stall_threshold_ns: u64) -> Watched {
    Watched {
        workers: hands.iter().map(|hand| (hand.flight.clone(), hand.thread)).collect(),
        device: world.spec.device.clone(),
        uses_ring: false,
        start_ns,
        ended: Arc::new(AtomicBool::new(false)),
        stall_threshold_ns,
        pulse: Arc::default(),
    }
}

#[cfg(test)]
mod tests;
