//! Who waits for whom: statements in their turns, and those before them with whom they conflict.
//!
//! - A statement is sent when those before it with whom it conflicts are done.
//! - What a transaction wrote, its end writes: who comes behind that end waits for it, and it
//!   waits for those before it who must not see what was written. What is checked only then, it
//!   reads.
//! - Waiting goes from later turns to earlier ones only, so the first turn of all that is not done
//!   may always go.
//! - Locks of the server are another matter: they show in what the server works on, and the order
//!   is [changed](EdgeOrder::wait_for_locks) then, in the same way whatever overlaps.

use std::collections::BTreeSet;
use std::time::Instant;

use seatrial_trace::captured::SessionId;

use super::OrderPosition;
use super::graph::{Because, Graph, NodeId};
use super::last::Last;
use super::object_access::{AccessSet, ObjectAccess};

/// Limit for the separate objects that a transaction wrote; beyond that, whole tables.
const WRITTEN_MAX: usize = 1_024;

/// One statement in this many is timed.
const TIMED_EVERY: u64 = 16;

/// The place of who has no node.
const NO_NODE: u64 = u64::MAX;

/// What keeps its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// Statements that touch the same object.
    Object,
    /// Statements that touch the same rows, as far as keys show.
    Key,
    /// All of them.
    All,
}

/// What the order has to know of a statement, in the order of turns.
#[derive(Clone, Copy, Debug)]
pub struct Turned<'a> {
    /// Its session.
    pub session: SessionId,
    /// Its transaction in that session; 0 for none.
    pub transaction: u64,
    /// Whether its transaction ends with it.
    pub ends: bool,
    /// Whether it will be sent, as far as is known.
    pub is_sent: bool,
    /// What it touches.
    pub access_set: &'a AccessSet,
}

/// A statement that waits for a lock of another session's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWait {
    /// Whose statement waits.
    pub waiter: SessionId,
    /// Its place.
    pub place: OrderPosition,
    /// Whose lock it waits for.
    pub blocker: SessionId,
    /// The next statement of that session, if the order holds it back.
    pub next: Option<OrderPosition>,
    /// The end of its transaction, if that was read.
    pub end: Option<OrderPosition>,
}

/// Those waits that last until a session is released: for a session that is delayed, or that waits
/// so itself.
fn never_ending(waits: &[LockWait]) -> Vec<LockWait> {
    let held: Vec<SessionId> =
        waits.iter().filter(|wait| wait.next.is_some()).map(|wait| wait.blocker).collect();
    let mut lasting: Vec<LockWait> = held.iter().flat_map(|&one| waiters_for(one, waits)).collect();
    lasting.sort_unstable_by_key(|wait| (wait.waiter, wait.blocker));
    lasting.dedup();
    lasting
}

/// Waits for a session, and for those who wait so for it.
fn waiters_for(session: SessionId, waits: &[LockWait]) -> impl Iterator<Item = LockWait> {
    let mut waited_for = vec![session];
    let mut known = 0;
    let mut found = Vec::new();
    while let Some(&blocker) = waited_for.get(known) {
        known += 1;
        for wait in waits.iter().filter(|wait| wait.blocker == blocker) {
            found.push(*wait);
            if !waited_for.contains(&wait.waiter) {
                waited_for.push(wait.waiter);
            }
        }
    }
    found.into_iter()
}

/// Sessions that one waits for, through others too.
fn blockers_of(session: SessionId, waits: &[LockWait]) -> Vec<SessionId> {
    let mut found = vec![session];
    let mut known = 0;
    while let Some(&waiter) = found.get(known) {
        known += 1;
        for wait in waits.iter().filter(|wait| wait.waiter == waiter) {
            if !found.contains(&wait.blocker) {
                found.push(wait.blocker);
            }
        }
    }
    found.split_off(1)
}

/// Where a statement is in the order by now: its turn, or the path to the end behind which it was
/// moved, and its turn behind that. So a moved statement gets the same place, whenever it is moved.
type Path = Vec<u64>;

/// A statement that is not done.
#[derive(Clone, Debug)]
struct Entry {
    node: Option<NodeId>,
    session: SessionId,
    path: Path,
    turn: u64,
    access_set: AccessSet,
    /// Whether its transaction ends with it.
    ends: bool,
    /// The statement after it in its session.
    next: Option<NodeId>,
    /// Statements of other sessions that were sent and wait for its locks: they complete as soon as
    /// it does.
    lets_go: Vec<NodeId>,
}

