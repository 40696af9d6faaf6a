//! A client's connection and its connection to the server: bytes from one side are sent to the
//! other, unchanged and at once, and read only after that.
//!
//! Bytes that the other side does not accept at once are buffered, at most one read; nothing more
//! is read until they are sent. So memory is bounded, and a slow side slows down the other one as
//! without a proxy.
//!
//! If one side accepts nothing more, earlier bytes of the other one still reach it: a server that
//! ends a session reports why, and what a client sent before it left is sent.

#[cfg(test)]
mod tests;

use std::io;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, Shutdown, SocketFlags, SocketType};
use seatrial_pgwire::link::{Address, ConnectStatus, connect, write};

use super::follow::Follower;
use super::trace_queue::TraceQueue;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

impl Side {
    /// Event data of this side of the pair at an index.
    fn data(self, index: usize) -> u64 {
        (index as u64) << 1 | u64::from(self == Side::Server)
    }

    /// Index and side of an event.
    pub fn of(data: EventData) -> (usize, Side) {
        let side = if data.u64() & 1 == 1 { Side::Server } else { Side::Client };
        ((data.u64() >> 1) as usize, side)
    }
}

/// Whether a pair continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairState {
    Open,
    Closed,
    /// The server could not be reached.
    NoServer,
}

/// A nonblocking socket.
#[derive(Debug)]
struct PairSocket {
    socket: OwnedFd,
    data: u64,
    unsent: Vec<u8>,
    /// The events it is registered for.
    watched: Option<EventFlags>,
    /// No more bytes come from it.
    is_over: bool,
    /// It accepts no more bytes: those for it are dropped.
    is_gone: bool,
}

impl PairSocket {
    fn of(socket: OwnedFd, side: Side, index: usize) -> PairSocket {
        let (data, unsent) = (side.data(index), Vec::new());
        PairSocket { socket, data, unsent, watched: None, is_over: false, is_gone: false }
    }

    fn data(&self) -> EventData {
        EventData::new_u64(self.data)
    }

    /// It accepts no more bytes.
    fn lose(&mut self) {
        self.is_gone = true;
        self.unsent = Vec::new();
    }

    /// Registers for writability if something is unsent, and for readability if `reads`.
    fn watch(&mut self, epoll: &OwnedFd, reads: bool) -> io::Result<()> {
        let room = if self.unsent.is_empty() { EventFlags::empty() } else { EventFlags::OUT };
        let bytes = if reads && !self.is_over { EventFlags::IN } else { EventFlags::empty() };
        // A socket that hung up would be reported repeatedly, even without registered events.
        let wanted = Some(room | bytes).filter(|flags| !flags.is_empty());
        match (self.watched, wanted) {
            (before, wanted) if before == wanted => return Ok(()),
            (None, Some(flags)) => epoll::add(epoll, &self.socket, self.data(), flags)?,
            (Some(_), Some(flags)) => epoll::modify(epoll, &self.socket, self.data(), flags)?,
            (_, None) => epoll::delete(epoll, &self.socket)?,
        }
        self.watched = wanted;
        Ok(())
    }
}

/// A client's connection with its connection to the server.
#[derive(Debug)]
pub struct Pair {
    client: PairSocket,
    server: PairSocket,
    is_connected: bool,
    /// The server's backlog was full.
    is_waiting: bool,
    follower: Follower,
}

impl Pair {
    /// Begins to connect a client to the server, by a socket of [`new_socket`].
    ///
    /// # Errors
    ///
    /// When there is no server; returns the client's socket.
    pub fn open(
        client: OwnedFd,
        server: OwnedFd,
        address: &Address,
        epoll: &OwnedFd,
        index: usize,
    ) -> Result<Pair, (OwnedFd, io::Error)> {
        let mut pair = Pair {
            client: PairSocket::of(client, Side::Client, index),
            server: PairSocket::of(server, Side::Server, index),
            is_connected: false,
            is_waiting: false,
            follower: Follower::default(),
        };
        match pair.connect(address, epoll) {
            Ok(()) => Ok(pair),
            Err(error) => Err((pair.client.socket, error)),
        }
    }

    /// Whether the server's backlog was full, so that it is retried.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Tries to connect, for the first time or again.
    ///
    /// # Errors
    ///
    /// When there is no server.
    pub fn connect(&mut self, address: &Address, epoll: &OwnedFd) -> io::Result<()> {
        let connected = connect(&self.server.socket, address)?;
        self.is_waiting = connected == ConnectStatus::BacklogFull;
        match connected {
            ConnectStatus::Established => self.connected(epoll),
            ConnectStatus::InProgress => {
                // It becomes writable when it is connected, or has failed.
                epoll::add(epoll, &self.server.socket, self.server.data(), EventFlags::OUT)?;
                self.server.watched = Some(EventFlags::OUT);
                Ok(())
            }
            ConnectStatus::BacklogFull => Ok(()),
        }
    }

    fn connected(&mut self, epoll: &OwnedFd) -> io::Result<()> {
        self.is_connected = true;
        self.watch(epoll)
    }

    /// Each side is read as long as the other one has accepted everything.
    fn watch(&mut self, epoll: &OwnedFd) -> io::Result<()> {
        self.server.watch(epoll, self.client.unsent.is_empty())?;
        self.client.watch(epoll, self.server.unsent.is_empty())
    }

