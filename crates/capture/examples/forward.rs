//! Passes on what clients and a server say to each other and looks at none of it: what the way
//! through two more sockets costs by itself, for bench/capture.py.
//!
//! ```text
//! forward LISTEN SERVER      each the path of a socket, or address:port
//! ```

use std::env;
use std::error::Error;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::{read, write};

/// No connection has this number.
const LISTENER: u64 = u64::MAX;

/// At once; as much as the capturing proxy reads.
const READ_BYTES_MAX: usize = 64 * 1024;

/// Where clients connect.
enum Listener {
    Path(UnixListener),
    Address(TcpListener),
}

impl Listener {
    fn at(address: &str) -> io::Result<Listener> {
        if address.starts_with('/') {
            UnixListener::bind(address).map(Listener::Path)
        } else {
            TcpListener::bind(address).map(Listener::Address)
        }
    }

    /// The address that clients connect to.
    fn address(&self) -> io::Result<String> {
        Ok(match self {
            Listener::Path(listener) => {
                let address = listener.local_addr()?;
                address.as_pathname().map(|path| path.display().to_string()).unwrap_or_default()
            }
            Listener::Address(listener) => listener.local_addr()?.to_string(),
        })
    }

    fn watch(&self, epoll: &OwnedFd) -> io::Result<()> {
        let data = EventData::new_u64(LISTENER);
        match self {
            Listener::Path(listener) => epoll::add(epoll, listener, data, EventFlags::IN)?,
            Listener::Address(listener) => epoll::add(epoll, listener, data, EventFlags::IN)?,
        }
        Ok(())
    }

    fn accept(&self) -> io::Result<OwnedFd> {
        Ok(match self {
            Listener::Path(listener) => listener.accept()?.0.into(),
            Listener::Address(listener) => prompt(listener.accept()?.0)?,
        })
    }
}

fn connect(address: &str) -> io::Result<OwnedFd> {
    if address.starts_with('/') {
        return Ok(UnixStream::connect(address)?.into());
    }
    prompt(TcpStream::connect(address)?)
}

/// A socket that sends small writes at once (TCP_NODELAY).
fn prompt(socket: TcpStream) -> io::Result<OwnedFd> {
    socket.set_nodelay(true)?;
    Ok(socket.into())
}

/// Reads once and writes all of it; returns whether there was anything.
fn pass_on(from: &OwnedFd, to: &OwnedFd, buffer: &mut [u8]) -> io::Result<bool> {
    let length = read(from, &mut *buffer)?;
    let mut rest = &buffer[..length];
    while !rest.is_empty() {
        rest = &rest[write(to, rest)?..];
    }
    Ok(length > 0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [listen, server] = arguments.as_slice() else {
        return Err("forward LISTEN SERVER".into());
    };
    let listener = Listener::at(listen)?;
    println!("{}", listener.address()?);
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    listener.watch(&epoll)?;
    let mut buffer = vec![0; READ_BYTES_MAX];
    let mut events = Vec::with_capacity(64);
    // Side 2k is a client, side 2k + 1 its way to the server.
    let mut sides: Vec<Option<OwnedFd>> = Vec::new();
    loop {
        epoll::wait(&epoll, spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            if event.data.u64() == LISTENER {
                for socket in [listener.accept()?, connect(server)?] {
                    let data = EventData::new_u64(sides.len() as u64);
                    epoll::add(&epoll, &socket, data, EventFlags::IN)?;
                    sides.push(Some(socket));
                }
                continue;
            }
            let side = event.data.u64() as usize;
            let (Some(from), Some(to)) = (&sides[side], &sides[side ^ 1]) else { continue };
            if !pass_on(from, to, &mut buffer).unwrap_or(false) {
                (sides[side], sides[side ^ 1]) = (None, None);
            }
        }
    }
}
