//! Sessions connect, end and are lost.
//!
//! If a connection is lost, its session's unsent statements are skipped, and the rest continues.
//! Whether the whole server is lost is found by another connection, the probe: if it is refused
//! because there is no server, or the server is shutting down, the playback ends, and unsent
//! statements were not reached.

use std::cmp::Reverse;
use std::io;

use rustix::event::epoll::EventFlags;
use seatrial_pgwire::answer::ServerError;
use seatrial_pgwire::link::Link;

use super::player::{Peer, Stage, Wait};
use super::run::{PROBE, PlaybackLoop};
use crate::accounting::DelayCause;
use crate::connection::{Connection, ConnectionEvent};
use crate::item::Skipped;
use crate::played::PlaybackEnd;

/// How long a session waits until it tries again to connect.
const RETRY_AFTER_NS: u64 = 50_000_000;

/// How long to wait before another attempt if only the server's backlog was full.
const BACKLOG_RETRY_AFTER_NS: u64 = 2_000_000;

/// How long a server may have no free connection for a session.
const CONNECT_TIMEOUT_NS: u64 = 60_000_000_000;

/// How long a server may take to answer the probe, or to start up.
const PROBE_TIMEOUT_NS: u64 = 5_000_000_000;

#[derive(Default)]
pub struct Probe {
    peer: Option<Peer>,
    since_ns: u64,
}

impl Probe {
    /// Whether the result is unknown.
    pub fn is_open(&self) -> bool {
        self.peer.is_some()
    }

    /// Deadline of the result.
    pub fn gives_up_ns(&self) -> Option<u64> {
        self.peer.is_some().then_some(self.since_ns + PROBE_TIMEOUT_NS)
    }
}

impl PlaybackLoop {
    /// A session's first statement was read.
    pub(super) fn session_read(&mut self, session: usize) {
        let about = &self.survey.sessions[session];
        self.players[session].stage = Stage::Waiting;
        match self.schedule.connects_ns(about.connected_us, about.first_us) {
            Some(at_ns) => self.timers.set(at_ns, session as u32),
            None => self.arrived.push(Reverse((about.first_us, session as u32))),
        }
    }

    /// The due time of a session has come.
    pub(super) fn on_time(&mut self, session: usize) {
        match self.players[session].stage {
            Stage::Waiting => {
                let first_us = self.survey.sessions[session].first_us;
                self.arrived.push(Reverse((first_us, session as u32)));
            }
            Stage::Connected => self.advance(session),
            Stage::Unread | Stage::Connecting | Stage::Finished | Stage::Lost => {}
        }
    }

    /// Connects sessions as long as there are connections for them.
    pub(super) fn admit(&mut self) {
        while self.counts.open < self.connections_max && self.end.is_none() {
            let Some(Reverse((_, session))) = self.arrived.pop() else { return };
            let player = &mut self.players[session as usize];
            if player.left == 0 {
                player.stage = Stage::Finished;
            } else {
                self.connect(session as usize);
            }
        }
    }

    fn connect(&mut self, session: usize) {
        let mut first = Vec::new();
        let connection = Connection::new(&self.login(), &mut first);
        match Link::open(&self.address, &self.epoll, session as u64, &first) {
            Ok(Some(link)) => {
                let player = &mut self.players[session];
                player.peer = Some(Box::new(Peer { link, connection }));
                player.stage = Stage::Connecting;
                self.counts.open += 1;
                self.counts.connecting += 1;
                self.record_open();
            }
            Ok(None) => self.timers.set(self.now_ns() + BACKLOG_RETRY_AFTER_NS, session as u32),
            Err(error) if is_unreachable(&error) => self.server_is_lost(&error.to_string()),
            Err(error) => self.retry_connection(session, &error.to_string()),
        }
    }

    fn record_open(&mut self) {
        let now_ns = self.now_ns();
        let open = self.counts.open;
        self.sessions.open_max = self.sessions.open_max.max(open as u64);
        self.accounting.sessions_open(now_ns, open as u32);
    }

