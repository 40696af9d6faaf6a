//! A sink that counts what passes, and gives up when it is asked to.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use seatrial_trace::captured::{Session, SessionId, Sink, Statement};

/// How far reading has come, and whether it shall end.
#[derive(Debug, Default)]
pub struct Watch {
    statements: AtomicU64,
    is_stopped: AtomicBool,
}

impl Watch {
    /// Statements so far.
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Asks whoever reads to end.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Whether to go on.
    ///
    /// # Errors
    ///
    /// When it was asked to end.
    pub fn check<E>(&self) -> Result<(), WatchError<E>> {
        if self.is_stopped.load(Ordering::Relaxed) { Err(WatchError::Stopped) } else { Ok(()) }
    }
}

/// Why a watched sink gave up.
#[derive(Debug)]
pub enum WatchError<E> {
    /// It was asked to.
    Stopped,
    /// The sink behind it did.
    Sink(E),
}

/// Hands all on to a sink behind it.
#[derive(Debug)]
pub struct Watched<'a, S> {
    sink: &'a mut S,
    watch: &'a Watch,
}

impl<'a, S: Sink> Watched<'a, S> {
    /// In front of a sink.
    pub fn new(sink: &'a mut S, watch: &'a Watch) -> Watched<'a, S> {
        Watched { sink, watch }
    }
}

impl<S: Sink> Sink for Watched<'_, S> {
    type Error = WatchError<S::Error>;

    fn session(&mut self, session: &Session) -> Result<(), Self::Error> {
        self.watch.check()?;
        self.sink.session(session).map_err(WatchError::Sink)
    }

    fn session_changed(&mut self, id: SessionId, session: &Session) -> Result<(), Self::Error> {
        self.sink.session_changed(id, session).map_err(WatchError::Sink)
    }

    fn statement(&mut self, statement: &Statement<'_>) -> Result<(), Self::Error> {
        self.watch.check()?;
        self.watch.statements.fetch_add(1, Ordering::Relaxed);
        self.sink.statement(statement).map_err(WatchError::Sink)
    }
}
