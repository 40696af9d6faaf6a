//! Statements are read, sent and answered.

use rustix::event::epoll::EventFlags;
use seatrial_gauge::cache;
use seatrial_pgwire::answer::Answer;
use seatrial_trace::captured::SessionId;

use super::PlaybackError;
use super::player::{AnsweredStatement, Peer, QueuedStatement, Release, Stage, Wait};
use super::run::PlaybackLoop;
use crate::accounting::{DelayCause, Times};
use crate::connection::{ConnectionEvent, SendOutcome};
use crate::feed::{PendingStatement, REUSED_BYTES_MAX};
use crate::item::Skipped;
use crate::pace::PreviousStatement;
use crate::rewrite::id_slots::IdSlots;
use crate::timing::overdue_ns;

/// Capacity that the send buffer keeps.
const OUT_BYTES_MAX: usize = 1 << 20;

/// Answered statements that are counted together: counting each by itself would load the
/// accounting's data into the processor's caches each time.
const ENDED_MAX: usize = 32;

/// SQLSTATE of a cancelled statement.
const QUERY_CANCELED: &[u8; 5] = b"57014";

impl PlaybackLoop {
    /// Takes one batch of read statements; returns whether there may be more.
    pub(super) fn take_batch(&mut self, now_ns: u64) -> Result<bool, PlaybackError> {
        // Uncounted statements take memory of the feed, for which sessions may wait.
        if self.counts.starved > 0 || self.counts.in_flight == 0 {
            self.record_ended();
        }
        if self.counts.starved > 0 {
            self.feed.is_awaited();
        }
        let Some(batch) = self.feed.take()? else { return Ok(false) };
        batch.iter().for_each(|pending| cache::fetch(&pending.item.session));
        for pending in batch {
            self.take_in(pending, now_ns);
        }
        Ok(!self.feed.is_full())
    }

    fn take_in(&mut self, pending: Box<PendingStatement>, now_ns: u64) {
        self.counts.taken += 1;
        let session = pending.item.session.0 as usize;
        let mut position = (pending.item.start_us, pending.item.number);
        if let Some(order) = &mut self.order {
            position = order.take_in(&pending);
        }
        let is_skipped_session =
            self.players[session].stage == Stage::Lost && !self.probe.is_open();
        let skipped = pending.skipped.or(is_skipped_session.then_some(Skipped::NoConnection));
        let queued = QueuedStatement { pending, position };
        match skipped {
            Some(why) => self.skip(session, queued, why),
            None => self.players[session].queue.push_back(queued),
        }
        let player = &mut self.players[session];
        let has_what_it_waits_for = !player.queue.is_empty() || player.left == 0;
        if player.stage == Stage::Unread && !player.queue.is_empty() {
            self.session_read(session);
        } else if player.wait == Wait::Feed && has_what_it_waits_for {
            player.wait = Wait::Nothing;
            player.read_ns = now_ns;
            self.counts.starved -= 1;
            self.advance(session);
        }
    }

    /// A statement is not sent.
    pub(super) fn skip(&mut self, session: usize, queued: QueuedStatement, why: Skipped) {
        self.record_ended();
        self.accounting.skipped(&queued.pending.item, why);
        self.finish_statement(session, &queued);
        self.feed.release(queued.pending);
    }

    /// A statement was answered, skipped or given up.
    fn finish_statement(&mut self, session: usize, queued: &QueuedStatement) {
        self.counts.left -= 1;
        self.players[session].left -= 1;
        if let Some(order) = &mut self.order {
            order.done(&queued.pending, queued.position);
        }
        self.record_no_draws(queued);
    }

    /// Counts the statements that were answered since the last call.
    pub(super) fn record_ended(&mut self) {
        for AnsweredStatement { pending, times, answer } in self.ended.drain(..) {
            self.accounting.answered(&pending.item, &times, &answer);
            self.feed.release(pending);
        }
    }

    /// Sends a session's next statement, or notes what it waits for.
    pub(super) fn advance(&mut self, session: usize) {
        loop {
            let player = &mut self.players[session];
            if self.end.is_some() || !player.is_idle() || player.wait != Wait::Nothing {
                return;
            }
            let Some(head) = player.queue.front() else {
                if player.left == 0 {
                    return self.finish_session(session);
                }
                player.wait = Wait::Feed;
                self.counts.starved += 1;
                return;
            };
            let due_ns = self.schedule.due_ns(head.pending.item.start_us, player.previous.as_ref());
            if let Some(due_ns) = due_ns.filter(|&due_ns| due_ns > self.now_ns()) {
                self.players[session].wait = Wait::Time;
                self.timers.set(due_ns, session as u32);
                return;
            }
            let waits = self.is_delayed(session, due_ns) || self.must_wait_for_id(session, due_ns);
            if waits || self.send(session, due_ns) {
                return;
            }
        }
    }

