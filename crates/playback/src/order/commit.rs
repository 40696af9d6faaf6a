//! The order of commits across sessions: no statement is sent before all transactions of the
//! capture that had ended when it began, as in Oracle's Database Replay by system change numbers.
//!
//! A single scan in the order of the trace is enough: it needs the ends of the commits that are not
//! done yet. The first of these ends is the watermark, and a statement that began before it may go.
//!
//! - A commit is a COMMIT or END, or a statement outside of any transaction that writes according
//!   to its first words. A function that writes in a SELECT is not recognised.
//! - It ended when its duration was over; without durations, when its session's next statement
//!   began; without one, when it began itself.
//! - Commits and statements of the same time have the order of the trace, in which those of one
//!   session never go back in time: a commit that a statement waits for never waits for that
//!   statement, and the first of all waiting ones may always be sent.
//! - A commit that failed, was skipped or lost is done.
//!
//! An unread commit is not waited for. That matters only if the log is not in the order of its
//! statements' starts, which is a log of durations only, and only beyond what is read ahead.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use seatrial_trace::captured::SessionId;

use super::OrderPosition;

/// The order's state of a session.
#[derive(Clone, Copy, Debug, Default)]
struct SessionProgress {
    /// The position of its last statement.
    last: Option<OrderPosition>,
    /// Its last statement, if that is a commit whose end is not known yet.
    commit: Option<u64>,
}

/// Commits that are not done, and statements that wait for them.
#[derive(Debug)]
pub struct CommitOrder {
    sessions: Vec<SessionProgress>,
    /// Ends of commits that were read and are not done.
    undone: BTreeSet<OrderPosition>,
    /// When transactions ended, by the commit's position in the trace.
    ends_us: HashMap<u64, i64>,
    waiting: BinaryHeap<Reverse<(OrderPosition, SessionId)>>,
}

impl CommitOrder {
    pub fn new(sessions: usize) -> CommitOrder {
        CommitOrder {
            sessions: vec![SessionProgress::default(); sessions],
            undone: BTreeSet::new(),
            ends_us: HashMap::new(),
            waiting: BinaryHeap::new(),
        }
    }

    /// Adds the next statement of the trace and returns its position.
    pub fn take_in(&mut self, scanned: &Scanned) -> OrderPosition {
        let seen = &mut self.sessions[scanned.session.0 as usize];
        let start_us = seen.last.map_or(scanned.start_us, |last| last.0.max(scanned.start_us));
        seen.last = Some((start_us, scanned.number));
        let before = seen.commit.take();
        let end_us =
            scanned.duration_us.map(|length_us| start_us.saturating_add_unsigned(length_us));
        let end_us = end_us.or(scanned.is_last.then_some(start_us));
        if scanned.commits && end_us.is_none() {
            seen.commit = Some(scanned.number);
        }
        if let Some(commit) = before {
            self.add(commit, start_us);
        }
        if let Some(end_us) = end_us.filter(|_| scanned.commits) {
            self.add(scanned.number, end_us);
        }
        (start_us, scanned.number)
    }

    fn add(&mut self, commit: u64, end_us: i64) {
        self.undone.insert((end_us, commit));
        self.ends_us.insert(commit, end_us);
    }

    /// A commit was answered, skipped or lost; other statements are ignored.
    pub fn done(&mut self, session: SessionId, number: u64) {
        let seen = &mut self.sessions[session.0 as usize];
        if seen.commit == Some(number) {
            seen.commit = None;
        }
        if let Some(end_us) = self.ends_us.remove(&number) {
            self.undone.remove(&(end_us, number));
        }
    }

    /// Whether a statement waits for nothing.
    pub fn may_send(&self, position: OrderPosition) -> bool {
        self.undone.first().is_none_or(|&first| first >= position)
    }

    /// Delays a session's next statement.
    pub fn delay(&mut self, position: OrderPosition, session: SessionId) {
        self.waiting.push(Reverse((position, session)));
    }

    /// Returns the first delayed statement that may be sent by now. One that was released before is
    /// still included; its position tells.
    pub fn next_ready(&mut self) -> Option<(OrderPosition, SessionId)> {
        let &Reverse((position, _)) = self.waiting.peek()?;
        if self.may_send(position) {
            self.waiting.pop().map(|Reverse(delayed)| delayed)
        } else {
            None
        }
    }

