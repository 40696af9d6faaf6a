//! Ids that are drawn, waited for and rewritten.
//!
//! A statement with an id that another session has not drawn yet waits for it. If that session
//! waits for a lock of the waiting one, or there is no progress at all, the statement is sent with
//! the captured id, which is counted.

use std::sync::{Arc, Mutex};

use seatrial_gauge::lock;
use seatrial_pgwire::answer::Answer;
use seatrial_sqltext::catalog::Catalog;
use seatrial_trace::TraceReader;

use super::PlaybackError;
use super::player::{QueuedStatement, Wait};
use super::run::PlaybackLoop;
use crate::ids::plan::Plan;
use crate::locks::Blocked;
use crate::rewrite::Mode;
use crate::rewrite::binder::{Binder, IdCounts};
use crate::rewrite::id_slots::{IdSlots, MissingReason};
use crate::rewrite::reported::Ids;
use crate::spec::PlaybackSpec;
use crate::survey::Survey;

/// Ids of a playback: what is known of them, and what was drawn now.
pub struct IdMapping {
    slots: IdSlots,
    plan: Arc<Plan>,
    catalog: Catalog,
    counts: Arc<Mutex<IdCounts>>,
}

impl IdMapping {
    /// The mapping of ids, with the binder of statements as they are read; None if ids are sent as
    /// captured.
    ///
    /// # Errors
    ///
    /// When the trace cannot be read.
    pub fn of(
        spec: &PlaybackSpec,
        survey: &Survey,
    ) -> Result<Option<(IdMapping, Binder)>, PlaybackError> {
        let Some(catalog) = spec.catalog.as_ref().filter(|_| spec.ids == Mode::Infer) else {
            return Ok(None);
        };
        let sessions = &survey.sessions;
        let is_played: Vec<bool> = sessions.iter().map(|session| session.is_played).collect();
        let plan = Arc::new(Plan::of(&TraceReader::open(&spec.trace)?, &is_played, catalog)?);
        let names = sessions.iter().map(|session| String::from_utf8_lossy(&session.name));
        let names = names.map(|name| name.into_owned()).collect();
        let counts = Arc::new(Mutex::new(IdCounts::default()));
        let binder = Binder::new(plan.clone(), catalog.clone(), names, counts.clone());
        let slots = IdSlots::new(plan.clone());
        Ok(Some((IdMapping { slots, plan, catalog: catalog.clone(), counts }, binder)))
    }

    /// The results, after everything was read.
    pub fn finish(self) -> Ids {
        let counts = std::mem::take(&mut *lock(&self.counts));
        Ids::of(&self.plan, &self.catalog, counts, &self.slots.finish())
    }
}

impl PlaybackLoop {
    /// Whether a session's next statement has to wait for an id; if so, that is recorded.
    pub(super) fn must_wait_for_id(&mut self, session: usize, due_ns: Option<u64>) -> bool {
        let Some(ids) = &mut self.ids else { return false };
        let player = &mut self.players[session];
        let Some(head) = player.queue.front() else { return false };
        let Some(bindings) = &head.pending.ids else { return false };
        if player.waived_id_wait == Some(head.pending.item.number) {
            return false;
        }
        let Some(slot) = ids.slots.lacks(bindings) else { return false };
        ids.slots.wait(slot, session as u32);
        player.wait = Wait::Draw { since_ns: player.sendable_since(due_ns).0, slot };
        self.counts.delayed += 1;
        true
    }

    /// Rewrites ids in a session's next statement to those drawn now.
    pub(super) fn write_ids(&mut self, session: usize) {
        let Some(ids) = &mut self.ids else { return };
        let Some(head) = self.players[session].queue.front_mut() else { return };
        let pending = &mut *head.pending;
        if let Some(bindings) = &pending.ids {
            ids.slots.write(&mut pending.item, bindings);
            self.feed.resize(pending);
        }
    }

    /// A statement was answered: records the ids that it drew.
    pub(super) fn record_draws(&mut self, queued: &QueuedStatement, answer: &Answer) {
        if let (Some(ids), Some(bindings)) = (&mut self.ids, &queued.pending.ids) {
            let waited = ids.slots.take(bindings, answer);
            self.resume_sessions(&waited);
        }
    }

    /// A statement has ended without drawing more ids.
    pub(super) fn record_no_draws(&mut self, queued: &QueuedStatement) {
        if let (Some(ids), Some(bindings)) = (&mut self.ids, &queued.pending.ids) {
            let waited = ids.slots.lose(bindings, MissingReason::Failed);
            self.resume_sessions(&waited);
        }
    }

    /// Continues sessions that waited for an id.
    fn resume_sessions(&mut self, sessions: &[u32]) {
        for &session in sessions {
            self.end_id_wait(session as usize);
        }
    }

    fn end_id_wait(&mut self, session: usize) {
        let now_ns = self.now_ns();
        let player = &mut self.players[session];
        let Wait::Draw { since_ns, .. } = player.wait else { return };
        player.wait = Wait::Nothing;
        player.released_ns = now_ns;
        self.counts.delayed -= 1;
        if let Some(ids) = &mut self.ids {
            ids.slots.outcome.waited_ns += now_ns.saturating_sub(since_ns);
        }
        self.advance(session);
    }

    /// Sends a session's next statement without the ids that it waits for.
    fn waive_id_wait(&mut self, session: usize) {
        let player = &mut self.players[session];
        player.waived_id_wait = player.queue.front().map(|head| head.pending.item.number);
        self.end_id_wait(session);
    }

    /// Without any progress: sends the first statement of the capture that waits for ids.
    pub(super) fn release_first_id_wait(&mut self) {
        let waiting = self.players.iter().enumerate();
        let waiting = waiting.filter(|(_, player)| matches!(player.wait, Wait::Draw { .. }));
        let first =
            waiting.min_by_key(|(_, player)| player.queue.front().map(|head| head.position));
        if let Some((session, _)) = first {
            self.waive_id_wait(session);
        }
    }

    /// Sends statements whose session holds locks that the drawing session waits for; whether any
    /// did.
    pub(super) fn release_id_waits(&mut self, waits: &[Blocked]) -> bool {
        let mut found = Vec::new();
        for one in waits {
            let Some(&blocked) = self.by_process.get(&one.process) else { continue };
            for blocker in one.by.iter().filter_map(|process| self.by_process.get(process)) {
                let Wait::Draw { slot, .. } = self.players[*blocker as usize].wait else {
                    continue;
                };
                let drawer = self.ids.as_ref().and_then(|ids| ids.slots.drawer(slot));
                if drawer == Some(blocked) {
                    found.push(*blocker as usize);
                }
            }
        }
        found.iter().for_each(|&session| self.waive_id_wait(session));
        !found.is_empty()
    }
}