    /// Whether the order delays a session's next statement; if so, that is recorded.
    fn is_delayed(&mut self, session: usize, due_ns: Option<u64>) -> bool {
        let Some(order) = &mut self.order else { return false };
        let player = &mut self.players[session];
        let Some(head) = player.queue.front() else { return false };
        if order.may_send(head.position) {
            return false;
        }
        match player.exemption_reason(&head.pending) {
            Some(Release::Lock) => self.delays.released_by_lock += 1,
            Some(Release::Timeout) => self.delays.released_by_patience += 1,
            None => {
                order.delay(head.position, SessionId(session as u32));
                player.wait = Wait::Order { since_ns: player.sendable_since(due_ns).0 };
                self.delays.delayed += 1;
                self.counts.delayed += 1;
                return true;
            }
        }
        false
    }

    /// Releases the sessions that the order no longer delays.
    pub(super) fn release_delayed(&mut self) {
        while let Some((position, session)) = self.order.as_mut().and_then(|one| one.next_ready()) {
            let session = session.0 as usize;
            let head = self.players[session].queue.front().map(|head| head.position);
            if head == Some(position) {
                let wait_reason = self.order.as_ref().map(|order| order.wait_reason(position));
                *self
                    .delays
                    .delayed_by
                    .entry(wait_reason.unwrap_or_default().name())
                    .or_default() += 1;
                self.release(session);
            }
        }
    }

    /// The order no longer delays a session.
    pub(super) fn release(&mut self, session: usize) {
        let now_ns = self.now_ns();
        let player = &mut self.players[session];
        if let Wait::Order { since_ns } = player.wait {
            player.wait = Wait::Nothing;
            player.released_ns = now_ns;
            self.delays.waited_ns += now_ns.saturating_sub(since_ns);
            self.counts.delayed -= 1;
            self.advance(session);
        }
    }

    /// Sends a session's next statement; false where that is not possible, and it was skipped.
    fn send(&mut self, session: usize, due_ns: Option<u64>) -> bool {
        let sent_ns = self.now_ns();
        self.write_ids(session);
        let player = &mut self.players[session];
        let (Some(head), Some(peer)) = (player.queue.front(), &mut player.peer) else {
            return true;
        };
        self.out.clear();
        let item = &head.pending.item;
        if let (Some(_), Some(bindings)) = (&self.ids, &head.pending.ids) {
            let (columns, rows) = IdSlots::keeps(bindings);
            peer.connection.keep(columns, rows);
        }
        let refused = if player.has_failed {
            self.rules.rule_after_error(item, &player.certain_objects)
        } else {
            None
        };
        let sending = match refused {
            Some(why) => SendOutcome::Impossible(why),
            None => peer.connection.send(item, &mut self.out),
        };
        if let SendOutcome::Impossible(why) = sending {
            if let Some(queued) = player.pop() {
                self.skip(session, queued, why);
            }
            return false;
        }
        let sent = peer.link.send(&self.epoll, &self.out);
        self.accounting.sent(&head.pending.item, sent_ns);
        let (sendable_ns, delay_cause) = player.sendable_since(due_ns);
        player.open = Some(Times { due_ns, sendable_ns, sent_ns, ended_ns: 0, delay_cause });
        self.counts.in_flight += 1;
        self.counts.may_wait += usize::from(player.may_wait());
        self.counts.moved_ns = sent_ns;
        self.counts.lag_ns = due_ns.map_or(0, |due_ns| sent_ns.saturating_sub(due_ns));
        self.out.shrink_to(OUT_BYTES_MAX);
        if let Err(error) = sent {
            self.connection_broken(session, &error);
        }
        true
    }

    /// Handles an event of a session's connection.
    pub(super) fn serve(&mut self, session: usize, flags: EventFlags) {
        let Some(peer) = &mut self.players[session].peer else { return };
        if flags.contains(EventFlags::OUT) {
            if let Err(error) = peer.link.send_unsent(&self.epoll) {
                return self.connection_broken(session, &error);
            }
        }
        let ends = EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR;
        if !flags.intersects(EventFlags::IN | ends) {
            return;
        }
        // An end is reported once, with what came before it.
        while self.read(session) && flags.intersects(ends) {}
    }