impl Entry {
    fn new() -> Entry {
        Entry {
            node: None,
            session: SessionId(0),
            path: Vec::new(),
            turn: 0,
            access_set: AccessSet::default(),
            ends: false,
            next: None,
            lets_go: Vec::new(),
        }
    }
}

/// What a session's transaction wrote so far, and what else its end touches.
#[derive(Clone, Debug, Default)]
struct Open {
    transaction: u64,
    wrote: AccessSet,
    last: Option<NodeId>,
}

/// What the order cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Edges that were made, those that were made anew too.
    pub edges: u64,
    /// Statements that were put in their places.
    pub statements: u64,
    /// Those of them that were timed.
    pub timed: u64,
    /// What they took.
    pub timed_ns: u64,
    /// What it took to make edges anew, for statements that were given a later turn.
    pub anew_ns: u64,
    /// Statements that were given a later turn, as they waited for locks.
    pub postponed: u64,
}

impl Cost {
    /// What a statement took, whether it had edges or none.
    pub fn statement_ns(&self) -> Option<f64> {
        let first_ns = || self.timed_ns as f64 / self.timed as f64;
        let anew_ns = || self.anew_ns as f64 / self.statements as f64;
        (self.timed > 0).then(|| first_ns() + anew_ns())
    }

    /// What an edge took, with all that it takes to find it. None where there are fewer edges than
    /// statements: then the time is not theirs, but of statements that have none.
    pub fn edge_ns(&self) -> Option<f64> {
        let statement_ns = self.statement_ns().filter(|_| self.edges >= self.statements)?;
        Some(statement_ns * self.statements as f64 / self.edges as f64)
    }
}

/// Statements that wait for those with whom they conflict.
#[derive(Debug)]
pub struct EdgeOrder {
    grain: Grain,
    graph: Graph,
    last: Last,
    /// By the places of nodes.
    entries: Vec<Entry>,
    /// What a statement touches, without regard to rows.
    coarse: AccessSet,
    /// The one before, where all keep their order.
    before: Option<NodeId>,
    sessions: Vec<Open>,
    /// Sessions whose next statement is delayed.
    held: BTreeSet<(OrderPosition, SessionId)>,
    turns: u64,
    cost: Cost,
}

impl EdgeOrder {
    /// An order of `sessions` sessions.
    pub fn new(grain: Grain, sessions: usize) -> EdgeOrder {
        EdgeOrder {
            grain,
            graph: Graph::default(),
            last: Last::default(),
            entries: Vec::new(),
            coarse: AccessSet::default(),
            before: None,
            sessions: vec![Open::default(); sessions],
            held: BTreeSet::new(),
            turns: 0,
            cost: Cost::default(),
        }
    }

    /// Takes in the statement whose turn is next and returns its place.
    pub fn take_in(&mut self, turned: &Turned<'_>) -> OrderPosition {
        let turn = self.turns;
        self.turns += 1;
        if !turned.is_sent {
            return (turn as i64, NO_NODE);
        }
        let begun = (turn % TIMED_EVERY == 0).then(Instant::now);
        let node = self.add(turned, turn);
        self.cost.statements += 1;
        if let Some(begun) = begun {
            self.cost.timed += 1;
            self.cost.timed_ns += begun.elapsed().as_nanos() as u64;
        }
        (turn as i64, node.to_bits())
    }

    fn add(&mut self, turned: &Turned<'_>, turn: u64) -> NodeId {
        let session = turned.session.0;
        let node = self.graph.statement(session, turn, turned.ends);
        if self.entries.len() <= node.place() {
            self.entries.resize_with(node.place() + 1, Entry::new);
        }
        let open = &mut self.sessions[session as usize];
        if let Some(last) = open.last.replace(node).filter(|&last| self.graph.is_alive(last)) {
            self.graph.follows(last, node);
            self.entries[last.place()].next = Some(node);
        }
        let entry = &mut self.entries[node.place()];
        (entry.node, entry.turn, entry.next) = (Some(node), turn, None);
        (entry.session, entry.ends) = (turned.session, turned.ends);
        entry.path.clear();
        entry.path.push(turn);
        entry.lets_go.clear();
        open.object_access(turned, &mut entry.access_set);
        self.join(node);
        node
    }

