//! The trace, read ahead: once, in order, in a background thread, and only as far as memory allows.
//!
//! A page of a trace takes some milliseconds to unpack, in which a loop that did it by itself would
//! answer nobody; so a reader passes statements on in batches of a few dozen microseconds' work.
//! The limit for what is held is [`held_bytes_max`]; a session whose next statement is beyond it
//! waits for the others. If no session can continue before that statement was sent, it is read
//! [further](Feed::hold_more) nevertheless.

#![expect(clippy::vec_box, reason = "statements go from hand to hand, and moving them costs")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use rustix::fd::OwnedFd;
use seatrial_gauge::cache;
use seatrial_sqltext::lexer::class::Class;
use seatrial_trace::captured::Skip;
use seatrial_trace::{Columns, TraceError, TraceReader, Traced};

use super::drive::usage::Processor;
use super::item::{Item, Skipped};
use super::order::object_access::{AccessSet, ObjectAccess};
use super::order::scan::Scan;
use super::rewrite::bound::{Binder, Bound};
use super::survey::{SessionSurvey, Survey, ends_in_commit, ends_transaction};

/// Limit for the statements that are held, with their texts, in addition to the allowance of each
/// session: enough that none has to wait for the others at once.
const HELD_BYTES: usize = 2 << 20;

/// Bytes held for each connection.
const HELD_BYTES_EACH: usize = 32 << 10;

/// Held is this part of it, and twice as much each time that a session has to wait for more: what
/// was read long before it is sent has left the processor's caches by then.
const NARROW: usize = 8;

/// As often as all that is held was replaced while no session had to wait, half is held again.
const CALM: usize = 2;

/// Limit for what is held of a trace that is played over this many connections.
pub fn held_bytes_max(connections: usize) -> usize {
    HELD_BYTES + connections * HELD_BYTES_EACH
}

/// Statements that are handed over at once.
const BATCH_ITEMS_MAX: usize = 128;

/// Text that is handed over at once, and one statement more.
const BATCH_BYTES_MAX: usize = 32 << 10;

/// Batches that are on their way.
const BATCHES_MAX: usize = 4;

/// What a statement takes at most whose room is used again.
pub const REUSED_BYTES_MAX: usize = 1 << 10;

/// How much more is held when it is read further.
const FURTHER_BYTES: usize = 64 << 10;

/// A statement that was read. It goes from hand to hand in a box, and its room is used again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fed {
    /// The statement.
    pub item: Item,
    /// Why it is not to be sent; None where it is.
    pub skipped: Option<Skipped>,
    /// Whether others wait for it where the order of commits is kept.
    pub commits: bool,
    /// Whether none of its session follows.
    pub is_last: bool,
    /// Whether its transaction is over with it.
    pub ends: bool,
    /// What it touches, where the order has to know it.
    pub access_set: AccessSet,
    /// What ids have to do with it, where they are mapped.
    pub ids: Option<Box<Bound>>,
    /// Memory that it took when it was handed over, or written anew.
    pub counted_bytes: usize,
}

impl Fed {
    /// Whether its session is played.
    fn is_played(&self) -> bool {
        !matches!(self.skipped, Some(Skipped::OtherDatabase | Skipped::OtherHost))
    }

    /// Starts to bring its texts into the cache, once [it itself](cache::fetch) is there: they were
    /// last used by another thread.
    pub fn fetch_texts(&self) {
        let Item { sql, prepared, parameters, .. } = &self.item;
        cache::fetch(sql.as_slice());
        cache::fetch(prepared.as_slice());
        cache::fetch(parameters.as_slice());
    }

    /// Memory that it takes.
    pub fn held_bytes(&self) -> usize {
        let item = &self.item;
        let parameter = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::capacity);
        let parameters = item.parameters.iter().map(parameter).sum::<usize>();
        let slots = item.parameters.capacity() * size_of::<Option<Vec<u8>>>();
        let access_set = self.access_set.known.capacity() * size_of::<ObjectAccess>();
        let texts = item.sql.capacity() + item.prepared.capacity() + parameters;
        let ids = self.ids.as_ref().map_or(0, |bound| bound.held_bytes());
        size_of::<Fed>() + texts + slots + access_set + ids
    }
}