    /// A session is authenticated.
    pub(super) fn connected(&mut self, session: usize) {
        let now_ns = self.now_ns();
        let player = &mut self.players[session];
        if player.stage != Stage::Connecting {
            return;
        }
        player.stage = Stage::Connected;
        player.ready_ns = now_ns;
        player.ready_by = DelayCause::Connections;
        player.refused_ns = None;
        let Some(peer) = &mut player.peer else { return };
        self.by_process.insert(peer.connection.process_id(), session as u32);
        let watched = peer.link.watch_edges(&self.epoll);
        self.counts.connecting -= 1;
        self.counts.moved_ns = now_ns;
        self.sessions.connected += 1;
        match watched {
            Ok(()) => self.advance(session),
            Err(error) => self.connection_broken(session, &error),
        }
    }

    /// The server refused a session.
    pub(super) fn connection_refused(&mut self, session: usize, error: &ServerError) {
        self.sessions.refused += 1;
        let message = format!("{} ({})", error.message, String::from_utf8_lossy(&error.sqlstate));
        self.close_connection(session, Stage::Waiting);
        match &error.sqlstate {
            b"53300" => self.retry_connection(session, &message),
            // It starts up, shuts down, or hung up without a message.
            b"57P03" | b"08006" => {
                self.keep_message(&message);
                self.players[session].stage = Stage::Lost;
                self.start_probe(&message);
            }
            _ if self.sessions.connected == 0 => self.server_is_lost(&message),
            _ => {
                self.keep_message(&message);
                self.players[session].stage = Stage::Lost;
                self.skip_unsent(session);
            }
        }
    }

    /// There was no connection for a session: later, or never.
    fn retry_connection(&mut self, session: usize, message: &str) {
        self.keep_message(message);
        let now_ns = self.now_ns();
        let player = &mut self.players[session];
        player.stage = Stage::Waiting;
        let since_ns = *player.refused_ns.get_or_insert(now_ns);
        if now_ns - since_ns < CONNECT_TIMEOUT_NS {
            self.timers.set(now_ns + RETRY_AFTER_NS, session as u32);
        } else if self.sessions.connected == 0 {
            self.server_is_lost(message);
        } else {
            player.stage = Stage::Lost;
            self.skip_unsent(session);
        }
    }

    /// Keeps the server's first message of a refusal or a loss.
    fn keep_message(&mut self, message: &str) {
        if self.sessions.words.is_empty() {
            self.sessions.words = message.to_owned();
        }
    }

    /// A session has sent everything: it ends when it did in the capture, or now.
    pub(super) fn finish_session(&mut self, session: usize) {
        let disconnected_us = self.survey.sessions[session].disconnected_us;
        match self.schedule.disconnects_ns(disconnected_us) {
            Some(at_ns) if at_ns > self.now_ns() => {
                self.players[session].wait = Wait::Time;
                self.timers.set(at_ns, session as u32);
            }
            _ => self.end_session(session),
        }
    }

    /// A session sends `Terminate`, and closes its connection.
    fn end_session(&mut self, session: usize) {
        self.terminate(session);
        self.close_connection(session, Stage::Finished);
    }

    /// A session sends `Terminate`.
    pub(super) fn terminate(&mut self, session: usize) {
        if let Some(peer) = &mut self.players[session].peer {
            self.out.clear();
            Connection::terminate(&mut self.out);
            // It may be disconnected already.
            let _ = peer.link.send(&self.epoll, &self.out);
        }
    }

    /// A session has no connection any more.
    fn close_connection(&mut self, session: usize, stage: Stage) {
        let player = &mut self.players[session];
        let Some(peer) = player.peer.take() else { return };
        self.by_process.remove(&peer.connection.process_id());
        self.counts.open -= 1;
        self.counts.connecting -= usize::from(player.stage == Stage::Connecting);
        self.counts.starved -= usize::from(player.wait == Wait::Feed);
        let is_delayed = matches!(player.wait, Wait::Order { .. } | Wait::Draw { .. });
        self.counts.delayed -= usize::from(is_delayed);
        player.wait = Wait::Nothing;
        player.stage = stage;
        self.record_open();
    }

