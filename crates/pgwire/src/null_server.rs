//! A server that speaks PostgreSQL's protocol and answers every statement immediately, without
//! executing it: it shows a driver's maximum rate with any server.
//!
//! The protocol is that of PostgreSQL's manual, "Frontend/Backend Protocol", version 3.0: startup
//! with trust, simple and extended queries, errors up to the next `Sync`, the transaction status.
//! The crate postgres-protocol only has the client's side, and crates with the server's side
//! require an asynchronous runtime, whose cost would be attributed to the driver.
//!
//! Each `SELECT` returns one row with a 1 in each column; `INSERT`, `UPDATE` and `DELETE` affect
//! one row. `COPY` is refused.

mod answer;
mod poll;
mod reply;
mod session;
mod sql;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};

use poll::{Listener, Poll};

/// Port in the name of a socket, as in PostgreSQL.
const PORT_OF_SOCKETS: u16 = 5_432;

/// Where a null server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// In a folder that only its owner may enter (mode 0700), as `.s.PGSQL.5432`.
    Folder(PathBuf),
    /// On the loopback interface; 0 for any free port.
    Loopback(u16),
}

/// Why a null server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum NullServerError {
    /// Others may enter the folder.
    #[error("{} may be entered by others (mode {mode:o}); it must have mode 700", folder.display())]
    OpenFolder {
        /// The folder.
        folder: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The version is invalid.
    #[error("{0:?} is not a version of PostgreSQL, such as 15.20")]
    Version(String),
    /// A system call failed.
    #[error("the null server cannot listen at {at}: {source}")]
    Io {
        /// Folder or port.
        at: String,
        /// The system's error.
        source: io::Error,
    },
}

/// Counters of the server's thread.
#[derive(Debug, Default)]
struct Counters {
    connections: AtomicU64,
    statements: AtomicU64,
    /// Set when the thread ends.
    cpu_ns: AtomicU64,
}

/// A running null server; it ends when it is dropped.
#[derive(Debug)]
pub struct NullServer {
    host: String,
    port: u16,
    socket: Option<PathBuf>,
    wake: OwnedFd,
    thread: Mutex<Option<JoinHandle<()>>>,
    counters: Arc<Counters>,
}

impl NullServer {
    /// Starts a server that reports `server_version` and serves a limited number of clients at
    /// once.
    ///
    /// # Errors
    ///
    /// When the version is invalid, the folder is open to others, or a system call fails.
    pub fn start(
        address: &Address,
        server_version: &str,
        connections_max: usize,
    ) -> Result<NullServer, NullServerError> {
        if answer::version_number(server_version).is_none() {
            return Err(NullServerError::Version(server_version.to_owned()));
        }
        let refused = |source: io::Error| NullServerError::Io { at: address.to_string(), source };
        let (listener, host, port, socket) = match address {
            Address::Folder(folder) => {
                require_private(folder)?;
                let path = folder.join(format!(".s.PGSQL.{PORT_OF_SOCKETS}"));
                let listener = UnixListener::bind(&path).map_err(refused)?;
                listener.set_nonblocking(true).map_err(refused)?;
                let host = folder.to_string_lossy().into_owned();
                (OwnedFd::from(listener), host, PORT_OF_SOCKETS, Some(path))
            }
            Address::Loopback(port) => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).map_err(refused)?;
                listener.set_nonblocking(true).map_err(refused)?;
                let port = listener.local_addr().map_err(refused)?.port();
                (listener.into(), Ipv4Addr::LOCALHOST.to_string(), port, None)
            }
        };
        let listener = Listener { socket: listener, is_tcp: socket.is_none() };
        let wake = eventfd(0, EventfdFlags::CLOEXEC).map_err(io::Error::from).map_err(refused)?;
        let counters = Arc::new(Counters::default());
        let poll = Poll::new(listener, &wake, server_version, connections_max, counters.clone());
        let poll = poll.map_err(refused)?;
        let thread = std::thread::Builder::new().name("null-server".to_owned());
        let thread = thread.spawn(|| poll.run()).map_err(refused)?;
        Ok(NullServer { host, port, socket, wake, thread: Mutex::new(Some(thread)), counters })
    }

    /// The host for clients: the folder, or the loopback address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, or the number in the socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Clients so far.
    pub fn connections(&self) -> u64 {
        self.counters.connections.load(Ordering::Relaxed)
    }

    /// Statements answered so far.
    pub fn statements(&self) -> u64 {
        self.counters.statements.load(Ordering::Relaxed)
    }

    /// Processor time of its thread; 0 while it runs.
    pub fn cpu_ns(&self) -> u64 {
        self.counters.cpu_ns.load(Ordering::Acquire)
    }

    /// Ends the server; connected clients are disconnected. Calling it again does nothing.
    pub fn stop(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(thread) = thread.take() else { return };
        // An eventfd accepts a 1 unless its value is 2^64 - 2.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        let _ = thread.join();
        if let Some(socket) = &self.socket {
            let _ = std::fs::remove_file(socket);
        }
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Folder(folder) => write!(out, "{}", folder.display()),
            Address::Loopback(port) => write!(out, "loopback port {port}"),
        }
    }
}

fn require_private(folder: &Path) -> Result<(), NullServerError> {
    let found = std::fs::metadata(folder)
        .map_err(|source| NullServerError::Io { at: folder.display().to_string(), source })?;
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(NullServerError::OpenFolder { folder: folder.to_path_buf(), mode });
    }
    Ok(())
}