/// What decides whether a statement is sent.
pub type Rule = Box<dyn FnMut(&Item) -> Option<Skipped> + Send>;

/// What decides what becomes of a statement, before it is handed over.
pub struct Stages {
    /// Statements that began later are skipped, before any rule is applied.
    pub until_us: Option<i64>,
    /// Which are not sent.
    pub rule: Rule,
    /// Gives statements their turns, where the order has such.
    pub scan: Option<Scan>,
    /// Finds what ids have to do with statements, where they are mapped.
    pub binder: Option<Binder>,
}

/// Statements that are handed over together.
#[derive(Debug, Default)]
pub struct Batch {
    /// In their order.
    pub items: Vec<Box<Fed>>,
    bytes: usize,
}

/// What the reader and the loop share.
#[derive(Debug, Default)]
struct Shared {
    /// The loop waits for a batch.
    is_wanted: AtomicBool,
    user_ns: AtomicU64,
    system_ns: AtomicU64,
}

/// The loop's end.
#[derive(Debug)]
pub struct Feed {
    batches: Option<Receiver<Result<Batch, TraceError>>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    /// Statements whose room the reader may use again, and the way to it.
    used: Vec<Box<Fed>>,
    back: SyncSender<Vec<Box<Fed>>>,
    held_bytes: usize,
    /// What may be held now: the usual, or more where it is read further.
    held_bytes_max: usize,
    /// What is usual, from the least to the most.
    usual_bytes_max: usize,
    least_bytes_max: usize,
    most_bytes_max: usize,
    /// What was taken since a session had to wait.
    calm_bytes: usize,
    held_items: u64,
    /// Statements that were held at once, at most.
    pub held_items_max: u64,
}

/// The reader's end.
struct Reader {
    trace: TraceReader,
    /// By session: statements that are yet to come, and why none of them is played.
    left: Vec<(u64, Option<Skipped>)>,
    stages: Stages,
    batches: SyncSender<Result<Batch, TraceError>>,
    /// Statements that were sent, for their room: to take it from and give it back to the system
    /// in another thread costs more than all else of reading.
    back: Receiver<Vec<Box<Fed>>>,
    shared: Arc<Shared>,
    /// What wakes the loop.
    wake: Arc<OwnedFd>,
}

impl Feed {
    /// Starts to read; `wake` is an eventfd that is written to when a batch comes that was waited
    /// for.
    ///
    /// # Errors
    ///
    /// When the trace cannot be opened again.
    pub fn start(
        path: &Path,
        survey: &Survey,
        connections: usize,
        stages: Stages,
        wake: Arc<OwnedFd>,
    ) -> Result<Feed, TraceError> {
        let (sender, receiver) = sync_channel(BATCHES_MAX);
        let (back, given_back) = sync_channel(BATCHES_MAX);
        let shared = Arc::new(Shared::default());
        let sessions = survey.sessions.iter();
        let reader = Reader {
            trace: TraceReader::open(path)?,
            left: sessions.map(|session| (session.statements, unplayed(session))).collect(),
            stages,
            batches: sender,
            back: given_back,
            shared: shared.clone(),
            wake,
        };
        let thread = std::thread::Builder::new().name("playback-reader".to_owned());
        let thread = thread.spawn(move || reader.run()).map_err(|source| TraceError::Io {
            path: path.to_path_buf(),
            action: "read in a background thread",
            source,
        })?;
        Ok(Feed {
            batches: Some(receiver),
            thread: Some(thread),
            shared,
            used: Vec::new(),
            back,
            held_bytes: 0,
            held_bytes_max: held_bytes_max(connections) / NARROW,
            usual_bytes_max: held_bytes_max(connections) / NARROW,
            least_bytes_max: held_bytes_max(connections) / NARROW,
            most_bytes_max: held_bytes_max(connections),
            calm_bytes: 0,
            held_items: 0,
            held_items_max: 0,
        })
    }

    /// Whether no more may be held for now.
    pub fn is_full(&self) -> bool {
        self.held_bytes >= self.held_bytes_max
    }

    /// Whether all was taken.
    pub fn is_over(&self) -> bool {
        self.batches.is_none()
    }

