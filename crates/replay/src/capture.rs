//! A proxy that makes a trace of what clients and a server say to each other.
//!
//! A log does not tell how many rows there were, what RETURNING gave back, or parameters that were
//! cut; the wire does. Bytes are passed on unaltered and at once, and looked at after that, so that
//! the server is at work meanwhile.
//!
//! Two threads: one passes on and packs what it saw into batches; one writes the trace. The first
//! never waits for the second: where that is behind by more than [`keeper::HELD_BYTES_MAX`],
//! statements are left out and counted. Where the trace cannot be written any more, passing goes
//! on until the user ends it.
//!
//! Memory: what is on its way to the writer; for each connection what the other side has yet to
//! take (at most what is read at once), the message that is not all there yet (at most
//! [`stream::READ_BYTES_MAX`]), texts that are prepared, and statements of a pipeline that are not
//! answered yet.
//!
//! | part | rule |
//! |---|---|
//! | [`spec`] | what is asked for |
//! | [`listen`] | where clients come in |
//! | [`proxy`] | the thread that passes on |
//! | [`pair`] | a client's connection and its way to the server |
//! | [`follow`] | what is said on a connection |
//! | [`stream`], [`request`], [`binary`], [`returned`] | messages, and values in them |
//! | [`keeper`] | statements on their way to the trace |
//! | [`recorder`] | the thread that writes it |
//! | [`tally`], [`origin`] | what was counted, and what is told of it |

pub mod binary;
pub mod follow;
pub mod keeper;
pub mod listen;
pub mod origin;
pub mod pair;
pub mod proxy;
pub mod recorder;
pub mod request;
pub mod returned;
pub mod spec;
pub mod stream;
pub mod tally;
#[cfg(test)]
mod tests;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use seatrial_gauge::lock;

use crate::intake::told::{Fault, Told, told_of_trace};
use crate::mask::Mask;
use crate::playback::drive::link::Address;
use crate::playback::spec::ServerSpec;
use crate::trace::{TraceError, TraceWriter};
use keeper::{Keeper, Shared};
use listen::Listener;
use origin::{CaptureOrigin, Captured};
use proxy::Proxy;
use recorder::Span;
use spec::CaptureSpec;

