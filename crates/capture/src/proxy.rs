//! The forwarding thread: one level-triggered epoll, so that incoming data costs one wait (for
//! many), one read and one write.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use seatrial_pgwire::link::Address;
use seatrial_pgwire::messages;

use super::listen::Listener;
use super::message_counts::MessageCounts;
use super::pair::{Pair, PairState, Side, new_socket, refuse};
use super::trace_queue::{Shared, TraceQueue};

const READ_BYTES: usize = 64 << 10;

const EVENTS_MAX: usize = 256;

/// Interval of retries when a server's backlog is full.
const AGAIN_MS: i64 = 5;

const WAKE: u64 = u64::MAX;
/// The first of the listeners.
const LISTENERS: u64 = u64::MAX - 64;

pub const LISTENERS_MAX: usize = 16;

/// Time in microseconds since 1970; it never decreases.
#[derive(Debug)]
struct Clock {
    began: Instant,
    began_us: i64,
}

impl Clock {
    fn start() -> Clock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { began: Instant::now(), began_us: since.as_micros() as i64 }
    }

    #[inline]
    fn now_us(&self) -> i64 {
        self.began_us + self.began.elapsed().as_micros() as i64
    }
}

/// A proxy before it starts.
pub struct Proxy {
    epoll: OwnedFd,
    listeners: Vec<Listener>,
    address: Address,
    refusal: Vec<u8>,
    queue: TraceQueue,
    shared: Arc<Shared>,
}

/// The proxy's thread.
struct ProxyLoop {
    epoll: OwnedFd,
    listeners: Vec<Listener>,
    /// There were no descriptors left: no client is accepted until another has left.
    is_full: bool,
    address: Address,
    refusal: Vec<u8>,
    pairs: Vec<Option<Pair>>,
    free: Vec<usize>,
    /// Indexes freed since the last wait: events of that time may still refer to them.
    left: Vec<usize>,
    waiting: Vec<usize>,
    queue: TraceQueue,
    shared: Arc<Shared>,
    clock: Clock,
    buffer: Vec<u8>,
}

impl Proxy {
    /// A proxy between listeners and a server; a readable `wake` ends it.
    ///
    /// # Errors
    ///
    /// When there are no file descriptors left.
    pub fn new(
        listeners: Vec<Listener>,
        address: Address,
        server: &str,
        wake: &OwnedFd,
        queue: TraceQueue,
        shared: Arc<Shared>,
    ) -> io::Result<Proxy> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        watch_listeners(&epoll, &listeners)?;
        Ok(Proxy { epoll, listeners, address, refusal: refusal(server), queue, shared })
    }

    /// Forwards until woken; returns the counters.
    ///
    /// # Errors
    ///
    /// When waiting fails.
    pub fn run(self) -> io::Result<MessageCounts> {
        let Proxy { epoll, listeners, address, refusal, queue, shared } = self;
        let proxy_loop = ProxyLoop {
            epoll,
            listeners,
            is_full: false,
            address,
            refusal,
            pairs: Vec::new(),
            free: Vec::new(),
            left: Vec::new(),
            waiting: Vec::new(),
            queue,
            shared,
            clock: Clock::start(),
            buffer: vec![0; READ_BYTES],
        };
        proxy_loop.run()
    }
}

fn watch_listeners(epoll: &OwnedFd, listeners: &[Listener]) -> io::Result<()> {
    for (index, listener) in listeners.iter().enumerate() {
        let data = EventData::new_u64(LISTENERS + index as u64);
        epoll::add(epoll, listener, data, EventFlags::IN)?;
    }
    Ok(())
}