    /// The next batch, if there is one and it may be held. Where there is none yet, the reader
    /// wakes the loop as soon as there is.
    ///
    /// # Errors
    ///
    /// When the trace cannot be read or does not hold what it says.
    pub fn take(&mut self) -> Result<Option<Vec<Box<Fed>>>, TraceError> {
        if self.is_full() {
            return Ok(None);
        }
        let Some(batches) = &self.batches else { return Ok(None) };
        let received = match batches.try_recv() {
            Err(TryRecvError::Empty) => {
                // It may have come just before the reader could know that it is waited for.
                self.shared.is_wanted.store(true, Ordering::SeqCst);
                batches.try_recv()
            }
            received => received,
        };
        match received {
            Ok(batch) => {
                let batch = batch?;
                self.held_bytes += batch.bytes;
                self.calm_bytes += batch.bytes;
                if self.calm_bytes > CALM * self.usual_bytes_max {
                    self.calm_bytes = 0;
                    self.usual_bytes_max = (self.usual_bytes_max / 2).max(self.least_bytes_max);
                    self.held_bytes_max = self.usual_bytes_max;
                }
                self.held_items += batch.items.len() as u64;
                self.held_items_max = self.held_items_max.max(self.held_items);
                Ok(Some(batch.items))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                self.batches = None;
                Ok(None)
            }
        }
    }

    /// A session waits for what was not read yet. Where that is so because enough is held, twice as
    /// much may be from now on.
    pub fn is_awaited(&mut self) {
        self.calm_bytes = 0;
        if self.is_full() && self.usual_bytes_max < self.most_bytes_max {
            self.usual_bytes_max = (self.usual_bytes_max * 2).min(self.most_bytes_max);
            self.held_bytes_max = self.held_bytes_max.max(self.usual_bytes_max);
        }
    }

    /// A statement is no longer held.
    pub fn release(&mut self, fed: Box<Fed>) {
        self.held_bytes -= fed.counted_bytes;
        self.held_items -= 1;
        if self.held_bytes < self.usual_bytes_max {
            self.held_bytes_max = self.usual_bytes_max;
        }
        if fed.counted_bytes <= REUSED_BYTES_MAX {
            self.used.push(fed);
        }
        if self.used.len() >= BATCH_ITEMS_MAX {
            let full = std::mem::replace(&mut self.used, Vec::with_capacity(BATCH_ITEMS_MAX));
            // A reader that has enough of them, or has ended, needs none.
            let _ = self.back.try_send(full);
        }
    }

    /// A statement that is held was written anew, and takes another room.
    pub fn resize(&mut self, fed: &mut Fed) {
        let now_bytes = fed.held_bytes();
        self.held_bytes = self.held_bytes - fed.counted_bytes + now_bytes;
        fed.counted_bytes = now_bytes;
    }

    /// Holds more than is usual until less is held again.
    pub fn hold_more(&mut self) {
        self.held_bytes_max = self.held_bytes + FURTHER_BYTES;
    }

    /// Ends the reader, and returns its CPU usage.
    pub fn end(&mut self) -> Processor {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            // A reader that panicked has been seen as the end of the trace, which then lacks
            // statements: the accounts do not add up.
            let _ = thread.join();
        }
        let ns = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        Processor { user_ns: ns(&self.shared.user_ns), system_ns: ns(&self.shared.system_ns) }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.end();
    }
}

impl Reader {
    fn run(mut self) {
        let mut left = std::mem::take(&mut self.left);
        if let Err(error) = self.read(&mut left) {
            self.hand_over(Err(error));
        }
        if let Some(binder) = self.stages.binder.take() {
            binder.finish();
        }
        let used = Processor::of_thread();
        self.shared.user_ns.store(used.user_ns, Ordering::Release);
        self.shared.system_ns.store(used.system_ns, Ordering::Release);
        // The loop may wait for a batch: it is to see that there is none.
        let Reader { batches, wake, .. } = self;
        drop(batches);
        let _ = rustix::io::write(&wake, &1u64.to_ne_bytes());
    }

