//! The trace, read ahead: once, in order, in a background thread, and only as far as memory allows.
//!
//! A page of a trace takes some milliseconds to decompress, in which the loop would not answer; so
//! a reader thread passes statements on in batches. The limit for what is buffered is
//! [`buffer_bytes_max`]; a session whose next statement is beyond it waits for the others. If no
//! session can continue before that statement was sent, reading continues
//! [further](Feed::hold_more).

#![expect(clippy::vec_box, reason = "statements go from hand to hand, and moving them costs")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use rustix::fd::OwnedFd;
use seatrial_gauge::cache;
use seatrial_sqltext::lexer::class::Class;
use seatrial_trace::{Columns, TraceError, TraceReader, Traced};

use super::drive::usage::Processor;
use super::item::{Item, Skipped};
use super::order::object_access::{AccessSet, ObjectAccess};
use super::order::scan::Scan;
use super::rewrite::binder::{Binder, IdBindings};
use super::rules::Ruling;
use super::rules::session_objects::ObjectChange;
use super::survey::{SessionSurvey, Survey, ends_in_commit, ends_transaction};

/// Limit for buffered statements with their texts, in addition to the allowance of each session.
const BUFFER_BYTES: usize = 2 << 20;

/// Buffered bytes for each connection.
const CONNECTION_BUFFER_BYTES: usize = 32 << 10;

/// Initially this fraction of the limit is used; it is doubled each time that a session has to
/// wait. Statements read long before they are sent have left the processor's caches.
const NARROW: usize = 8;

/// After the buffered statements were replaced this many times without a session having to wait,
/// the limit is halved again.
const CALM: usize = 2;

/// Limit for the buffered bytes of a trace played over this many connections.
pub fn buffer_bytes_max(connections: usize) -> usize {
    BUFFER_BYTES + connections * CONNECTION_BUFFER_BYTES
}

/// Maximum statements of a batch.
const BATCH_ITEMS_MAX: usize = 128;

/// Maximum text of a batch, plus one statement.
const BATCH_BYTES_MAX: usize = 32 << 10;

/// Maximum batches in the channel.
const BATCHES_MAX: usize = 4;

/// Maximum size of a statement whose memory is reused.
pub const REUSED_BYTES_MAX: usize = 1 << 10;

/// How much more is buffered when more has to be read ahead.
const FURTHER_BYTES: usize = 64 << 10;

/// A statement that was read and not sent yet. It is passed on in a box whose memory is reused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingStatement {
    pub item: Item,
    /// Why it is not to be sent; None if it is.
    pub skipped: Option<Skipped>,
    /// What it changes of its session's objects.
    pub changes: Vec<ObjectChange>,
    /// Whether others wait for it in the order of commits.
    pub commits: bool,
    /// Whether it is the last of its session.
    pub is_last: bool,
    /// Whether its transaction ends with it.
    pub ends: bool,
    /// What it accesses, if the order needs it.
    pub access_set: AccessSet,
    /// Its ids, if they are mapped.
    pub ids: Option<Box<IdBindings>>,
    /// Its memory when it was sent to the loop or rewritten.
    pub counted_bytes: usize,
}

impl PendingStatement {
    /// Whether its session is played.
    fn is_played(&self) -> bool {
        !matches!(self.skipped, Some(Skipped::OtherDatabase | Skipped::OtherHost))
    }

    /// Prefetches its texts, once it [itself](cache::fetch) is in the cache: they were last used by
    /// another thread.
    pub fn fetch_texts(&self) {
        let Item { sql, prepared, parameters, .. } = &self.item;
        cache::fetch(sql.as_slice());
        cache::fetch(prepared.as_slice());
        cache::fetch(parameters.as_slice());
    }

