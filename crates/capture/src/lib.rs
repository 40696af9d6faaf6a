//! Captures a trace of the traffic between clients and a server, by a proxy or from packets.
//!
//! A log lacks the number of rows, values of RETURNING, and truncated parameters; the wire has
//! them. The proxy forwards bytes unchanged and at once, and reads them afterwards, while the
//! server is working. [`packets`] reads copies of unencrypted traffic, which costs the server
//! least.
//!
//! Two threads: one forwards and packs what it read into batches; one writes the trace. The first
//! never waits for the second: if the queue exceeds 64 MiB, statements are dropped and counted. If
//! the trace becomes unwritable, forwarding continues until the user ends it.
//!
//! Memory: the queue to the writer; for each connection unsent bytes (at most what is read at
//! once), an incomplete message (at most 16 MiB), prepared texts, and unanswered statements of a
//! pipeline.
//!
//! | part | rule |
//! |---|---|
//! | [`spec`] | the request |
//! | `listen` | listening sockets |
//! | `proxy` | the forwarding thread |
//! | `pair` | a client's connection and its connection to the server |
//! | [`packets`] | the thread that reads packets, replacing these three |
//! | `follow` | the protocol on a connection |
//! | `stream`, `request`, `binary`, `returned` | messages, and values in them |
//! | `trace_queue` | the queue to the trace |
//! | `recorder` | the thread that writes it |
//! | `message_counts`, [`origin`] | counters, and their report |

mod binary;
mod follow;
mod listen;
mod message_counts;
pub mod origin;
pub mod packets;
mod pair;
mod proxy;
mod recorder;
mod request;
mod returned;
pub mod spec;
mod stream;
#[cfg(test)]
mod tests;
mod trace_queue;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use seatrial_gauge::Job;
use seatrial_gauge::UserError;
use seatrial_pgwire::link::Address;
use seatrial_pgwire::link::ServerSpec;
use seatrial_trace::mask::Mask;
use seatrial_trace::{TraceError, TraceWriter};

use listen::{ListenSpec, Listener};
use message_counts::MessageCounts;
use origin::{CaptureOrigin, Captured};
use packets::connections::Connections;
use packets::file::{FileError, PacketFile};
use packets::ring::Ring;
use packets::{Endpoint, Sniffer};
use proxy::Proxy;
use recorder::Span;
use spec::{CaptureSpec, PacketsSpec};
use trace_queue::{Shared, TraceQueue};

/// Why nothing could be captured.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum CaptureError {
    #[error("what is to be captured is malformed: {0}")]
    Spec(String),
    #[error("{address} cannot be listened at: {source}")]
    Listen { address: String, source: io::Error },
    #[error("{server} is not a server's address: {source}")]
    Address { server: String, source: io::Error },
    #[error("the packets of {interface} cannot be captured: {source}")]
    Packets { interface: String, source: io::Error },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error("the system refuses {what}: {source}")]
    System { what: &'static str, source: io::Error },
    #[error("{0}; this is a defect of Seatrial, please report it")]
    Defect(String),
}

impl CaptureError {
    /// Returns it as shown to a user.
    pub fn explained(&self) -> UserError {
        let usage = |cause, next_step| UserError::usage(self.to_string(), cause, next_step);
        match self {
            CaptureError::Trace(error) => error.explained(),
            CaptureError::Listen { .. } => usage(
                "Something listens there already, or the address is none of this machine",
                "See `ss -ltnp`, or name another port with --listen",
            ),
            CaptureError::Address { .. } => usage(
                "The name is not known, or the folder's is too long for a socket",
                "Name the server with --to postgresql://HOST:PORT, or its socket's folder",
            ),
            CaptureError::Packets { source, .. } => {
                let (cause, next) = explain_packets(source);
                usage(cause, next)
            }
            CaptureError::File(FileError::Io { .. }) => usage(
                "It is missing, or closed to this user",
                "See `ls -l` of it; tcpdump's files are root's as a rule",
            ),
            CaptureError::File(FileError::NotPackets { .. }) => usage(
                "It is another file, or was damaged",
                "Make one with `tcpdump -i lo -s 0 -w FILE tcp port 5432`",
            ),
            CaptureError::File(FileError::Link { .. }) => usage(
                "They are of a network that is not Ethernet, loopback or bare IP",
                "Write them again with `tcpdump -i any -s 0 -w FILE tcp port 5432`",
            ),
            CaptureError::System { .. } => usage(
                "Too many files are open, or there is no memory left",
                "See `ulimit -n` and `free -m`",
            ),
            CaptureError::Spec(_) | CaptureError::Defect(_) => UserError::defect(self.to_string()),
        }
    }
}

