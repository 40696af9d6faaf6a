//! Listening sockets: TCP ports, or Unix sockets in a folder.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, fchmod};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::Deserialize;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenSpec {
    /// An address, or a folder for the socket `.s.PGSQL.PORT`; None for the loopback interface.
    #[serde(default)]
    pub host: Option<String>,
    /// The port; 0 for any free one (TCP only).
    pub port: u16,
}

/// Backlog of connections; also bounded by the system's own limit.
const QUEUE_MAX: i32 = 4_096;

#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    pub is_tcp: bool,
    path: Option<PathBuf>,
    pub local_address: String,
}

impl Listener {
    /// Listens.
    ///
    /// # Errors
    ///
    /// When the address is not local or in use.
    pub fn open(spec: &ListenSpec) -> io::Result<Listener> {
        match spec.host.as_deref() {
            Some(folder) if folder.starts_with('/') => {
                Listener::in_folder(&PathBuf::from(folder).join(format!(".s.PGSQL.{}", spec.port)))
            }
            host => {
                let address = match host {
                    None => IpAddr::V4(Ipv4Addr::LOCALHOST),
                    Some(host) => host.parse().map_err(io::Error::other)?,
                };
                let listener = TcpListener::bind(SocketAddr::new(address, spec.port))?;
                listener.set_nonblocking(true)?;
                let local_address = listener.local_addr()?.to_string();
                Ok(Listener { socket: listener.into(), is_tcp: true, path: None, local_address })
            }
        }
    }

    fn in_folder(path: &PathBuf) -> io::Result<Listener> {
        let socket = match bind(path) {
            // A leftover of a killed process, which does not answer.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_deserted(path) => {
                std::fs::remove_file(path)?;
                bind(path)?
            }
            socket => socket?,
        };
        let local_address = path.display().to_string();
        Ok(Listener { socket, is_tcp: false, path: Some(path.clone()), local_address })
    }

    /// Accepts a client; None if there is none after all.
    ///
    /// # Errors
    ///
    /// When there are no file descriptors left.
    pub fn accept(&self) -> io::Result<Option<OwnedFd>> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match net::accept_with(&self.socket, flags) {
            Ok(socket) => {
                if self.is_tcp {
                    net::sockopt::set_tcp_nodelay(&socket, true)?;
                    // As in a server, to detect dead clients.
                    net::sockopt::set_socket_keepalive(&socket, true)?;
                }
                Ok(Some(socket))
            }
            Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                Err(rustix::io::Errno::MFILE.into())
            }
            Err(_) => Ok(None),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Another process removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A socket in a folder that only its owner may connect to, from the start: on Linux a bound socket
/// has the mode of its descriptor.
fn bind(path: &PathBuf) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    net::listen(&socket, QUEUE_MAX)?;
    Ok(socket)
}

fn is_deserted(path: &PathBuf) -> bool {
    let refused = std::os::unix::net::UnixStream::connect(path).err();
    refused.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