    /// Reads all; ends early when the receiver is gone.
    fn read(&mut self, left: &mut [(u64, Option<Skipped>)]) -> Result<(), TraceError> {
        let Reader { trace, stages, batches, back, shared, wake, .. } = self;
        let Stages { until_us, rule, scan, binder } = stages;
        let mut statements = trace.statements(Columns::All);
        let mut batch = Batch::default();
        let mut number = 0;
        let mut spare: Vec<Box<Fed>> = Vec::new();
        while let Some(traced) = statements.next_statement()? {
            if spare.is_empty() {
                spare = back.try_recv().unwrap_or_default();
            }
            let room = spare.pop();
            // The next one is used in a microsecond, and then the one after it.
            if let [.., second, first] = spare.as_slice() {
                cache::fetch(&**second);
                first.fetch_texts();
            }
            let mut fed = fed(number, &traced, room, left, *until_us, rule);
            if let Some(binder) = binder.as_mut().filter(|_| fed.is_played()) {
                fed.ids = binder.bind(&mut fed.item, fed.skipped.is_none());
            }
            number += 1;
            match scan {
                Some(scan) => scan.take_in(fed),
                None => batch.push(fed),
            }
            while let Some(fed) = scan.as_mut().and_then(Scan::next_turn) {
                batch.push(fed);
            }
            if batch.is_full() && !hand_over(batches, shared, wake, Ok(batch.take())) {
                return Ok(());
            }
        }
        if let Some(scan) = scan {
            scan.end();
            while let Some(fed) = scan.next_turn() {
                batch.push(fed);
                if batch.is_full() && !hand_over(batches, shared, wake, Ok(batch.take())) {
                    return Ok(());
                }
            }
        }
        hand_over(batches, shared, wake, Ok(batch.take()));
        Ok(())
    }

    fn hand_over(&self, batch: Result<Batch, TraceError>) -> bool {
        hand_over(&self.batches, &self.shared, &self.wake, batch)
    }
}

impl Batch {
    fn push(&mut self, mut fed: Box<Fed>) {
        fed.counted_bytes = fed.held_bytes();
        self.bytes += fed.counted_bytes;
        self.items.push(fed);
    }

    fn is_full(&self) -> bool {
        self.items.len() >= BATCH_ITEMS_MAX || self.bytes >= BATCH_BYTES_MAX
    }

    fn take(&mut self) -> Batch {
        let next = Batch { items: Vec::with_capacity(BATCH_ITEMS_MAX), bytes: 0 };
        std::mem::replace(self, next)
    }
}

/// Whether anybody still listens.
fn hand_over(
    batches: &SyncSender<Result<Batch, TraceError>>,
    shared: &Shared,
    wake: &OwnedFd,
    batch: Result<Batch, TraceError>,
) -> bool {
    let is_heard = batches.send(batch).is_ok();
    if shared.is_wanted.swap(false, Ordering::SeqCst) {
        // An eventfd takes a 1 as long as nobody has written 2^64 - 2 before.
        let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
    }
    is_heard
}

/// Why no statement of a session is played; None where they are.
fn unplayed(session: &SessionSurvey) -> Option<Skipped> {
    if session.is_elsewhere {
        return Some(Skipped::OtherHost);
    }
    (!session.is_played).then_some(Skipped::OtherDatabase)
}

/// A statement with what becomes of it, in the room of one that was sent.
fn fed(
    number: u64,
    traced: &Traced<'_>,
    room: Option<Box<Fed>>,
    left: &mut [(u64, Option<Skipped>)],
    until_us: Option<i64>,
    rule: &mut Rule,
) -> Box<Fed> {
    let (left, unplayed) = &mut left[traced.statement.session.0 as usize];
    *left = left.saturating_sub(1);
    let mut fed = room.unwrap_or_default();
    fill(&mut fed.item, number, traced);
    let is_later = until_us.is_some_and(|until_us| fed.item.start_us > until_us);
    fed.skipped = if unplayed.is_some() {
        *unplayed
    } else if is_later {
        Some(Skipped::AfterUntil)
    } else {
        unlogged(traced.statement.skip).or_else(|| rule(&fed.item))
    };
    fed.commits = fed.skipped.is_none() && commits(&fed.item, traced.text);
    fed.ends = ends_transaction((traced.class, traced.statements), traced.text);
    fed.is_last = *left == 0;
    fed.access_set.clear();
    fed.ids = None;
    fed
}

fn unlogged(skip: Option<Skip>) -> Option<Skipped> {
    skip.map(Skipped::Unlogged)
}