/// Returns the cause and the next step for an interface that cannot be captured.
fn explain_packets(source: &io::Error) -> (&'static str, &'static str) {
    match source.kind() {
        io::ErrorKind::PermissionDenied => (
            "Packets are for root, or whoever has the capability CAP_NET_RAW",
            "Start it with sudo (the trace is root's then), or take the proxy, which needs no \
             rights: --listen :6432 instead of --interface",
        ),
        io::ErrorKind::OutOfMemory => (
            "The ring for packets takes 64 MiB of the kernel's memory",
            "See `free -m`, and make room",
        ),
        _ if source.raw_os_error() == Some(libc::ENODEV) => (
            "This machine has no such interface",
            "See `ip -brief link`; lo has the clients of this machine, any has all interfaces",
        ),
        _ => (
            "The kernel lacks packet sockets, or a sandbox forbids them",
            "Take the proxy, which needs neither: --listen :6432 instead of --interface",
        ),
    }
}

/// The source of observations, which runs in its own thread until it is woken.
type Source = Box<dyn FnOnce() -> Result<MessageCounts, CaptureError> + Send>;

/// A running capture.
#[derive(Debug)]
pub struct Capture {
    addresses: Vec<String>,
    wake: Arc<OwnedFd>,
    shared: Arc<Shared>,
    job: Job<Result<Captured, CaptureError>>,
}

/// State shared by both threads.
struct Work {
    spec: CaptureSpec,
    addresses: String,
    source: Source,
    recorder: thread::JoinHandle<Result<(TraceWriter, Span), TraceError>>,
    began: Instant,
}

impl Capture {
    /// Starts listening and forwarding, or capturing packets.
    ///
    /// # Errors
    ///
    /// When listening fails, the trace cannot be created, or a system call fails.
    pub fn start(spec: CaptureSpec) -> Result<Capture, CaptureError> {
        let refused = |what| move |source: io::Error| CaptureError::System { what, source };
        let listeners = listeners(&spec)?;
        let addresses: Vec<String> =
            listeners.iter().map(|each| each.local_address.clone()).collect();
        let named = addresses.join(", ");
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
        let queue = TraceQueue::new(batches, shared.clone());
        let source = match source(&spec, listeners, &wake, queue, shared.clone()) {
            Ok(source) => source,
            Err(error) => {
                // Its keeper is dropped, so the recorder ends and removes the trace that it began,
                // before the caller can end the process.
                let _ = recorder.join();
                return Err(error);
            }
        };
        let (job, task) = Job::new();
        let work = Work { spec, addresses: named, source, recorder, began: Instant::now() };
        let panicked = || Err(CaptureError::Defect("the capture panicked".into()));
        let run = move || task.run(|| work.run(), panicked);
        let thread = thread::Builder::new().name("capture".into()).spawn(run);
        thread.map_err(refused("a thread"))?;
        Ok(Capture { addresses, wake, shared, job })
    }

    /// Listening addresses, in the order of the specification.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Waits up to a timeout; true when it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.job.wait(timeout)
    }

    /// Statements so far, dropped ones, and open connections.
    pub fn progress(&self) -> (u64, u64, u64) {
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        (load(&self.shared.statements), load(&self.shared.left_out), load(&self.shared.open))
    }

    /// Encrypted connections so far, which are not readable.
    pub fn encrypted(&self) -> u64 {
        self.shared.encrypted.load(Ordering::Relaxed)
    }

    /// Whether the trace is unwritable, while forwarding continues.
    pub fn has_failed(&self) -> bool {
        self.shared.has_failed.load(Ordering::Relaxed)
    }

    /// Requests the end: connections are closed, and the trace is completed.
    pub fn stop(&self) {
        // An eventfd accepts a 1 unless its value is 2^64 - 2.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Takes the result; `None` while it is running, and after it was taken.
    pub fn take_result(&self) -> Option<Result<Captured, CaptureError>> {
        self.job.take_result()
    }
}

