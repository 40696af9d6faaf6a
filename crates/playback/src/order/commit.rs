//! The order of commits across sessions: no statement is sent before all transactions of the
//! capture that had ended when it began, as Oracle's Database Replay keeps it by system change
//! numbers.
//!
//! A single scan in the order of the trace is enough: it needs the ends of the commits that are not
//! done yet. The first of these ends is the watermark, and a statement that began before it may go.
//!
//! - A commit is a COMMIT or END, or a statement outside of any transaction that writes by its
//!   first words. A function that writes in a SELECT is not seen.
//! - It ended when its duration was over; where the log has no durations, when its session's next
//!   statement began; without one, when it began itself.
//! - Commits and statements of the same time have the order of the trace, in which those of one
//!   session never go back in time: so a commit that a statement waits for never waits for that
//!   statement, and the first of all that wait may always go.
//! - A commit that failed, was skipped or lost is done.
//!
//! A commit that was not read yet is not waited for. That matters only where the log is not in the
//! order of its statements' starts, which is one of durations only, and there only beyond what is
//! read ahead.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use seatrial_trace::captured::SessionId;

use super::OrderPosition;

/// A session as the order sees it.
#[derive(Clone, Copy, Debug, Default)]
struct SessionProgress {
    /// Where its last statement is.
    last: Option<OrderPosition>,
    /// Its last statement, if that is a commit whose end is yet to be seen.
    commit: Option<u64>,
}

/// Commits that are not done, and statements that wait for them.
#[derive(Debug)]
pub struct CommitOrder {
    sessions: Vec<SessionProgress>,
    /// Ends of commits that were read and are not done.
    undone: BTreeSet<OrderPosition>,
    /// When transactions ended, by the commit's place in the trace.
    ends_us: HashMap<u64, i64>,
    waiting: BinaryHeap<Reverse<(OrderPosition, SessionId)>>,
}

impl CommitOrder {
    /// An order of `sessions` sessions.
    pub fn new(sessions: usize) -> CommitOrder {
        CommitOrder {
            sessions: vec![SessionProgress::default(); sessions],
            undone: BTreeSet::new(),
            ends_us: HashMap::new(),
            waiting: BinaryHeap::new(),
        }
    }

    /// Takes in the next statement of the trace and returns its place. `commits` means that it is a
    /// commit to be waited for, and `is_last` that none of its session follows.
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

    /// A commit was answered, skipped or lost; what is none changes nothing.
    pub fn done(&mut self, session: SessionId, number: u64) {
        let seen = &mut self.sessions[session.0 as usize];
        if seen.commit == Some(number) {
            seen.commit = None;
        }
        if let Some(end_us) = self.ends_us.remove(&number) {
            self.undone.remove(&(end_us, number));
        }
    }

    /// Whether nothing that a statement waits for is left to be done.
    pub fn may_go(&self, place: OrderPosition) -> bool {
        self.undone.first().is_none_or(|&first| first >= place)
    }

    /// Holds a session's next statement back.
    pub fn hold(&mut self, place: OrderPosition, session: SessionId) {
        self.waiting.push(Reverse((place, session)));
    }

    /// Returns the first of the held statements, if it may go by now; it is no longer held. One
    /// that was released before is among them still, and must be recognized by its place.
    pub fn next_free(&mut self) -> Option<(OrderPosition, SessionId)> {
        let &Reverse((place, _)) = self.waiting.peek()?;
        if self.may_go(place) { self.waiting.pop().map(|Reverse(held)| held) } else { None }
    }

    /// The one that waits for the least, whether it may go or not; it is no longer held.
    pub fn pop_first(&mut self) -> Option<(OrderPosition, SessionId)> {
        self.waiting.pop().map(|Reverse(held)| held)
    }
}

/// What the order has to know of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// Its place in the trace.
    pub number: u64,
    /// Its session.
    pub session: SessionId,
    /// When it began.
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
    fn a_statement_waits_for_the_commits_that_had_ended() {
        let mut order = CommitOrder::new(3);
        let first = order.take_in(&scanned(0, 0, 10, Some(5)));
        let second = order.take_in(&scanned(1, 1, 12, Some(50)));
        let third = order.take_in(&Scanned { commits: false, ..scanned(2, 2, 20, None) });
        assert!(order.may_go(first) && order.may_go(second) && !order.may_go(third));
        order.hold(third, SessionId(2));
        assert_eq!(order.next_free(), None);
        order.done(SessionId(0), 0);
        assert_eq!(order.next_free(), Some((third, SessionId(2))));
        assert_eq!(order.next_free(), None);
    }

    #[test]
    fn without_durations_a_commit_ends_when_its_session_goes_on() {
        let mut order = CommitOrder::new(2);
        order.take_in(&scanned(0, 0, 10, None));
        let other = order.take_in(&scanned(1, 1, 20, None));
        assert!(order.may_go(other));
        order.take_in(&Scanned { commits: false, ..scanned(2, 0, 15, None) });
        assert!(!order.may_go(other));
        order.done(SessionId(0), 0);
        assert!(order.may_go(other));
    }

    #[test]
    fn a_commit_that_was_done_before_its_end_was_seen_holds_nothing_back() {
        let mut order = CommitOrder::new(2);
        order.take_in(&scanned(0, 0, 10, None));
        order.done(SessionId(0), 0);
        order.take_in(&Scanned { commits: false, ..scanned(1, 0, 15, None) });
        let other = order.take_in(&scanned(2, 1, 20, Some(1)));
        assert!(order.may_go(other));
    }

    #[test]
    fn the_last_commit_of_a_session_ends_when_it_begins() {
        let mut order = CommitOrder::new(2);
        order.take_in(&Scanned { is_last: true, ..scanned(0, 0, 10, None) });
        let other = order.take_in(&scanned(1, 1, 10, None));
        assert!(!order.may_go(other));
    }

    proptest! {
        /// Whatever the times: someone may always go, so all of them end, each behind the commits
        /// that had ended.
        #[test]
        fn all_that_is_held_ends(
            reported in proptest::collection::vec(
                (0u32..4, 0i64..20, 0u64..12, any::<bool>()),
                1..60,
            ),
        ) {
            let mut order = CommitOrder::new(4);
            let mut queues = vec![std::collections::VecDeque::new(); 4];
            for (number, &(session, start_us, length_us, commits)) in reported.iter().enumerate() {
                let duration_us = (length_us > 2).then_some(length_us);
                let is_last = !reported[number + 1..].iter().any(|later| later.0 == session);
                let one = scanned(number as u64, session, start_us, duration_us);
                let place = order.take_in(&Scanned { commits, is_last, ..one });
                queues[session as usize].push_back(place);
            }
            let mut done = 0;
            while let Some(queue) = queues
                .iter_mut()
                .filter(|queue| queue.front().is_some_and(|&place| order.may_go(place)))
                .min_by_key(|queue| queue.front().copied())
            {
                let place = queue.pop_front().unwrap();
                let session = SessionId(reported[place.1 as usize].0);
                order.done(session, place.1);
                done += 1;
            }
            prop_assert_eq!(done, reported.len());
        }
    }
}