    /// Reads at most a buffer for a session; returns whether it is connected and may have more.
    fn read(&mut self, session: usize) -> bool {
        let player = &self.players[session];
        let Some(peer) = &player.peer else { return false };
        let read = peer.link.read(&mut self.buffer);
        player.fetch_texts();
        match read {
            Ok(None) => return false,
            Ok(Some(0)) => self.hung_up(session),
            Ok(Some(read)) => {
                // Others have their turn before the rest of it.
                let is_all = read < self.buffer.len();
                let again = if is_all { Ok(()) } else { peer.link.rearm(&self.epoll) };
                self.take_in_bytes(session, read);
                if let Err(error) = again {
                    self.connection_broken(session, &error);
                }
            }
            Err(error) => self.connection_broken(session, &error),
        }
        true
    }

    fn take_in_bytes(&mut self, session: usize, read: usize) {
        let Some(peer) = &mut self.players[session].peer else { return };
        let Peer { link, connection } = &mut **peer;
        self.out.clear();
        let mut connection_events = std::mem::take(&mut self.connection_events);
        let came = &self.buffer[..read];
        if link.input.is_empty() {
            let taken = connection.take_in(came, &mut self.out, &mut connection_events);
            link.input.extend_from_slice(&came[taken..]);
        } else {
            link.input.extend_from_slice(came);
            let taken = connection.take_in(&link.input, &mut self.out, &mut connection_events);
            link.input.drain(..taken);
        }
        let sent = link.send(&self.epoll, &self.out);
        for one in connection_events.drain(..) {
            match one {
                ConnectionEvent::Answer(answer) => self.answered(session, answer),
                ConnectionEvent::Ready => self.connected(session),
                ConnectionEvent::Refused(error) => self.connection_refused(session, &error),
                ConnectionEvent::Lost(error) => self.connection_lost(session, &error.message),
                ConnectionEvent::NotUnderstood(message) => self.connection_lost(session, &message),
            }
        }
        self.connection_events = connection_events;
        if let Err(error) = sent {
            self.connection_broken(session, &error);
        }
    }

    fn answered(&mut self, session: usize, answer: Answer) {
        let code = answer.error.as_ref().map(|error| &error.sqlstate);
        if self.end.is_some() && code == Some(QUERY_CANCELED) {
            // The end of the playback cancelled it: that is not an error of the target's.
            return self.give_up(session);
        }
        let now_ns = self.now_ns();
        self.expect_gap(now_ns);
        let player = &mut self.players[session];
        self.counts.may_wait -= usize::from(player.may_wait());
        let Some(mut times) = player.open.take() else { return };
        let Some(queued) = player.pop() else { return };
        times.ended_ns = now_ns;
        let item = &queued.pending.item;
        player.previous = Some(PreviousStatement {
            start_us: item.start_us,
            duration_us: item.duration_us,
            sent_ns: times.sent_ns,
            ended_ns: now_ns,
        });
        player.has_failed |= answer.error.is_some();
        player.certain_objects.answered(item, &queued.pending.changes, &answer);
        player.ready_ns = now_ns;
        player.ready_by = DelayCause::Session;
        self.accounting.ended(now_ns, answer.error.is_none());
        self.counts.in_flight -= 1;
        self.counts.moved_ns = now_ns;
        self.record_draws(&queued, &answer);
        self.finish_statement(session, &queued);
        let is_large = queued.pending.counted_bytes > REUSED_BYTES_MAX;
        self.ended.push(AnsweredStatement { pending: queued.pending, times, answer });
        self.advance(session);
        if is_large || self.ended.len() >= ENDED_MAX {
            self.record_ended();
        }
    }

    /// Where no statement was answered for long, that was expected until the first was overdue.
    fn expect_gap(&mut self, now_ns: u64) {
        if self.accounting.is_gap(now_ns) {
            let open = self.players.iter().filter_map(|player| {
                let times = player.open.as_ref()?;
                Some((times.sent_ns, &player.queue.front()?.pending.item))
            });
            self.accounting.expect_gap(overdue_ns(open).min(now_ns));
        }
    }

    /// A statement in progress will never be answered.
    pub(super) fn give_up(&mut self, session: usize) {
        let ended_ns = self.now_ns();
        self.expect_gap(ended_ns);
        let player = &mut self.players[session];
        self.counts.may_wait -= usize::from(player.may_wait());
        let Some(times) = player.open.take() else { return };
        let Some(queued) = player.pop() else { return };
        self.record_ended();
        self.accounting.unanswered(&queued.pending.item, &Times { ended_ns, ..times });
        self.counts.in_flight -= 1;
        self.counts.moved_ns = ended_ns;
        self.finish_statement(session, &queued);
        self.feed.release(queued.pending);
    }
}