    pub fn memory_bytes(&self) -> usize {
        let item = &self.item;
        let parameter = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::capacity);
        let parameters = item.parameters.iter().map(parameter).sum::<usize>();
        let slots = item.parameters.capacity() * size_of::<Option<Vec<u8>>>();
        let access_set = self.access_set.known.capacity() * size_of::<ObjectAccess>();
        let types = item.parameter_types.as_ref().map_or(0, Vec::capacity);
        let texts = item.sql.capacity() + item.prepared.capacity() + parameters + types;
        let ids = self.ids.as_ref().map_or(0, |bound| bound.memory_bytes());
        let changes = self.changes.capacity() * size_of::<ObjectChange>();
        size_of::<PendingStatement>() + texts + slots + access_set + ids + changes
    }
}

/// Decides whether a statement is sent.
pub type Rule = Box<dyn FnMut(&Item) -> Ruling + Send>;

/// Processing of a statement in the reader.
pub struct Stages {
    /// Statements that began later are skipped, before any rule is applied.
    pub until_us: Option<i64>,
    /// Decides which statements are not sent.
    pub rule: Rule,
    /// Orders the statements, for an order that has turns.
    pub scan: Option<Scan>,
    /// Finds ids in statements, if ids are mapped.
    pub binder: Option<Binder>,
}

/// Statements that are sent to the loop together.
#[derive(Debug, Default)]
pub struct Batch {
    /// In their order.
    pub items: Vec<Box<PendingStatement>>,
    bytes: usize,
}

/// State shared by the reader and the loop.
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
    /// Statements whose memory the reader may reuse, and the channel to it.
    used: Vec<Box<PendingStatement>>,
    back: SyncSender<Vec<Box<PendingStatement>>>,
    buffered_bytes: usize,
    /// The current limit of buffered bytes.
    buffer_bytes_max: usize,
    /// The usual limit, minimum and maximum.
    usual_bytes_max: usize,
    least_bytes_max: usize,
    most_bytes_max: usize,
    /// Bytes taken since a session had to wait.
    calm_bytes: usize,
    buffered_items: u64,
    /// Maximum number of buffered statements.
    pub buffered_items_max: u64,
}

