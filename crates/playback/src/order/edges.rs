//! The orders object, key and strict: a statement waits for earlier ones with which it conflicts.
//!
//! - A statement is sent when the earlier conflicting ones are done.
//! - The end of a transaction writes what the transaction wrote: later readers wait for that end,
//!   and it waits for earlier statements that must not see what was written. It reads what is
//!   checked only then.
//! - Later turns wait for earlier ones only, so the first turn that is not done may always be sent.
//! - Waits for locks of the server are different: if one is reported, the order is
//!   [changed](EdgeOrder::wait_for_locks), in the same way however statements overlap.

use std::collections::BTreeSet;
use std::time::Instant;

use seatrial_trace::captured::SessionId;

use super::OrderPosition;
use super::graph::{Graph, NodeId, WaitReason};
use super::last_accesses::LastAccesses;
use super::object_access::{AccessSet, ObjectAccess};

/// Limit for the separate objects that a transaction wrote; beyond it, whole tables count.
const WRITTEN_MAX: usize = 1_024;

/// One statement in this many is timed.
const TIMED_EVERY: u64 = 16;

/// The node of a statement without one.
const NO_NODE: u64 = u64::MAX;

/// Which statements keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// Statements that access the same object.
    Object,
    /// Statements that access the same rows, as far as keys show.
    Key,
    All,
}

/// A statement, in the order of turns.
#[derive(Clone, Copy, Debug)]
pub struct OrderedStatement<'a> {
    pub session: SessionId,
    /// Its transaction in that session; 0 for none.
    pub transaction: u64,
    /// Whether its transaction ends with it.
    pub ends: bool,
    /// Whether it will be sent, as far as known.
    pub is_sent: bool,
    pub access_set: &'a AccessSet,
}

/// A statement that waits for a lock of another session's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWait {
    /// The session that waits.
    pub waiter: SessionId,
    pub position: OrderPosition,
    /// The session that holds the lock.
    pub blocker: SessionId,
    /// The next statement of that session, if the order delays it.
    pub next: Option<OrderPosition>,
    /// The end of its transaction, if read.
    pub end: Option<OrderPosition>,
}

/// The waits that last until a session is released: for a session that is delayed, or that itself
/// waits for one.
fn lasting_waits(waits: &[LockWait]) -> Vec<LockWait> {
    let delayed: Vec<SessionId> =
        waits.iter().filter(|wait| wait.next.is_some()).map(|wait| wait.blocker).collect();
    let mut lasting: Vec<LockWait> =
        delayed.iter().flat_map(|&one| waiters_for(one, waits)).collect();
    lasting.sort_unstable_by_key(|wait| (wait.waiter, wait.blocker));
    lasting.dedup();
    lasting
}

/// Waits for a session, directly or through others.
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

/// Sessions that one waits for, directly or through others.
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
/// moved, and its turn behind that. So a moved statement gets the same position, whenever it is
/// moved.
type OrderPath = Vec<u64>;

/// A statement that is not done.
#[derive(Clone, Debug)]
struct Entry {
    node: Option<NodeId>,
    session: SessionId,
    path: OrderPath,
    turn: u64,
    access_set: AccessSet,
    /// Whether its transaction ends with it.
    ends: bool,
    /// The statement after it in its session.
    next: Option<NodeId>,
    /// Sent statements of other sessions that wait for its locks: they complete as soon as it does.
    unblocks: Vec<NodeId>,
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
            unblocks: Vec::new(),
        }
    }
}

/// What a session's transaction has written so far, and what else its end accesses.
#[derive(Clone, Debug, Default)]
struct OpenTransaction {
    transaction: u64,
    wrote: AccessSet,
    last: Option<NodeId>,
}

/// The cost of the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Edges made, including rebuilt ones.
    pub edges: u64,
    /// Statements that were ordered.
    pub statements: u64,
    /// Those of them that were timed.
    pub timed: u64,
    /// Their time.
    pub timed_ns: u64,
    /// Time for rebuilding edges after postponements.
    pub rebuild_ns: u64,
    /// Statements that were postponed because they waited for locks.
    pub postponed: u64,
}

impl Cost {
    /// Time per statement, with or without edges.
    pub fn statement_ns(&self) -> Option<f64> {
        let first_ns = || self.timed_ns as f64 / self.timed as f64;
        let rebuild_ns = || self.rebuild_ns as f64 / self.statements as f64;
        (self.timed > 0).then(|| first_ns() + rebuild_ns())
    }

    /// Time per edge, including the search for it. None if there are fewer edges than statements:
    /// then most of the time is for statements without edges.
    pub fn edge_ns(&self) -> Option<f64> {
        let statement_ns = self.statement_ns().filter(|_| self.edges >= self.statements)?;
        Some(statement_ns * self.statements as f64 / self.edges as f64)
    }
}