    /// Removes and returns the first of the delayed statements, whether it may be sent or not.
    pub fn pop_first(&mut self) -> Option<(OrderPosition, SessionId)> {
        self.waiting.pop().map(|Reverse(delayed)| delayed)
    }
}

/// A statement of the trace, for the order of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// Its position in the trace.
    pub number: u64,
    pub session: SessionId,
    pub start_us: i64,
    /// How long it took, if that is known.
    pub duration_us: Option<u64>,
    /// Whether it is a commit that is to be waited for.
    pub commits: bool,
    /// Whether no statement of its session follows.
    pub is_last: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scanned(number: u64, session: u32, start_us: i64, duration_us: Option<u64>) -> Scanned {
        let session = SessionId(session);
        Scanned { number, session, start_us, duration_us, commits: true, is_last: false }
    }

    #[test]
    fn statement_waits_for_commits_that_ended_before_it_began() {
        let mut order = CommitOrder::new(3);
        let first = order.take_in(&scanned(0, 0, 10, Some(5)));
        let second = order.take_in(&scanned(1, 1, 12, Some(50)));
        let third = order.take_in(&Scanned { commits: false, ..scanned(2, 2, 20, None) });
        assert!(order.may_send(first) && order.may_send(second) && !order.may_send(third));
        order.delay(third, SessionId(2));
        assert_eq!(order.next_ready(), None);
        order.done(SessionId(0), 0);
        assert_eq!(order.next_ready(), Some((third, SessionId(2))));
        assert_eq!(order.next_ready(), None);
    }

    #[test]
    fn without_durations_a_commit_ends_at_the_next_statement() {
        let mut order = CommitOrder::new(2);
        order.take_in(&scanned(0, 0, 10, None));
        let other = order.take_in(&scanned(1, 1, 20, None));
        assert!(order.may_send(other));
        order.take_in(&Scanned { commits: false, ..scanned(2, 0, 15, None) });
        assert!(!order.may_send(other));
        order.done(SessionId(0), 0);
        assert!(order.may_send(other));
    }

    #[test]
    fn commit_done_before_its_end_is_read_delays_nothing() {
        let mut order = CommitOrder::new(2);
        order.take_in(&scanned(0, 0, 10, None));
        order.done(SessionId(0), 0);
        order.take_in(&Scanned { commits: false, ..scanned(1, 0, 15, None) });
        let other = order.take_in(&scanned(2, 1, 20, Some(1)));
        assert!(order.may_send(other));
    }

    #[test]
    fn the_last_commit_of_a_session_ends_when_it_begins() {
        let mut order = CommitOrder::new(2);
        order.take_in(&Scanned { is_last: true, ..scanned(0, 0, 10, None) });
        let other = order.take_in(&scanned(1, 1, 10, None));
        assert!(!order.may_send(other));
    }

    proptest! {
        /// Whatever the times, all statements end, each after the commits that it waits for.
        #[test]
        fn all_delayed_statements_complete(
            captured in proptest::collection::vec(
                (0u32..4, 0i64..20, 0u64..12, any::<bool>()),
                1..60,
            ),
        ) {
            let mut order = CommitOrder::new(4);
            let mut queues = vec![std::collections::VecDeque::new(); 4];
            for (number, &(session, start_us, length_us, commits)) in captured.iter().enumerate() {
                let duration_us = (length_us > 2).then_some(length_us);
                let is_last = !captured[number + 1..].iter().any(|later| later.0 == session);
                let one = scanned(number as u64, session, start_us, duration_us);
                let position = order.take_in(&Scanned { commits, is_last, ..one });
                queues[session as usize].push_back(position);
            }
            let mut done = 0;
            while let Some(queue) = queues
                .iter_mut()
                .filter(|queue| queue.front().is_some_and(|&position| order.may_send(position)))
                .min_by_key(|queue| queue.front().copied())
            {
                let position = queue.pop_front().unwrap();
                let session = SessionId(captured[position.1 as usize].0);
                order.done(session, position.1);
                done += 1;
            }
            prop_assert_eq!(done, captured.len());
        }
    }
}