impl ProxyLoop {
    fn run(mut self) -> io::Result<MessageCounts> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut is_woken = false;
        while !is_woken {
            self.wait(&mut events)?;
            for event in events.drain(..) {
                match event.data.u64() {
                    WAKE => is_woken = true,
                    data if data >= LISTENERS => self.accept((data - LISTENERS) as usize),
                    _ => self.serve(event),
                }
            }
            self.connect_waiting();
            self.free.append(&mut self.left);
        }
        self.queue.now_us = self.clock.now_us();
        for pair in self.pairs.iter_mut().flatten() {
            pair.ended(&mut self.queue);
        }
        self.queue.flush();
        Ok(self.queue.counted)
    }

    fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        self.queue.now_us = self.clock.now_us();
        let batch_ms = self.queue.flush_due().map(|left_us| left_us / 1_000 + 1);
        let again_ms = (!self.waiting.is_empty()).then_some(AGAIN_MS);
        let timeout_ms = batch_ms.into_iter().chain(again_ms).min();
        // A timeout of epoll is in milliseconds.
        let timeout =
            timeout_ms.map(|ms| Timespec { tv_sec: ms / 1_000, tv_nsec: ms % 1_000 * 1_000_000 });
        match epoll::wait(&self.epoll, spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    #[inline]
    fn serve(&mut self, event: Event) {
        let (index, side) = Side::of(event.data);
        let Some(pair) = self.pairs.get_mut(index).and_then(Option::as_mut) else { return };
        self.queue.now_us = self.clock.now_us();
        let (epoll, buffer) = (&self.epoll, &mut self.buffer[..]);
        match pair.serve(side, event.flags, epoll, buffer, &mut self.queue) {
            PairState::Open => {}
            ended => self.close(index, ended),
        }
    }

    fn close(&mut self, index: usize, ended: PairState) {
        let Some(mut pair) = self.pairs.get_mut(index).and_then(Option::take) else { return };
        pair.ended(&mut self.queue);
        if ended == PairState::NoServer {
            self.queue.counted.wire.no_server += 1;
            pair.refuse(&self.refusal);
        }
        // Closing descriptors here removes them from the epoll.
        self.left.push(index);
        self.waiting.retain(|&waiting| waiting != index);
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
        if self.is_full {
            self.is_full = watch_listeners(&self.epoll, &self.listeners).is_err();
        }
    }

    /// Accepts one client; the next event brings the next.
    fn accept(&mut self, listener: usize) {
        // Made first: a client whose pair lacks a descriptor stays in the backlog until one ends.
        let server = new_socket(&self.address);
        let has_pairs = self.shared.open.load(Ordering::Relaxed) > 0;
        if has_pairs && server.as_ref().is_err_and(lacks_descriptors) {
            return self.stop_accepting();
        }
        let client = match self.listeners.get(listener).map(Listener::accept) {
            Some(Ok(Some(client))) => client,
            Some(Err(_)) => return self.stop_accepting(),
            _ => return,
        };
        let wire = &mut self.queue.counted.wire;
        wire.connections += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.pairs.push(None);
            self.pairs.len() - 1
        });
        let opened = match server {
            Ok(server) => Pair::open(client, server, &self.address, &self.epoll, index),
            Err(error) => Err((client, error)),
        };
        match opened {
            Ok(pair) => {
                let open = self.shared.open.fetch_add(1, Ordering::Relaxed) + 1;
                wire.open_max = wire.open_max.max(open);
                if pair.is_waiting() {
                    self.waiting.push(index);
                }
                self.pairs[index] = Some(pair);
            }
            Err((client, _)) => {
                wire.no_server += 1;
                self.free.push(index);
                refuse(&client, &self.refusal);
            }
        }
    }

    /// There are no descriptors left: clients wait in the backlog as with a server.
    fn stop_accepting(&mut self) {
        let forgotten = self.listeners.iter().all(|each| epoll::delete(&self.epoll, each).is_ok());
        self.is_full = forgotten;
    }

    fn connect_waiting(&mut self) {
        for index in std::mem::take(&mut self.waiting) {
            let Some(pair) = self.pairs.get_mut(index).and_then(Option::as_mut) else { continue };
            match pair.connect(&self.address, &self.epoll) {
                Ok(()) if pair.is_waiting() => self.waiting.push(index),
                Ok(()) => {}
                Err(_) => self.close(index, PairState::NoServer),
            }
        }
    }
}

fn lacks_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Message to a client without a server.
fn refusal(server: &str) -> Vec<u8> {
    let mut out = Vec::new();
    messages::message(&mut out, b'E', |out| {
        let message = format!("seatrial sql capture cannot reach the server at {server}");
        for (field, text) in [(b'S', "FATAL"), (b'V', "FATAL"), (b'C', "08006"), (b'M', &message)] {
            out.push(field);
            out.extend_from_slice(text.as_bytes());
            out.push(0);
        }
        out.push(0);
    });
    out
}
