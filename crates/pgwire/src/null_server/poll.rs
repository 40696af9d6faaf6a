//! The thread that serves all connections: one level-triggered epoll, so that an answer costs one
//! wait, one read and one write.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, SocketFlags};
use rustix::time::ClockId;

use super::Counters;
use super::session::{Session, SessionState, fatal};
use crate::link;

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// Events handled at once.
const EVENTS_MAX: usize = 256;

const WAKE: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    pub socket: OwnedFd,
    pub is_tcp: bool,
}

impl Listener {
    fn accept(&self) -> io::Result<OwnedFd> {
        let socket = net::accept_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        if self.is_tcp {
            net::sockopt::set_tcp_nodelay(&socket, true)?;
        }
        Ok(socket)
    }
}

/// One client.
#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    session: Session,
    /// An incomplete message.
    input: Vec<u8>,
    /// Unsent bytes; nothing is read from the client meanwhile.
    unsent: Vec<u8>,
    closes: bool,
}

/// The server's thread.
#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
    listener: Listener,
    server_version: Arc<str>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    connections_max: usize,
    counters: Arc<Counters>,
    buffer: Vec<u8>,
    out: Vec<u8>,
}

impl Poll {
    /// Registers a listener, and `wake`, which ends the thread when it becomes readable.
    ///
    /// # Errors
    ///
    /// When there are no file descriptors left.
    pub fn new(
        listener: Listener,
        wake: &OwnedFd,
        server_version: &str,
        connections_max: usize,
        counters: Arc<Counters>,
    ) -> io::Result<Poll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        epoll::add(&epoll, &listener.socket, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Poll {
            epoll,
            listener,
            server_version: server_version.into(),
            connections: Vec::new(),
            free: Vec::new(),
            connections_max,
            counters,
            buffer: vec![0; READ_BYTES],
            out: Vec::with_capacity(READ_BYTES),
        })
    }

    /// Serves until woken.
    pub fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut is_woken = false;
        while !is_woken {
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => break,
            }
            for event in events.drain(..) {
                match event.data.u64() {
                    WAKE => is_woken = true,
                    LISTENER => self.accept(),
                    slot => self.serve(slot as usize),
                }
            }
        }
        let spent = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
        let spent_ns = spent.tv_sec as u64 * 1_000_000_000 + spent.tv_nsec as u64;
        self.counters.cpu_ns.store(spent_ns, Ordering::Release);
    }

    /// Accepts one client; the next event brings the next.
    fn accept(&mut self) {
        let Ok(socket) = self.listener.accept() else { return };
        if self.connections.len() - self.free.len() >= self.connections_max {
            // A refusal is short enough for any socket's buffer; otherwise the client only sees the
            // end.
            let mut refusal = Vec::new();
            fatal(&mut refusal, "53300", "sorry, too many clients already");
            let _ = rustix::io::write(&socket, &refusal);
            return;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let data = EventData::new_u64(slot as u64);
        if epoll::add(&self.epoll, &socket, data, EventFlags::IN).is_err() {
            self.free.push(slot);
            return;
        }
        self.counters.connections.fetch_add(1, Ordering::Relaxed);
        self.connections[slot] = Some(Connection {
            socket,
            session: Session::new(self.server_version.clone()),
            input: Vec::new(),
            unsent: Vec::new(),
            closes: false,
        });
    }

    /// Reads from a client, or sends it unsent bytes.
    fn serve(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let lasts = if connection.unsent.is_empty() {
            connection.answer(&mut self.buffer, &mut self.out, &self.epoll, slot)
        } else {
            connection.send_rest(&self.epoll, slot)
        };
        let statements = std::mem::take(&mut connection.session.statements_count);
        self.counters.statements.fetch_add(statements, Ordering::Relaxed);
        if !lasts {
            // Closing its descriptor removes it from the epoll.
            self.connections[slot] = None;
            self.free.push(slot);
        }
    }
}

impl Connection {
    /// Whether the connection continues.
    fn answer(
        &mut self,
        buffer: &mut [u8],
        out: &mut Vec<u8>,
        epoll: &OwnedFd,
        slot: usize,
    ) -> bool {
        let read = match rustix::io::read(&self.socket, &mut *buffer) {
            Ok(0) => return false,
            Ok(read) => read,
            Err(Errno::AGAIN | Errno::INTR) => return true,
            Err(_) => return false,
        };
        out.clear();
        if self.input.is_empty() {
            let (taken, next) = self.session.take_in(&buffer[..read], out);
            self.input.extend_from_slice(&buffer[taken..read]);
            self.closes = next == SessionState::Close;
        } else {
            self.input.extend_from_slice(&buffer[..read]);
            let (taken, next) = self.session.take_in(&self.input, out);
            self.input.drain(..taken);
            self.closes = next == SessionState::Close;
        }
        let Ok(sent) = link::write(&self.socket, out) else { return false };
        if sent == out.len() {
            return !self.closes;
        }
        self.unsent.extend_from_slice(&out[sent..]);
        let data = EventData::new_u64(slot as u64);
        epoll::modify(epoll, &self.socket, data, EventFlags::OUT).is_ok()
    }

    /// Whether the connection continues.
    fn send_rest(&mut self, epoll: &OwnedFd, slot: usize) -> bool {
        let Ok(sent) = link::write(&self.socket, &self.unsent) else { return false };
        self.unsent.drain(..sent);
        if !self.unsent.is_empty() {
            return true;
        }
        let data = EventData::new_u64(slot as u64);
        !self.closes && epoll::modify(epoll, &self.socket, data, EventFlags::IN).is_ok()
    }
}