/// Why nothing could be captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// What was asked for makes no sense.
    #[error("what is to be captured is malformed: {0}")]
    Spec(String),
    /// Nobody can listen there.
    #[error("{place} cannot be listened at: {source}")]
    Listen {
        /// Where.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// The server's name leads nowhere.
    #[error("{server} is no server's address: {source}")]
    Address {
        /// The server.
        server: String,
        /// What the system said.
        source: io::Error,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The system refuses what a proxy needs.
    #[error("the system refuses {what}: {source}")]
    System {
        /// What it refuses.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// A defect of ours.
    #[error("{0}; this is a defect of Seatrial, please report it")]
    Defect(String),
}

impl CaptureError {
    /// What a user is told.
    pub fn told(&self) -> Told {
        let usage = |cause: &str, next: &str| Told {
            fault: Fault::Usage,
            seen: self.to_string(),
            cause: cause.to_owned(),
            next: next.to_owned(),
        };
        match self {
            CaptureError::Trace(error) => told_of_trace(error),
            CaptureError::Listen { .. } => usage(
                "Something listens there already, or the address is none of this machine",
                "See `ss -ltnp`, or name another port with --listen",
            ),
            CaptureError::Address { .. } => usage(
                "The name is not known, or the folder's is too long for a socket",
                "Name the server with --to postgresql://HOST:PORT, or its socket's folder",
            ),
            CaptureError::System { .. } => usage(
                "Too many files are open, or there is no memory left",
                "See `ulimit -n` and `free -m`",
            ),
            CaptureError::Spec(_) | CaptureError::Defect(_) => Told {
                fault: Fault::Defect,
                cause: "This is a defect of Seatrial".to_owned(),
                ..usage("", "Please report it")
            },
        }
    }
}

type Ended = Arc<(Mutex<Option<Result<Captured, CaptureError>>>, Condvar)>;

/// A proxy at work.
#[derive(Debug)]
pub struct Capture {
    places: Vec<String>,
    wake: Arc<OwnedFd>,
    shared: Arc<Shared>,
    ended: Ended,
}

/// What both threads are given.
struct Work {
    spec: CaptureSpec,
    places: String,
    proxy: Proxy,
    recorder: thread::JoinHandle<Result<(TraceWriter, Span), TraceError>>,
    began: Instant,
}

impl Capture {
    /// Listens, and passes on from now on.
    ///
    /// # Errors
    ///
    /// When nobody can listen there, the trace cannot be made, or the system refuses.
    pub fn start(spec: CaptureSpec) -> Result<Capture, CaptureError> {
        let refused = |what| move |source: io::Error| CaptureError::System { what, source };
        let address = address(&spec)?;
        let mut listeners = Vec::new();
        for each in &spec.listen {
            let host = each.host.as_deref().unwrap_or("127.0.0.1");
            let place = format!("{host}:{}", each.port);
            let listen = |source| CaptureError::Listen { place, source };
            listeners.push(Listener::open(each).map_err(listen)?);
        }
        let places: Vec<String> = listeners.iter().map(|each| each.place.clone()).collect();
        let named = places.join(", ");
        let writer = TraceWriter::create(&spec.output, spec.mask.then(Mask::new))?;
        let shared = Arc::<Shared>::default();
        let (batches, received) = channel();
        let (own, own_spec, own_named) = (shared.clone(), spec.clone(), named.clone());
        let record = move || {
            let origin =
                |counts: &_, span| CaptureOrigin::cut_off(&own_spec, &own_named, counts, span);
            let every = Duration::from_secs(own_spec.checkpoint_s.max(1));
            recorder::record(writer, &received, &own, every, origin)
        };
        let recorder = thread::Builder::new().name("recorder".into()).spawn(record);
        let recorder = recorder.map_err(refused("a thread"))?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC).map_err(io::Error::from);
        let wake = Arc::new(wake.map_err(refused("an eventfd"))?);
        let keeper = Keeper::new(batches, shared.clone());
        let told = spec.server.to_string();
        let proxy = Proxy::new(listeners, address, &told, &wake, keeper, shared.clone());
        let proxy = proxy.map_err(refused("an epoll"))?;
        let ended = Ended::default();
        let own_ended = ended.clone();
        let work = Work { spec, places: named, proxy, recorder, began: Instant::now() };
        let run = move || {
            let captured = catch_unwind(AssertUnwindSafe(|| work.run()));
            // Whoever waits for the result must get one, whatever happens here.
            let panicked = |_| Err(CaptureError::Defect("the proxy panicked".into()));
            *lock(&own_ended.0) = Some(captured.unwrap_or_else(panicked));
            own_ended.1.notify_all();
        };
        let thread = thread::Builder::new().name("proxy".into()).spawn(run);
        thread.map_err(refused("a thread"))?;
        Ok(Capture { places, wake, shared, ended })
    }

    /// Where clients come in, in the order of the specification.
    pub fn places(&self) -> &[String] {
        &self.places
    }

    /// Waits at most so long; true when it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        let ended = lock(&self.ended.0);
        let waited = self.ended.1.wait_timeout_while(ended, timeout, |result| result.is_none());
        waited.is_ok_and(|(result, _)| result.is_some())
    }

    /// Statements so far, those that were left out, and connections that are open.
    pub fn progress(&self) -> (u64, u64, u64) {
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        (load(&self.shared.statements), load(&self.shared.left_out), load(&self.shared.open))
    }

    /// Connections so far that are encrypted, and cannot be read.
    pub fn encrypted(&self) -> u64 {
        self.shared.encrypted.load(Ordering::Relaxed)
    }

    /// Whether the trace cannot be written any more, while passing goes on.
    pub fn has_failed(&self) -> bool {
        self.shared.has_failed.load(Ordering::Relaxed)
    }

    /// Asks it to end: connections are closed, and the trace is completed.
    pub fn stop(&self) {
        // An eventfd takes a 1 as long as nobody has written 2^64 - 2 before.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Takes the result; `None` while it is at work, and once it was taken.
    pub fn take_result(&self) -> Option<Result<Captured, CaptureError>> {
        lock(&self.ended.0).take()
    }
}

/// Nobody can take the result any more.
impl Drop for Capture {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Work {
    /// Passes on until it is told to end, and completes the trace, however the passing ended.
    fn run(self) -> Result<Captured, CaptureError> {
        let Work { spec, places, proxy, recorder, began } = self;
        // The keeper goes with it, and the recorder sees that nothing more comes.
        let passed = catch_unwind(AssertUnwindSafe(|| proxy.run()));
        let defect = |_| CaptureError::Defect("the recorder panicked".into());
        let (writer, span) = recorder.join().map_err(defect)??;
        let counts = writer.counts();
        let origin = match passed {
            Ok(Ok(mut tally)) => {
                let fault = tally.settle(counts);
                CaptureOrigin::of(&spec, &places, &tally, counts, fault)
            }
            Ok(Err(source)) => {
                let why = format!("the system refuses an epoll: {source}");
                CaptureOrigin::broken_off(&spec, &places, counts, span, &why)
            }
            Err(_) => CaptureOrigin::broken_off(&spec, &places, counts, span, "it panicked"),
        };
        writer.finish(&origin)?;
        let trace_bytes = spec.output.metadata().map_or(0, |about| about.len());
        let trace = spec.output.to_string_lossy().into_owned();
        Ok(Captured { trace, trace_bytes, took_s: began.elapsed().as_secs_f64(), origin })
    }
}

fn address(spec: &CaptureSpec) -> Result<Address, CaptureError> {
    let server = ServerSpec {
        host: spec.server.address.as_ref().unwrap_or(&spec.server.host).clone(),
        port: spec.server.port,
        database: String::new(),
        user: String::new(),
        password: None,
    };
    let told = |source| CaptureError::Address { server: spec.server.to_string(), source };
    Address::of(&server).map_err(told)
}
