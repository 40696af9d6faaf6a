//! Statements are read, sent and answered.

use rustix::event::epoll::EventFlags;
use seatrial_gauge::cache;
use seatrial_pgwire::answer::Answer;
use seatrial_trace::captured::SessionId;

use super::PlaybackError;
use super::player::{Ended, Peer, Queued, Release, Stage, Wait};
use super::run::Run;
use crate::accounting::{HeldBy, Times};
use crate::connection::{Said, Sending};
use crate::feed::{Fed, REUSED_BYTES_MAX};
use crate::item::Skipped;
use crate::pace::Before;
use crate::rewrite::now::Now;

/// Room that the buffer for what is sent keeps.
const OUT_BYTES_MAX: usize = 1 << 20;

/// Answered statements that are counted together: each by itself would bring all that the
/// accounting has into the processor's caches, which the server has used since.
const ENDED_MAX: usize = 32;

/// The code of what was cancelled.
const QUERY_CANCELED: &[u8; 5] = b"57014";

impl Run {
    /// Takes in what was read, at most one batch; whether there may be more.
    pub(super) fn take_batch(&mut self, now_ns: u64) -> Result<bool, PlaybackError> {
        // What is not counted yet is held; and who waits for it to be released is to go on.
        if self.counts.starved > 0 || self.counts.in_flight == 0 {
            self.record_ended();
        }
        if self.counts.starved > 0 {
            self.feed.is_awaited();
        }
        let Some(batch) = self.feed.take()? else { return Ok(false) };
        batch.iter().for_each(|fed| cache::fetch(&fed.item.session));
        for fed in batch {
            self.take_in(fed, now_ns);
        }
        Ok(!self.feed.is_full())
    }

    fn take_in(&mut self, fed: Box<Fed>, now_ns: u64) {
        self.counts.taken += 1;
        let session = fed.item.session.0 as usize;
        let mut place = (fed.item.start_us, fed.item.number);
        if let Some(order) = &mut self.order {
            place = order.take_in(&fed);
        }
        let is_buried = self.players[session].stage == Stage::Lost && !self.probe.is_open();
        let skipped = fed.skipped.or(is_buried.then_some(Skipped::NoConnection));
        let queued = Queued { fed, place };
        match skipped {
            Some(why) => self.skip(session, queued, why),
            None => self.players[session].queue.push_back(queued),
        }
        let player = &mut self.players[session];
        let has_what_it_waits_for = !player.queue.is_empty() || player.left == 0;
        if player.stage == Stage::Unseen && !player.queue.is_empty() {
            self.arrive(session);
        } else if player.wait == Wait::Feed && has_what_it_waits_for {
            player.wait = Wait::Nothing;
            player.fed_ns = now_ns;
            self.counts.starved -= 1;
            self.advance(session);
        }
    }

    /// A statement is not sent.
    pub(super) fn skip(&mut self, session: usize, queued: Queued, why: Skipped) {
        self.record_ended();
        self.accounting.skipped(&queued.fed.item, why);
        self.consumed(session, &queued);
        self.feed.release(queued.fed);
    }

    /// A statement is done with, in whatever way.
    fn consumed(&mut self, session: usize, queued: &Queued) {
        self.counts.left -= 1;
        self.players[session].left -= 1;
        if let Some(order) = &mut self.order {
            order.done(&queued.fed, queued.place);
        }
        self.drew_not(queued);
    }