    /// Lets a statement wait for those before it.
    fn join(&mut self, node: NodeId) {
        if self.grain == Grain::All {
            if let Some(before) = self.before.replace(node) {
                self.graph.wait(before, node, Because::Order);
            }
            return;
        }
        let lets_go = &self.entries[node.place()].lets_go;
        // A statement before one that it releases is before it.
        for &one in lets_go.iter().chain([&node]) {
            if !self.graph.is_alive(one) {
                continue;
            }
            let access_set = &self.entries[one.place()].access_set;
            if self.grain == Grain::Key {
                self.last.take_in(&mut self.graph, node, access_set);
            } else {
                self.coarse.of_whole_objects(access_set);
                self.last.take_in(&mut self.graph, node, &self.coarse);
            }
        }
    }

    /// A statement was answered, skipped or lost.
    pub fn done(&mut self, place: OrderPosition) {
        if let Some(node) = node_at(place) {
            self.graph.answered(node);
        }
    }

    /// Whether nothing that a statement waits for is left to be done.
    pub fn may_go(&self, place: OrderPosition) -> bool {
        node_at(place).is_none_or(|node| self.graph.is_free(node))
    }

    /// Holds a session's next statement back.
    pub fn hold(&mut self, place: OrderPosition, session: SessionId) {
        self.held.insert((place, session));
    }

    /// One of those that are held and may go by now; it is no longer held.
    pub fn next_free(&mut self) -> Option<(OrderPosition, SessionId)> {
        while let Some((node, session, turn)) = self.graph.next_free() {
            let held = ((turn as i64, node.to_bits()), SessionId(session));
            if self.held.remove(&held) {
                return Some(held);
            }
        }
        None
    }

    /// The first of those that are held, whether it may go or not; it is no longer held.
    pub fn pop_first(&mut self) -> Option<(OrderPosition, SessionId)> {
        self.held.pop_first()
    }

    /// One is released before its turn.
    pub fn release(&mut self, place: OrderPosition, session: SessionId) {
        self.held.remove(&(place, session));
    }

    /// For what a statement waited last.
    pub fn because(&self, place: OrderPosition) -> Because {
        node_at(place).map_or(Because::Order, |node| self.graph.because(node))
    }

    /// Statements wait for locks of transactions that the order delays: they complete when these
    /// have ended, and what follows them in their sessions then; so all of these are moved behind
    /// the ends.
    pub fn wait_for_locks(&mut self, waits: &[LockWait]) {
        let waits = never_ending(waits);
        let mut is_changed = false;
        // One that is moved may be another one's end.
        for _ in 0..=waits.len() {
            let by_waiter = waits.chunk_by(|one, other| one.waiter == other.waiter);
            let moved = by_waiter.filter(|of_one| self.moves(of_one, &waits)).count();
            is_changed |= moved > 0;
            if moved == 0 {
                break;
            }
        }
        if is_changed {
            let begun = Instant::now();
            self.join_anew();
            self.cost.anew_ns += begun.elapsed().as_nanos() as u64;
        }
    }

    /// Moves a statement behind the last of the ends that it waits for, and with it those behind it
    /// that conflict: sent now, they might get a lock before it. False if it is there.
    fn moves(&mut self, of_one: &[LockWait], all: &[LockWait]) -> bool {
        let Some(first) = of_one.first() else { return false };
        let all_that_was_read = vec![self.turns.saturating_sub(1)];
        let end = |wait: &LockWait| match wait.end.and_then(node_at) {
            Some(end) if self.graph.is_alive(end) => {
                (self.entries[end.place()].path.clone(), Some(end))
            }
            _ => (all_that_was_read.clone(), None),
        };
        let last = of_one.iter().map(end).max_by(|one, other| one.0.cmp(&other.0));
        let waiter = node_at(first.place).filter(|&waiter| self.graph.is_alive(waiter));
        let Some(((path, end), waiter)) = last.zip(waiter) else { return false };
        if self.entries[waiter.place()].path > path {
            return false;
        }
        let with_it = self.conflicting_behind(waiter, &path, &blockers_of(first.waiter, all));
        if let Some(end) = end {
            self.entries[end.place()].lets_go.push(waiter);
        }
        self.moves_session(waiter, &path);
        with_it.into_iter().for_each(|one| self.moves_session(one, &path));
        true
    }

