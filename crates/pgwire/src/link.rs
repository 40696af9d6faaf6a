//! A server's address, a socket to it, and its buffers.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};

use serde::Deserialize;

/// A server, and the credentials of a session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// A folder with a socket, or a host's name or address.
    pub host: String,
    /// The port, or the number in the socket's name.
    pub port: u16,
    /// The database.
    pub database: String,
    /// The role.
    pub user: String,
    /// The password; None without one.
    #[serde(default)]
    pub password: Option<String>,
}

/// Where the server listens.
#[derive(Clone, Debug)]
pub enum Address {
    /// On a Unix socket.
    Unix(SocketAddrUnix),
    /// On TCP.
    Tcp(SocketAddr),
}

impl Address {
    /// The address of a server; a host name is resolved once.
    ///
    /// # Errors
    ///
    /// When the name cannot be resolved, or the folder's is too long for a socket.
    pub fn of(server: &ServerSpec) -> io::Result<Address> {
        if server.host.starts_with('/') {
            let path = Path::new(&server.host).join(format!(".s.PGSQL.{}", server.port));
            return Ok(Address::Unix(SocketAddrUnix::new(path)?));
        }
        let mut found = (server.host.as_str(), server.port).to_socket_addrs()?;
        let first = found.next().ok_or_else(|| io::Error::other("the name has no address"))?;
        Ok(Address::Tcp(first))
    }
}

/// The status of a connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectStatus {
    /// It is established.
    Established,
    /// It is established, or has failed, when the socket becomes writable.
    InProgress,
    /// The server's backlog is full: retry.
    BacklogFull,
}

/// A nonblocking socket with its unsent bytes.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    data: u64,
    unsent: Vec<u8>,
    is_connected: bool,
    waits_for_write: bool,
    watches_edges: bool,
    /// An incomplete message.
    pub input: Vec<u8>,
}

impl Link {
    /// Opens a connection whose events carry `data`, with `first` as its first bytes; None when the
    /// server's backlog is full.
    ///
    /// # Errors
    ///
    /// When there is no server, or no socket is available.
    pub fn open(
        address: &Address,
        epoll: &OwnedFd,
        data: u64,
        first: &[u8],
    ) -> io::Result<Option<Link>> {
        let family = match address {
            Address::Unix(_) => AddressFamily::UNIX,
            Address::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Address::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        let connected = match connect(&socket, address)? {
            ConnectStatus::BacklogFull => return Ok(None),
            connected => connected,
        };
        let mut link = Link {
            socket,
            data,
            unsent: Vec::new(),
            is_connected: connected == ConnectStatus::Established,
            waits_for_write: connected == ConnectStatus::InProgress,
            watches_edges: false,
            input: Vec::new(),
        };
        let flags = link.flags();
        epoll::add(epoll, &link.socket, EventData::new_u64(data), flags)?;
        if link.is_connected {
            link.send(epoll, first)?;
        } else {
            link.unsent.extend_from_slice(first);
        }
        Ok(Some(link))
    }

    fn flags(&self) -> EventFlags {
        let mut flags = EventFlags::IN;
        flags.set(EventFlags::OUT, self.waits_for_write);
        flags.set(EventFlags::ET | EventFlags::RDHUP, self.watches_edges);
        flags
    }

    /// Switches to edge-triggered events: then the kernel need not check after each read whether
    /// there is more. The caller has to read everything: a read that does not fill its buffer has
    /// done so, unless the server has hung up (epoll(7), questions and answers).
    ///
    /// # Errors
    ///
    /// When a system call fails.
    pub fn watch_edges(&mut self, epoll: &OwnedFd) -> io::Result<()> {
        self.watches_edges = true;
        self.rearm(epoll)
    }

    /// Requests another event, as not everything was read.
    ///
    /// # Errors
    ///
    /// When a system call fails.
    pub fn rearm(&self, epoll: &OwnedFd) -> io::Result<()> {
        epoll::modify(epoll, &self.socket, EventData::new_u64(self.data), self.flags())?;
        Ok(())
    }

    /// Sends bytes; those that the socket does not accept are sent when it is writable.
    ///
    /// # Errors
    ///
    /// When the connection is broken.
    pub fn send(&mut self, epoll: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if !self.unsent.is_empty() || !self.is_connected {
            self.unsent.extend_from_slice(bytes);
            return Ok(());
        }
        let sent = write(&self.socket, bytes)?;
        if sent < bytes.len() {
            self.unsent.extend_from_slice(&bytes[sent..]);
            self.watch(epoll, true)?;
        }
        Ok(())
    }

    /// Sends the unsent bytes, as the socket is writable.
    ///
    /// # Errors
    ///
    /// When the connection is broken, or could not be established.
    pub fn send_unsent(&mut self, epoll: &OwnedFd) -> io::Result<()> {
        if !self.is_connected {
            net::sockopt::socket_error(&self.socket)??;
            self.is_connected = true;
        }
        let sent = write(&self.socket, &self.unsent)?;
        self.unsent.drain(..sent);
        if self.unsent.is_empty() { self.watch(epoll, false) } else { Ok(()) }
    }

    /// Reads available bytes: None without any, 0 bytes when the server hung up.
    ///
    /// # Errors
    ///
    /// When the connection is broken.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match net::recv(&self.socket, buffer, RecvFlags::empty()) {
            Ok((read, _)) => Ok(Some(read)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn watch(&mut self, epoll: &OwnedFd, for_room: bool) -> io::Result<()> {
        if self.waits_for_write == for_room {
            return Ok(());
        }
        self.waits_for_write = for_room;
        self.rearm(epoll)
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Starts to connect a nonblocking socket.
///
/// # Errors
///
/// When there is no server, or a system call fails.
pub fn connect(socket: &OwnedFd, address: &Address) -> io::Result<ConnectStatus> {
    let connected = match address {
        Address::Unix(path) => net::connect(socket, path),
        Address::Tcp(at) => {
            net::sockopt::set_tcp_nodelay(socket, true)?;
            net::sockopt::set_socket_keepalive(socket, true)?;
            net::connect(socket, at)
        }
    };
    match connected {
        Ok(()) => Ok(ConnectStatus::Established),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(ConnectStatus::InProgress),
        Err(Errno::AGAIN) => Ok(ConnectStatus::BacklogFull),
        Err(error) => Err(error.into()),
    }
}

/// Sends as much as the socket accepts; returns the number of bytes.
///
/// # Errors
///
/// When the connection is broken.
pub fn write(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match net::send(socket, &bytes[sent..], net::SendFlags::NOSIGNAL) {
            Ok(written) => sent += written,
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sent)
}