    /// Handles an event of a side.
    #[inline]
    pub fn serve(
        &mut self,
        side: Side,
        flags: EventFlags,
        epoll: &OwnedFd,
        buffer: &mut [u8],
        queue: &mut TraceQueue,
    ) -> PairState {
        if !self.is_connected {
            return self.finish_connecting(side, epoll);
        }
        let served =
            if flags.contains(EventFlags::OUT) { self.send_rest(side, epoll) } else { Ok(()) };
        let is_readable = flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR);
        match served {
            Ok(()) if is_readable => self.pass(side, epoll, buffer, queue),
            Ok(()) => self.state(),
            Err(_) => PairState::Closed,
        }
    }

    fn finish_connecting(&mut self, side: Side, epoll: &OwnedFd) -> PairState {
        if side == Side::Client || self.is_waiting {
            return PairState::Open;
        }
        match net::sockopt::socket_error(&self.server.socket) {
            Ok(Ok(())) if self.connected(epoll).is_ok() => PairState::Open,
            _ => PairState::NoServer,
        }
    }

    /// Reads once, forwards the bytes, and reads them.
    #[inline]
    fn pass(
        &mut self,
        side: Side,
        epoll: &OwnedFd,
        buffer: &mut [u8],
        queue: &mut TraceQueue,
    ) -> PairState {
        let (from, to) = match side {
            Side::Client => (&mut self.client, &mut self.server),
            Side::Server => (&mut self.server, &mut self.client),
        };
        if from.is_over || !to.unsent.is_empty() {
            return PairState::Open;
        }
        let read = match rustix::io::read(&from.socket, &mut *buffer) {
            Ok(0) => return self.hung_up(side, epoll),
            Ok(read) => read,
            Err(Errno::AGAIN | Errno::INTR) => return PairState::Open,
            Err(_) => {
                from.lose();
                return self.hung_up(side, epoll);
            }
        };
        let bytes = &buffer[..read];
        if to.is_gone {
            // A server's last messages are read even without a client; a client's unsent ones are
            // not.
            if side == Side::Server {
                self.follower.look_at(side, bytes, queue);
            }
            return self.state();
        }
        let is_passed = match write(&to.socket, bytes) {
            Ok(sent) => {
                to.unsent.extend_from_slice(&bytes[sent..]);
                sent == read
            }
            Err(_) => {
                to.lose();
                false
            }
        };
        let is_watched = is_passed || self.watch(epoll).is_ok();
        self.follower.look_at(side, bytes, queue);
        if is_watched { self.state() } else { PairState::Closed }
    }

    /// The socket is writable: sends unsent bytes, and reads the other side again.
    fn send_rest(&mut self, side: Side, epoll: &OwnedFd) -> io::Result<()> {
        let (to, from) = match side {
            Side::Client => (&mut self.client, &mut self.server),
            Side::Server => (&mut self.server, &mut self.client),
        };
        match write(&to.socket, &to.unsent) {
            Ok(sent) => drop(to.unsent.drain(..sent)),
            Err(_) => to.lose(),
        }
        if !to.unsent.is_empty() {
            return Ok(());
        }
        to.unsent = Vec::new();
        if from.is_over && side == Side::Server && !to.is_gone {
            // Whoever is gone already needs no notice.
            let _ = net::shutdown(&to.socket, Shutdown::Write);
        }
        self.watch(epoll)
    }

    /// A side has closed its direction. Its other side may still send.
    fn hung_up(&mut self, side: Side, epoll: &OwnedFd) -> PairState {
        let (from, to) = match side {
            Side::Client => (&mut self.client, &mut self.server),
            Side::Server => (&mut self.server, &mut self.client),
        };
        from.is_over = true;
        if side == Side::Client && to.unsent.is_empty() && !to.is_gone {
            // Whoever is gone already needs no notice.
            let _ = net::shutdown(&to.socket, Shutdown::Write);
        }
        if self.watch(epoll).is_ok() { self.state() } else { PairState::Closed }
    }

    /// It ends when the server has hung up and its client has received everything, or the reverse.
    #[inline]
    fn state(&self) -> PairState {
        let is_reported = self.server.is_over && self.client.unsent.is_empty();
        let is_left = self.client.is_gone && self.client.is_over && self.server.unsent.is_empty();
        if is_reported || is_left { PairState::Closed } else { PairState::Open }
    }

    pub fn ended(&mut self, queue: &mut TraceQueue) {
        self.follower.ended(queue);
    }

    /// Reports to the client that there is no server: the only message that does not come from a
    /// server.
    pub fn refuse(self, message: &[u8]) {
        refuse(&self.client.socket, message);
    }
}

/// Reports to a client why it is refused. That is short enough for any socket's buffer; otherwise
/// it only sees the end.
pub fn refuse(client: &OwnedFd, message: &[u8]) {
    let _ = write(client, message);
}

/// A socket for the connection to a server.
///
/// # Errors
///
/// When there are no file descriptors left, or the kernel lacks this kind of address.
pub fn new_socket(address: &Address) -> io::Result<OwnedFd> {
    let family = match address {
        Address::Unix(_) => AddressFamily::UNIX,
        Address::Tcp(std::net::SocketAddr::V4(_)) => AddressFamily::INET,
        Address::Tcp(std::net::SocketAddr::V6(_)) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(net::socket_with(family, SocketType::STREAM, flags, None)?)
}