/// Whether it may change what others see, as far as its text shows.
fn commits(item: &Item, text: &[u8]) -> bool {
    let is_written_at_once = item.class.writes()
        || matches!(item.class, Class::Copy | Class::Procedure | Class::Prepared);
    ends_in_commit((item.class, item.statements), text)
        || (item.transaction == 0 && is_written_at_once)
}

/// Makes a separate statement, in the memory of another one.
fn fill(item: &mut Item, number: u64, traced: &Traced<'_>) {
    let statement = &traced.statement;
    copy(&mut item.prepared, statement.prepared);
    copy(&mut item.sql, statement.sql);
    item.parameters.resize(statement.parameters.len(), None);
    for (kept, value) in item.parameters.iter_mut().zip(statement.parameters) {
        match (kept, value) {
            (Some(kept), Some(value)) => copy(kept, value),
            (kept, value) => kept.clone_from(value),
        }
    }
    item.number = number;
    item.session = statement.session;
    item.start_us = statement.start_us;
    item.duration_us = statement.duration_us;
    item.protocol = statement.protocol;
    item.transaction = statement.transaction;
    item.class = traced.class;
    item.fingerprint = traced.fingerprint;
    item.statements = traced.statements;
    item.rows = statement.rows;
    item.error = statement.error;
}

fn copy(into: &mut Vec<u8>, bytes: &[u8]) {
    into.clear();
    into.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};
    use seatrial_trace::TraceWriter;
    use seatrial_trace::captured::{Protocol, Session, SessionId, Sink, Statement};

    use super::*;

    /// Writes a trace of one session with so many statements, one a microsecond.
    fn write_trace(path: &Path, statements: usize) {
        let mut writer = TraceWriter::create(path, None).unwrap();
        writer.session(&Session::default()).unwrap();
        for at in 0..statements {
            let statement = Statement {
                session: SessionId(0),
                start_us: at as i64,
                duration_us: Some(100),
                reported_meanwhile: None,
                protocol: Protocol::Simple,
                prepared: b"",
                sql: b"select 1",
                parameters: &[],
                transaction: 0,
                rows: None,
                tag: None,
                returned: None,
                error: None,
                skip: None,
            };
            writer.statement(&statement).unwrap();
        }
        writer.finish(&serde_json::json!({})).unwrap();
    }

    /// A trace of so many statements, and a feed of it over few connections.
    fn feed(statements: usize) -> (tempfile::TempDir, Feed) {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("t.trace");
        write_trace(&path, statements);
        let trace = TraceReader::open(&path).unwrap();
        let survey = Survey::of(&trace, &[], None, None).unwrap();
        let rule: Rule = Box::new(|_| None);
        let stages = Stages { until_us: None, rule, scan: None, binder: None };
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let feed = Feed::start(&path, &survey, 1, stages, wake).unwrap();
        (folder, feed)
    }

    /// Takes until no more may be held; all of it.
    fn fill(feed: &mut Feed) -> Vec<Box<Fed>> {
        let mut taken = Vec::new();
        while !feed.is_full() && !feed.is_over() {
            match feed.take().unwrap() {
                Some(batch) => taken.extend(batch),
                None => std::thread::yield_now(),
            }
        }
        taken
    }

    #[test]
    fn little_is_held_until_a_session_has_to_wait_and_again_when_none_does() {
        let (_folder, mut feed) = feed(80_000);
        let mut held = fill(&mut feed);
        let narrow = feed.held_bytes;
        assert!(narrow < held_bytes_max(1) / 4, "{narrow}");
        for _ in 0..8 {
            feed.is_awaited();
            held.extend(fill(&mut feed));
        }
        let wide = feed.held_bytes;
        assert!(wide >= held_bytes_max(1) && wide < held_bytes_max(1) * 5 / 4, "{wide}");
        while feed.held_bytes > narrow * 5 / 4 && !feed.is_over() {
            feed.release(held.pop().unwrap());
            held.extend(fill(&mut feed));
        }
        assert!(!feed.is_over(), "it is held until the trace is over");
        held.into_iter().for_each(|fed| feed.release(fed));
        assert_eq!(feed.held_bytes, 0);
    }
}