/// Statements that wait for those with which they conflict.
#[derive(Debug)]
pub struct EdgeOrder {
    granularity: Granularity,
    graph: Graph,
    last: LastAccesses,
    /// By node index.
    entries: Vec<Entry>,
    /// The accesses of a statement, by whole objects.
    coarse: AccessSet,
    /// The previous statement, if all keep their order.
    before: Option<NodeId>,
    sessions: Vec<OpenTransaction>,
    /// Sessions whose next statement is delayed.
    delayed: BTreeSet<(OrderPosition, SessionId)>,
    turns: u64,
    cost: Cost,
}

impl EdgeOrder {
    /// An order of `sessions` sessions.
    pub fn new(granularity: Granularity, sessions: usize) -> EdgeOrder {
        EdgeOrder {
            granularity,
            graph: Graph::default(),
            last: LastAccesses::default(),
            entries: Vec::new(),
            coarse: AccessSet::default(),
            before: None,
            sessions: vec![OpenTransaction::default(); sessions],
            delayed: BTreeSet::new(),
            turns: 0,
            cost: Cost::default(),
        }
    }

    /// Adds the statement with the next turn and returns its position.
    pub fn take_in(&mut self, ordered: &OrderedStatement<'_>) -> OrderPosition {
        let turn = self.turns;
        self.turns += 1;
        if !ordered.is_sent {
            return (turn as i64, NO_NODE);
        }
        let begun = (turn % TIMED_EVERY == 0).then(Instant::now);
        let node = self.add(ordered, turn);
        self.cost.statements += 1;
        if let Some(begun) = begun {
            self.cost.timed += 1;
            self.cost.timed_ns += begun.elapsed().as_nanos() as u64;
        }
        (turn as i64, node.to_bits())
    }

    fn add(&mut self, ordered: &OrderedStatement<'_>, turn: u64) -> NodeId {
        let session = ordered.session.0;
        let node = self.graph.statement(session, turn, ordered.ends);
        if self.entries.len() <= node.index() {
            self.entries.resize_with(node.index() + 1, Entry::new);
        }
        let open = &mut self.sessions[session as usize];
        if let Some(last) = open.last.replace(node).filter(|&last| self.graph.is_alive(last)) {
            self.graph.follows(last, node);
            self.entries[last.index()].next = Some(node);
        }
        let entry = &mut self.entries[node.index()];
        (entry.node, entry.turn, entry.next) = (Some(node), turn, None);
        (entry.session, entry.ends) = (ordered.session, ordered.ends);
        entry.path.clear();
        entry.path.push(turn);
        entry.unblocks.clear();
        open.object_access(ordered, &mut entry.access_set);
        self.add_edges(node);
        node
    }

    /// Makes a statement wait for earlier ones with which it conflicts.
    fn add_edges(&mut self, node: NodeId) {
        if self.granularity == Granularity::All {
            if let Some(before) = self.before.replace(node) {
                self.graph.wait(before, node, WaitReason::Order);
            }
            return;
        }
        let unblocks = &self.entries[node.index()].unblocks;
        // A statement before one that it releases is before it.
        for &one in unblocks.iter().chain([&node]) {
            if !self.graph.is_alive(one) {
                continue;
            }
            let access_set = &self.entries[one.index()].access_set;
            if self.granularity == Granularity::Key {
                self.last.take_in(&mut self.graph, node, access_set);
            } else {
                self.coarse.of_whole_objects(access_set);
                self.last.take_in(&mut self.graph, node, &self.coarse);
            }
        }
    }

    /// A statement was answered, skipped or lost.
    pub fn done(&mut self, position: OrderPosition) {
        if let Some(node) = node_at(position) {
            self.graph.answered(node);
        }
    }

    /// Whether a statement waits for nothing.
    pub fn may_send(&self, position: OrderPosition) -> bool {
        node_at(position).is_none_or(|node| self.graph.is_ready(node))
    }

    /// Delays a session's next statement.
    pub fn delay(&mut self, position: OrderPosition, session: SessionId) {
        self.delayed.insert((position, session));
    }

    /// Removes and returns a delayed statement that may be sent by now.
    pub fn next_ready(&mut self) -> Option<(OrderPosition, SessionId)> {
        while let Some((node, session, turn)) = self.graph.next_ready() {
            let delayed = ((turn as i64, node.to_bits()), SessionId(session));
            if self.delayed.remove(&delayed) {
                return Some(delayed);
            }
        }
        None
    }

    /// Removes and returns the first delayed statement, whether it may be sent or not.
    pub fn pop_first(&mut self) -> Option<(OrderPosition, SessionId)> {
        self.delayed.pop_first()
    }

    /// A statement is released before its turn.
    pub fn release(&mut self, position: OrderPosition, session: SessionId) {
        self.delayed.remove(&(position, session));
    }

    /// What a statement waited for last.
    pub fn wait_reason(&self, position: OrderPosition) -> WaitReason {
        node_at(position).map_or(WaitReason::Order, |node| self.graph.wait_reason(node))
    }