    /// The server closed a session's connection.
    pub(super) fn hung_up(&mut self, session: usize) {
        let Some(peer) = &mut self.players[session].peer else { return };
        match peer.connection.hung_up(&peer.link.input) {
            ConnectionEvent::Refused(error) => self.connection_refused(session, &error),
            ConnectionEvent::Lost(error) => self.connection_lost(session, &error.message),
            ConnectionEvent::NotUnderstood(message) => self.connection_lost(session, &message),
            ConnectionEvent::Ready | ConnectionEvent::Answer(_) => {}
        }
    }

    /// The system reports that a session's connection is broken, or could not be established.
    pub(super) fn connection_broken(&mut self, session: usize, error: &io::Error) {
        let is_connecting = self.players[session].stage == Stage::Connecting;
        if is_connecting && is_unreachable(error) {
            self.close_connection(session, Stage::Waiting);
            self.server_is_lost(&error.to_string());
        } else {
            self.connection_lost(session, &error.to_string());
        }
    }

    /// A session's connection is lost.
    pub(super) fn connection_lost(&mut self, session: usize, message: &str) {
        if self.players[session].peer.is_none() {
            return;
        }
        self.give_up(session);
        self.sessions.lost += 1;
        self.keep_message(message);
        self.close_connection(session, Stage::Lost);
        self.start_probe(message);
    }

    /// Skips the unsent statements of a lost session.
    fn skip_unsent(&mut self, session: usize) {
        while let Some(queued) = self.players[session].pop() {
            self.skip(session, queued, Skipped::NoConnection);
        }
    }

    fn start_probe(&mut self, message: &str) {
        if self.probe.is_open() || self.end.is_some() {
            return;
        }
        let mut first = Vec::new();
        let connection = Connection::new(&self.login(), &mut first);
        self.probe.since_ns = self.now_ns();
        match Link::open(&self.address, &self.epoll, PROBE, &first) {
            Ok(Some(link)) => self.probe.peer = Some(Peer { link, connection }),
            Err(error) if is_unreachable(&error) => self.server_is_lost(message),
            // Its backlog is full, so it is there; or no socket is available.
            Ok(None) | Err(_) => self.server_is_up(),
        }
    }

    /// Handles an event of the probe's connection.
    pub(super) fn serve_probe(&mut self, flags: EventFlags) {
        let Some(Peer { link, connection }) = &mut self.probe.peer else { return };
        let room =
            if flags.contains(EventFlags::OUT) { link.send_unsent(&self.epoll) } else { Ok(()) };
        let read = room.and_then(|()| link.read(&mut self.buffer));
        let (mut out, mut events) = (Vec::new(), Vec::new());
        match read {
            Ok(None) => return,
            Ok(Some(read)) if read > 0 => {
                link.input.extend_from_slice(&self.buffer[..read]);
                let taken = connection.take_in(&link.input, &mut out, &mut events);
                link.input.drain(..taken);
                let _ = link.send(&self.epoll, &out);
            }
            Ok(_) | Err(_) => events.push(connection.hung_up(&[])),
        }
        let is_up = match events.first() {
            None => return,
            Some(ConnectionEvent::Refused(error) | ConnectionEvent::Lost(error)) => {
                !matches!(&error.sqlstate, b"57P01" | b"57P02" | b"57P03" | b"08006")
            }
            Some(_) => true,
        };
        self.probe.peer = None;
        if is_up { self.server_is_up() } else { self.server_is_lost("") }
    }

    /// The probe was accepted, or refused by a running server.
    fn server_is_up(&mut self) {
        self.probe.peer = None;
        for session in 0..self.players.len() {
            if self.players[session].stage == Stage::Lost {
                self.skip_unsent(session);
            }
        }
    }

    /// Ends the playback; the first message about the cause is kept.
    pub(super) fn server_is_lost(&mut self, message: &str) {
        self.keep_message(message);
        self.probe.peer = None;
        self.end.get_or_insert_with(|| PlaybackEnd::ServerLost(self.sessions.words.clone()));
    }
}

/// Whether there is no listener.
fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, NotFound};
    matches!(error.kind(), ConnectionRefused | NotFound | HostUnreachable | NetworkUnreachable)
        || error.kind() == io::ErrorKind::PermissionDenied
}