    /// Tallies the statements that were answered since it was done last.
    pub(super) fn record_ended(&mut self) {
        for Ended { fed, times, answer } in self.ended.drain(..) {
            self.accounting.answered(&fed.item, &times, &answer);
            self.feed.release(fed);
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
                    return self.rest(session);
                }
                player.wait = Wait::Feed;
                self.counts.starved += 1;
                return;
            };
            let due_ns = self.schedule.due_ns(head.fed.item.start_us, player.before.as_ref());
            if let Some(due_ns) = due_ns.filter(|&due_ns| due_ns > self.now_ns()) {
                self.players[session].wait = Wait::Time;
                self.timers.set(due_ns, session as u32);
                return;
            }
            let waits = self.is_held(session, due_ns) || self.awaits_draw(session, due_ns);
            if waits || self.send(session, due_ns) {
                return;
            }
        }
    }

    /// Whether the order holds a session's next statement back; then that is noted.
    fn is_held(&mut self, session: usize, due_ns: Option<u64>) -> bool {
        let Some(order) = &mut self.order else { return false };
        let player = &mut self.players[session];
        let Some(head) = player.queue.front() else { return false };
        if order.may_go(head.place) {
            return false;
        }
        match player.passes(&head.fed) {
            Some(Release::Lock) => self.held.released_by_lock += 1,
            Some(Release::Patience) => self.held.released_by_patience += 1,
            None => {
                order.hold(head.place, SessionId(session as u32));
                player.wait = Wait::Order { since_ns: player.could(due_ns).0 };
                self.held.held += 1;
                self.counts.held += 1;
                return true;
            }
        }
        false
    }

    /// Lets those go that the order no longer holds back.
    pub(super) fn free_held(&mut self) {
        while let Some((place, session)) = self.order.as_mut().and_then(|one| one.next_free()) {
            let session = session.0 as usize;
            let head = self.players[session].queue.front().map(|head| head.place);
            if head == Some(place) {
                let because = self.order.as_ref().map(|order| order.because(place));
                *self.held.held_by.entry(because.unwrap_or_default().name()).or_default() += 1;
                self.release(session);
            }
        }
    }

    /// The order does not hold a session back any more.
    pub(super) fn release(&mut self, session: usize) {
        let now_ns = self.now_ns();
        let player = &mut self.players[session];
        if let Wait::Order { since_ns } = player.wait {
            player.wait = Wait::Nothing;
            player.released_ns = now_ns;
            self.held.waited_ns += now_ns.saturating_sub(since_ns);
            self.counts.held -= 1;
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
        let item = &head.fed.item;
        if let (Some(_), Some(bound)) = (&self.ids, &head.fed.ids) {
            let (columns, rows) = Now::keeps(bound);
            peer.connection.keep(columns, rows);
        }
        let refused = player.has_failed.then(|| self.rules.rule_after_error(item)).flatten();
        let sending = match refused {
            Some(why) => Sending::Impossible(why),
            None => peer.connection.send(item, &mut self.out),
        };
        if let Sending::Impossible(why) = sending {
            if let Some(queued) = player.pop() {
                self.skip(session, queued, why);
            }
            return false;
        }
        let sent = peer.link.send(&self.epoll, &self.out);
        self.accounting.sent(&head.fed.item, sent_ns);
        let (could_ns, held_by) = player.could(due_ns);
        player.open = Some(Times { due_ns, could_ns, sent_ns, ended_ns: 0, held_by });
        self.counts.in_flight += 1;
        self.counts.may_wait += usize::from(player.may_wait());
        self.counts.moved_ns = sent_ns;
        self.counts.lag_ns = due_ns.map_or(0, |due_ns| sent_ns.saturating_sub(due_ns));
        self.out.shrink_to(OUT_BYTES_MAX);
        if let Err(error) = sent {
            self.broke(session, &error);
        }
        true
    }

    /// Something happened at a session's connection.
    pub(super) fn serve(&mut self, session: usize, flags: EventFlags) {
        let Some(peer) = &mut self.players[session].peer else { return };
        if flags.contains(EventFlags::OUT) {
            if let Err(error) = peer.link.send_unsent(&self.epoll) {
                return self.broke(session, &error);
            }
        }
        let ends = EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR;
        if !flags.intersects(EventFlags::IN | ends) {
            return;
        }
        // An end is reported once, with what came before it.
        while self.read(session) && flags.intersects(ends) {}
    }

    /// Reads what came for a session, at most a buffer; whether it is there and may have more.
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
                    self.broke(session, &error);
                }
            }
            Err(error) => self.broke(session, &error),
        }
        true
    }

    fn take_in_bytes(&mut self, session: usize, read: usize) {
        let Some(peer) = &mut self.players[session].peer else { return };
        let Peer { link, connection } = &mut **peer;
        self.out.clear();
        let mut said = std::mem::take(&mut self.said);
        let came = &self.buffer[..read];
        if link.input.is_empty() {
            let taken = connection.take_in(came, &mut self.out, &mut said);
            link.input.extend_from_slice(&came[taken..]);
        } else {
            link.input.extend_from_slice(came);
            let taken = connection.take_in(&link.input, &mut self.out, &mut said);
            link.input.drain(..taken);
        }
        let sent = link.send(&self.epoll, &self.out);
        for one in said.drain(..) {
            match one {
                Said::Answer(answer) => self.answered(session, answer),
                Said::Ready => self.came_in(session),
                Said::Refused(error) => self.was_refused(session, &error),
                Said::Lost(error) => self.lose(session, &error.message),
                Said::NotUnderstood(words) => self.lose(session, &words),
            }
        }
        self.said = said;
        if let Err(error) = sent {
            self.broke(session, &error);
        }
    }

    fn answered(&mut self, session: usize, answer: Answer) {
        let code = answer.error.as_ref().map(|error| &error.sqlstate);
        if self.end.is_some() && code == Some(QUERY_CANCELED) {
            // The end of the playback cancelled it: that is no error of the target's.
            return self.give_up(session);
        }
        let now_ns = self.now_ns();
        let player = &mut self.players[session];
        self.counts.may_wait -= usize::from(player.may_wait());
        let Some(mut times) = player.open.take() else { return };
        let Some(queued) = player.pop() else { return };
        times.ended_ns = now_ns;
        let item = &queued.fed.item;
        player.before = Some(Before {
            start_us: item.start_us,
            duration_us: item.duration_us,
            sent_ns: times.sent_ns,
            ended_ns: now_ns,
        });
        player.has_failed |= answer.error.is_some();
        player.ready_ns = now_ns;
        player.ready_by = HeldBy::Session;
        self.accounting.ended(now_ns, answer.error.is_none());
        self.counts.in_flight -= 1;
        self.counts.moved_ns = now_ns;
        self.drew(&queued, &answer);
        self.consumed(session, &queued);
        let is_large = queued.fed.counted_bytes > REUSED_BYTES_MAX;
        self.ended.push(Ended { fed: queued.fed, times, answer });
        self.advance(session);
        if is_large || self.ended.len() >= ENDED_MAX {
            self.record_ended();
        }
    }

    /// A statement on its way will never be answered.
    pub(super) fn give_up(&mut self, session: usize) {
        let ended_ns = self.now_ns();
        let player = &mut self.players[session];
        self.counts.may_wait -= usize::from(player.may_wait());
        let Some(times) = player.open.take() else { return };
        let Some(queued) = player.pop() else { return };
        self.record_ended();
        self.accounting.unanswered(&queued.fed.item, &Times { ended_ns, ..times });
        self.counts.in_flight -= 1;
        self.counts.moved_ns = ended_ns;
        self.consumed(session, &queued);
        self.feed.release(queued.fed);
    }
}