/// The reader's end.
struct Reader {
    trace: TraceReader,
    /// By session: remaining statements, and why none of them is played.
    left: Vec<(u64, Option<Skipped>)>,
    stages: Stages,
    batches: SyncSender<Result<Batch, TraceError>>,
    /// Statements that were sent, whose memory is reused: freeing memory of another thread costs
    /// more than everything else in reading.
    back: Receiver<Vec<Box<PendingStatement>>>,
    shared: Arc<Shared>,
    /// Wakes the loop.
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
            buffered_bytes: 0,
            buffer_bytes_max: buffer_bytes_max(connections) / NARROW,
            usual_bytes_max: buffer_bytes_max(connections) / NARROW,
            least_bytes_max: buffer_bytes_max(connections) / NARROW,
            most_bytes_max: buffer_bytes_max(connections),
            calm_bytes: 0,
            buffered_items: 0,
            buffered_items_max: 0,
        })
    }

    /// Whether the limit is reached.
    pub fn is_full(&self) -> bool {
        self.buffered_bytes >= self.buffer_bytes_max
    }

    /// Whether all was taken.
    pub fn is_over(&self) -> bool {
        self.batches.is_none()
    }

    /// The next batch, if there is one and it fits the limit. Where there is none yet, the reader
    /// wakes the loop as soon as there is.
    ///
    /// # Errors
    ///
    /// When the trace cannot be read or is damaged.
    pub fn take(&mut self) -> Result<Option<Vec<Box<PendingStatement>>>, TraceError> {
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
                self.buffered_bytes += batch.bytes;
                self.calm_bytes += batch.bytes;
                if self.calm_bytes > CALM * self.usual_bytes_max {
                    self.calm_bytes = 0;
                    self.usual_bytes_max = (self.usual_bytes_max / 2).max(self.least_bytes_max);
                    self.buffer_bytes_max = self.usual_bytes_max;
                }
                self.buffered_items += batch.items.len() as u64;
                self.buffered_items_max = self.buffered_items_max.max(self.buffered_items);
                Ok(Some(batch.items))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                self.batches = None;
                Ok(None)
            }
        }
    }

    /// A session waits for an unread statement. If reading stopped at the limit, the limit is
    /// doubled.
    pub fn is_awaited(&mut self) {
        self.calm_bytes = 0;
        if self.is_full() && self.usual_bytes_max < self.most_bytes_max {
            self.usual_bytes_max = (self.usual_bytes_max * 2).min(self.most_bytes_max);
            self.buffer_bytes_max = self.buffer_bytes_max.max(self.usual_bytes_max);
        }
    }

    /// A statement is no longer buffered.
    pub fn release(&mut self, pending: Box<PendingStatement>) {
        self.buffered_bytes -= pending.counted_bytes;
        self.buffered_items -= 1;
        if self.buffered_bytes < self.usual_bytes_max {
            self.buffer_bytes_max = self.usual_bytes_max;
        }
        if pending.counted_bytes <= REUSED_BYTES_MAX {
            self.used.push(pending);
        }
        if self.used.len() >= BATCH_ITEMS_MAX {
            let full = std::mem::replace(&mut self.used, Vec::with_capacity(BATCH_ITEMS_MAX));
            // A reader that has enough of them, or has ended, needs none.
            let _ = self.back.try_send(full);
        }
    }

    /// A buffered statement was rewritten, and its size has changed.
    pub fn resize(&mut self, pending: &mut PendingStatement) {
        let now_bytes = pending.memory_bytes();
        self.buffered_bytes = self.buffered_bytes - pending.counted_bytes + now_bytes;
        pending.counted_bytes = now_bytes;
    }

    /// Raises the limit until less is buffered again.
    pub fn hold_more(&mut self) {
        self.buffer_bytes_max = self.buffered_bytes + FURTHER_BYTES;
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

    /// Reads the whole trace; ends early when the receiver is gone.
    fn read(&mut self, left: &mut [(u64, Option<Skipped>)]) -> Result<(), TraceError> {
        let Reader { trace, stages, batches, back, shared, wake, .. } = self;
        let Stages { until_us, rule, scan, binder } = stages;
        let mut statements = trace.statements(Columns::All);
        let mut batch = Batch::default();
        let mut number = 0;
        let mut spare: Vec<Box<PendingStatement>> = Vec::new();
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
            let mut pending = prepare(number, &traced, room, left, *until_us, rule);
            if let Some(binder) = binder.as_mut().filter(|_| pending.is_played()) {
                pending.ids = binder.bind(&mut pending.item, pending.skipped.is_none());
            }
            number += 1;
            match scan {
                Some(scan) => scan.take_in(pending),
                None => batch.push(pending),
            }
            while let Some(pending) = scan.as_mut().and_then(Scan::next_turn) {
                batch.push(pending);
            }
            if batch.is_full() && !hand_over(batches, shared, wake, Ok(batch.take())) {
                return Ok(());
            }
        }
        if let Some(scan) = scan {
            scan.end();
            while let Some(pending) = scan.next_turn() {
                batch.push(pending);
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
    fn push(&mut self, mut pending: Box<PendingStatement>) {
        pending.counted_bytes = pending.memory_bytes();
        self.bytes += pending.counted_bytes;
        self.items.push(pending);
    }

    fn is_full(&self) -> bool {
        self.items.len() >= BATCH_ITEMS_MAX || self.bytes >= BATCH_BYTES_MAX
    }

    fn take(&mut self) -> Batch {
        let next = Batch { items: Vec::with_capacity(BATCH_ITEMS_MAX), bytes: 0 };
        std::mem::replace(self, next)
    }
}

/// Sends a batch; returns whether the loop still receives.
fn hand_over(
    batches: &SyncSender<Result<Batch, TraceError>>,
    shared: &Shared,
    wake: &OwnedFd,
    batch: Result<Batch, TraceError>,
) -> bool {
    let is_heard = batches.send(batch).is_ok();
    if shared.is_wanted.swap(false, Ordering::SeqCst) {
        // An eventfd takes a 1 unless its value is 2^64 - 2.
        let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
    }
    is_heard
}

/// Why no statement of a session is played; None if they are.
fn unplayed(session: &SessionSurvey) -> Option<Skipped> {
    if session.is_elsewhere {
        return Some(Skipped::OtherHost);
    }
    (!session.is_played).then_some(Skipped::OtherDatabase)
}

/// A statement with its outcome, in the memory of one that was sent.
fn prepare(
    number: u64,
    traced: &Traced<'_>,
    room: Option<Box<PendingStatement>>,
    left: &mut [(u64, Option<Skipped>)],
    until_us: Option<i64>,
    rule: &mut Rule,
) -> Box<PendingStatement> {
    let (left, unplayed) = &mut left[traced.statement.session.0 as usize];
    *left = left.saturating_sub(1);
    let mut pending = room.unwrap_or_default();
    fill(&mut pending.item, number, traced);
    let is_later = until_us.is_some_and(|until_us| pending.item.start_us > until_us);
    let later = is_later.then_some(Skipped::AfterUntil);
    let skipped = unplayed.or(later).or_else(|| traced.statement.skip.map(Skipped::Unlogged));
    let ruling = match skipped {
        Some(_) => Ruling { skipped, ..Ruling::default() },
        None => rule(&pending.item),
    };
    pending.skipped = ruling.skipped;
    pending.changes = ruling.changes;
    pending.commits = pending.skipped.is_none() && commits(&pending.item, traced.text);
    pending.ends = ends_transaction((traced.class, traced.statements), traced.text);
    pending.is_last = *left == 0;
    pending.access_set.clear();
    pending.ids = None;
    pending
}

/// Whether it may change what others see, according to its text.
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
    item.parameter_types = statement.parameter_types.map(<[u8]>::to_vec);
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
    use seatrial_trace::captured::{Session, Sink, Statement};

    use super::*;

    /// Writes a trace of one session with the given number of statements, one a microsecond.
    fn write_trace(path: &Path, statements: usize) {
        let mut writer = TraceWriter::create(path, None).unwrap();
        writer.session(&Session::default()).unwrap();
        for at in 0..statements {
            let statement = Statement {
                start_us: at as i64,
                duration_us: Some(100),
                sql: b"select 1",
                ..Statement::default()
            };
            writer.statement(&statement).unwrap();
        }
        writer.finish(&serde_json::json!({})).unwrap();
    }

    /// A trace of the given number of statements, and a feed of it over few connections.
    fn feed(statements: usize) -> (tempfile::TempDir, Feed) {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("t.trace");
        write_trace(&path, statements);
        let trace = TraceReader::open(&path).unwrap();
        let survey = Survey::of(&trace, &[], None, None).unwrap();
        let rule: Rule = Box::new(|_| Ruling::default());
        let stages = Stages { until_us: None, rule, scan: None, binder: None };
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let feed = Feed::start(&path, &survey, 1, stages, wake).unwrap();
        (folder, feed)
    }

    /// Takes batches until the limit or the end.
    fn fill(feed: &mut Feed) -> Vec<Box<PendingStatement>> {
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
    fn read_ahead_grows_when_a_session_waits_and_shrinks_again() {
        let (_folder, mut feed) = feed(80_000);
        let mut buffered = fill(&mut feed);
        let narrow = feed.buffered_bytes;
        assert!(narrow < buffer_bytes_max(1) / 4, "{narrow}");
        for _ in 0..8 {
            feed.is_awaited();
            buffered.extend(fill(&mut feed));
        }
        let wide = feed.buffered_bytes;
        assert!(wide >= buffer_bytes_max(1) && wide < buffer_bytes_max(1) * 5 / 4, "{wide}");
        while feed.buffered_bytes > narrow * 5 / 4 && !feed.is_over() {
            feed.release(buffered.pop().unwrap());
            buffered.extend(fill(&mut feed));
        }
        assert!(!feed.is_over(), "it is not over while statements are buffered");
        buffered.into_iter().for_each(|pending| feed.release(pending));
        assert_eq!(feed.buffered_bytes, 0);
    }
}