    /// Statements behind one and before an end that may wait for a lock of it, or of one of these;
    /// but for those of sessions that it waits for.
    fn conflicting_behind(&self, one: NodeId, end: &Path, but: &[SessionId]) -> Vec<NodeId> {
        let is_alive = |entry: &Entry| entry.node.is_some_and(|node| self.graph.is_alive(node));
        let is_meant = |entry: &&Entry| {
            !entry.ends && entry.path < *end && is_alive(entry) && !but.contains(&entry.session)
        };
        let mut rest: Vec<&Entry> = self.entries.iter().filter(is_meant).collect();
        let mut found = vec![&self.entries[one.place()]];
        let mut known = 0;
        while let Some(&first) = found.get(known) {
            known += 1;
            let conflicts = |entry: &&Entry| {
                entry.path > first.path && entry.access_set.lock_the_same(&first.access_set)
            };
            let (more, left) = rest.into_iter().partition(conflicts);
            rest = left;
            found.extend::<Vec<&Entry>>(more);
        }
        found.into_iter().skip(1).filter_map(|entry| entry.node).collect()
    }

    /// Moves a statement and what follows it in its session behind an end.
    fn moves_session(&mut self, first: NodeId, path: &Path) {
        let mut next = Some(first);
        while let Some(node) = next.filter(|&node| self.graph.is_alive(node)) {
            let entry = &mut self.entries[node.place()];
            if entry.path > *path {
                break;
            }
            let has_its_own_turn = entry.path.len() == 1;
            self.cost.postponed += u64::from(has_its_own_turn);
            entry.path.clone_from(path);
            entry.path.push(entry.turn);
            next = entry.next;
        }
    }

    /// Lets all wait anew, in the order as it is by now.
    fn join_anew(&mut self) {
        self.graph.forget_edges();
        self.last = Last::default();
        self.before = None;
        let entries = self.entries.iter();
        let alive =
            entries.filter(|entry| entry.node.is_some_and(|node| self.graph.is_alive(node)));
        let mut all: Vec<(&Path, NodeId)> =
            alive.filter_map(|entry| Some((&entry.path, entry.node?))).collect();
        all.sort_unstable_by_key(|&(path, _)| path);
        let all: Vec<NodeId> = all.into_iter().map(|(_, node)| node).collect();
        all.into_iter().for_each(|node| self.join(node));
        self.graph.settle_all();
    }

    /// What it cost so far.
    pub fn cost(&self) -> Cost {
        Cost { edges: self.graph.edges(), ..self.cost }
    }

    /// Statements and meetings of statements that are not done.
    pub fn alive(&self) -> usize {
        self.graph.alive()
    }

    /// Its memory, without the overhead of maps.
    pub fn memory_bytes(&self) -> usize {
        let own = |entry: &Entry| {
            let access_set = entry.access_set.known.capacity() * size_of::<ObjectAccess>();
            size_of::<Entry>() + entry.path.capacity() * size_of::<u64>() + access_set
        };
        let entries = self.entries.iter().map(own).sum::<usize>();
        self.graph.memory_bytes() + self.last.memory_bytes() + entries
    }
}

impl Open {
    /// What a statement touches, and with the end of a transaction all that this wrote.
    fn object_access(&mut self, turned: &Turned<'_>, access_set: &mut AccessSet) {
        access_set.anything = turned.access_set.anything;
        access_set.known.clone_from(&turned.access_set.known);
        let has_ended_unseen = self.transaction != turned.transaction;
        if turned.ends || has_ended_unseen {
            access_set.known.append(&mut self.wrote.known);
            access_set.anything = access_set.anything.max(self.wrote.anything.take());
        }
        self.transaction = if turned.ends { 0 } else { turned.transaction };
        if self.transaction > 0 {
            self.write(turned.access_set);
        }
    }

    /// Notes what others will see when the transaction has ended.
    fn write(&mut self, access_set: &AccessSet) {
        self.wrote.anything =
            self.wrote.anything.max(access_set.anything.filter(|all| all.changes()));
        let known = &mut self.wrote.known;
        let written = access_set.known.iter().filter(|object_access| object_access.mode.changes());
        let written = written.filter(|object_access| object_access.object.is_transactional());
        for object_access in written.chain(&access_set.at_end) {
            if !known.iter().rev().take(16).any(|one| one == object_access) {
                known.push(*object_access);
            }
        }
        if known.len() > WRITTEN_MAX {
            known.iter_mut().for_each(|object_access| {
                *object_access = ObjectAccess::whole(object_access.object, object_access.mode)
            });
            known.sort_unstable();
            known.dedup();
        }
    }
}

fn node_at(place: OrderPosition) -> Option<NodeId> {
    (place.1 != NO_NODE).then(|| NodeId::from_bits(place.1))
}
