//! Where clients come in: at a port, or at a socket in a folder.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, fchmod};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::Deserialize;

/// Where clients come in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenSpec {
    /// An address, or a folder, in which the socket is `.s.PGSQL.PORT`; None for the loopback
    /// interface.
    #[serde(default)]
    pub host: Option<String>,
    /// The port; 0 for any that is free (of an address).
    pub port: u16,
}

/// Clients that wait to be taken in; the system's own limit counts too.
const QUEUE_MAX: i32 = 4_096;

/// A socket at which clients come in.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// Whether it is one of TCP.
    pub is_tcp: bool,
    path: Option<PathBuf>,
    /// Where it is, as it is told.
    pub place: String,
}

impl Listener {
    /// Listens.
    ///
    /// # Errors
    ///
    /// When the address is none of this machine, or is in use.
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
                let place = listener.local_addr()?.to_string();
                Ok(Listener { socket: listener.into(), is_tcp: true, path: None, place })
            }
        }
    }

    fn in_folder(path: &PathBuf) -> io::Result<Listener> {
        let socket = match bind(path) {
            // Left there by one that was killed: nobody answers.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_deserted(path) => {
                std::fs::remove_file(path)?;
                bind(path)?
            }
            socket => socket?,
        };
        let place = path.display().to_string();
        Ok(Listener { socket, is_tcp: false, path: Some(path.clone()), place })
    }

    /// Takes a client in; None when there is none after all.
    ///
    /// # Errors
    ///
    /// When there are no descriptors left.
    pub fn accept(&self) -> io::Result<Option<OwnedFd>> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match net::accept_with(&self.socket, flags) {
            Ok(socket) => {
                if self.is_tcp {
                    net::sockopt::set_tcp_nodelay(&socket, true)?;
                    // As a server does: who is gone without a word is found out.
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
            // Whoever removed it before has done the same.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A socket in a folder that only its owner may connect to, from its first moment on: on Linux it
/// has the mode that it had before it got its name.
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