    /// Statements wait for locks of transactions that the order delays: they complete when these
    /// have ended, and what follows them in their sessions then; so all of these are moved behind
    /// the ends.
    pub fn wait_for_locks(&mut self, waits: &[LockWait]) {
        let waits = lasting_waits(waits);
        let mut is_changed = false;
        // One that is moved may be another one's end.
        for _ in 0..=waits.len() {
            let by_waiter = waits.chunk_by(|one, other| one.waiter == other.waiter);
            let moved = by_waiter.filter(|of_one| self.postpone(of_one, &waits)).count();
            is_changed |= moved > 0;
            if moved == 0 {
                break;
            }
        }
        if is_changed {
            let begun = Instant::now();
            self.rebuild_edges();
            self.cost.rebuild_ns += begun.elapsed().as_nanos() as u64;
        }
    }

    /// Moves a statement, with conflicting ones behind it, behind the last of the ends that it
    /// waits for: sent now, they might get a lock before it. False if it is there already.
    fn postpone(&mut self, of_one: &[LockWait], all: &[LockWait]) -> bool {
        let Some(first) = of_one.first() else { return false };
        let all_that_was_read = vec![self.turns.saturating_sub(1)];
        let end = |wait: &LockWait| match wait.end.and_then(node_at) {
            Some(end) if self.graph.is_alive(end) => {
                (self.entries[end.index()].path.clone(), Some(end))
            }
            _ => (all_that_was_read.clone(), None),
        };
        let last = of_one.iter().map(end).max_by(|one, other| one.0.cmp(&other.0));
        let waiter = node_at(first.position).filter(|&waiter| self.graph.is_alive(waiter));
        let Some(((path, end), waiter)) = last.zip(waiter) else { return false };
        if self.entries[waiter.index()].path > path {
            return false;
        }
        let with_it = self.conflicting_behind(waiter, &path, &blockers_of(first.waiter, all));
        if let Some(end) = end {
            self.entries[end.index()].unblocks.push(waiter);
        }
        self.postpone_session(waiter, &path);
        with_it.into_iter().for_each(|one| self.postpone_session(one, &path));
        true
    }

    /// Statements between one and an end that may wait for a lock of it or of those found, except
    /// for those of sessions that it waits for.
    fn conflicting_behind(&self, one: NodeId, end: &OrderPath, but: &[SessionId]) -> Vec<NodeId> {
        let is_alive = |entry: &Entry| entry.node.is_some_and(|node| self.graph.is_alive(node));
        let is_meant = |entry: &&Entry| {
            !entry.ends && entry.path < *end && is_alive(entry) && !but.contains(&entry.session)
        };
        let mut rest: Vec<&Entry> = self.entries.iter().filter(is_meant).collect();
        let mut found = vec![&self.entries[one.index()]];
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

    /// Moves a statement and its successors in the session behind an end.
    fn postpone_session(&mut self, first: NodeId, path: &OrderPath) {
        let mut next = Some(first);
        while let Some(node) = next.filter(|&node| self.graph.is_alive(node)) {
            let entry = &mut self.entries[node.index()];
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

    /// Rebuilds all edges in the current order.
    fn rebuild_edges(&mut self) {
        self.graph.forget_edges();
        self.last = LastAccesses::default();
        self.before = None;
        let entries = self.entries.iter();
        let alive =
            entries.filter(|entry| entry.node.is_some_and(|node| self.graph.is_alive(node)));
        let mut all: Vec<(&OrderPath, NodeId)> =
            alive.filter_map(|entry| Some((&entry.path, entry.node?))).collect();
        all.sort_unstable_by_key(|&(path, _)| path);
        let all: Vec<NodeId> = all.into_iter().map(|(_, node)| node).collect();
        all.into_iter().for_each(|node| self.add_edges(node));
        self.graph.settle_all();
    }

    /// What it cost so far.
    pub fn cost(&self) -> Cost {
        Cost { edges: self.graph.edges(), ..self.cost }
    }

    /// Number of statements and barriers that are not done.
    #[cfg(test)]
    pub fn alive(&self) -> usize {
        self.graph.alive()
    }

    /// Its memory, without the overhead of maps.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        let own = |entry: &Entry| {
            let access_set = entry.access_set.known.capacity() * size_of::<ObjectAccess>();
            size_of::<Entry>() + entry.path.capacity() * size_of::<u64>() + access_set
        };
        let entries = self.entries.iter().map(own).sum::<usize>();
        self.graph.memory_bytes() + self.last.memory_bytes() + entries
    }
}

impl OpenTransaction {
    /// The accesses of a statement; for the end of a transaction, including all that it wrote.
    fn object_access(&mut self, ordered: &OrderedStatement<'_>, access_set: &mut AccessSet) {
        access_set.anything = ordered.access_set.anything;
        access_set.known.clone_from(&ordered.access_set.known);
        let has_ended_unseen = self.transaction != ordered.transaction;
        if ordered.ends || has_ended_unseen {
            access_set.known.append(&mut self.wrote.known);
            access_set.anything = access_set.anything.max(self.wrote.anything.take());
        }
        self.transaction = if ordered.ends { 0 } else { ordered.transaction };
        if self.transaction > 0 {
            self.write(ordered.access_set);
        }
    }

    /// Records what others will see when the transaction has ended.
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

fn node_at(position: OrderPosition) -> Option<NodeId> {
    (position.1 != NO_NODE).then(|| NodeId::from_bits(position.1))
}