/// The result cannot be taken any more.
impl Drop for Capture {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Work {
    /// Forwards until woken, and completes the trace, however forwarding ended.
    fn run(self) -> Result<Captured, CaptureError> {
        let Work { spec, addresses, source, recorder, began } = self;
        // The keeper is dropped with it, so the recorder sees the end.
        let passed = catch_unwind(AssertUnwindSafe(source));
        let defect = |_| CaptureError::Defect("the recorder panicked".into());
        let (writer, span) = recorder.join().map_err(defect)??;
        let counts = writer.counts();
        let origin = match passed {
            Ok(Ok(mut counted)) => {
                let fault = counted.settle(counts);
                CaptureOrigin::of(&spec, &addresses, &counted, counts, fault)
            }
            Ok(Err(error)) => {
                CaptureOrigin::broken_off(&spec, &addresses, counts, span, &error.to_string())
            }
            Err(_) => CaptureOrigin::broken_off(&spec, &addresses, counts, span, "it panicked"),
        };
        writer.finish(&origin)?;
        let trace_bytes = spec.output.metadata().map_or(0, |about| about.len());
        let trace = spec.output.to_string_lossy().into_owned();
        Ok(Captured { trace, trace_bytes, took_s: began.elapsed().as_secs_f64(), origin })
    }
}

fn listeners(spec: &CaptureSpec) -> Result<Vec<Listener>, CaptureError> {
    let open = |each: &ListenSpec| {
        let listen = |source| {
            let host = each.host.as_deref().unwrap_or("127.0.0.1");
            CaptureError::Listen { address: format!("{host}:{}", each.port), source }
        };
        Listener::open(each).map_err(listen)
    };
    spec.listen.iter().map(open).collect()
}

/// Prepares the source: nothing is missed from here on.
fn source(
    spec: &CaptureSpec,
    listeners: Vec<Listener>,
    wake: &Arc<OwnedFd>,
    queue: TraceQueue,
    shared: Arc<Shared>,
) -> Result<Source, CaptureError> {
    let refused = |what| move |source: io::Error| CaptureError::System { what, source };
    let Some(packets) = &spec.packets else {
        let server = spec.server.to_string();
        let proxy = Proxy::new(listeners, address(spec)?, &server, wake, queue, shared);
        let proxy = proxy.map_err(refused("an epoll"))?;
        return Ok(Box::new(move || proxy.run().map_err(refused("an epoll"))));
    };
    let address_error = |source| CaptureError::Address { server: spec.server.to_string(), source };
    let server = Endpoint::of(&spec.server).map_err(address_error)?;
    match packets.clone() {
        PacketsSpec::Interface(interface) => {
            let packets_error =
                |source| CaptureError::Packets { interface: interface.clone(), source };
            let ring = Ring::open(&interface, server.port).map_err(packets_error)?;
            let (known, wake) = (spec.known.clone(), wake.clone());
            Ok(Box::new(move || {
                let connections = Connections::new(server, known, shared);
                let sniffer = Sniffer::new(ring, connections, wake, queue);
                sniffer.run().map_err(refused("packets"))
            }))
        }
        PacketsSpec::File(path) => {
            let (file, wake) = (PacketFile::open(&path)?, wake.clone());
            Ok(Box::new(move || {
                let connections = Connections::new(server, Vec::new(), shared.clone());
                Ok(packets::read_file(file, connections, &wake, queue, &shared)?)
            }))
        }
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
    let address_error = |source| CaptureError::Address { server: spec.server.to_string(), source };
    Address::of(&server).map_err(address_error)
}
