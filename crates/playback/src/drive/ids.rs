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
use super::player::{Queued, Wait};
use super::run::Run;
use crate::ids::plan::Plan;
use crate::locks::Blocked;
use crate::rewrite::Mode;
use crate::rewrite::bound::{Binder, Counted};
use crate::rewrite::now::{Missing, Now};
use crate::rewrite::reported::Ids;
use crate::spec::PlaybackSpec;
use crate::survey::Survey;

/// Ids of a playback: what is known of them, and what was drawn now.
pub struct Mapping {
    now: Now,
    plan: Arc<Plan>,
    catalog: Catalog,
    counted: Arc<Mutex<Counted>>,
}

impl Mapping {
    /// The mapping of ids, with the binder of statements as they are read; None if ids are sent as
    /// captured.
    ///
    /// # Errors
    ///
    /// When the trace cannot be read.
    pub fn of(
        spec: &PlaybackSpec,
        survey: &Survey,
    ) -> Result<Option<(Mapping, Binder)>, PlaybackError> {
        let Some(catalog) = spec.catalog.as_ref().filter(|_| spec.ids == Mode::Infer) else {
            return Ok(None);
        };
        let sessions = &survey.sessions;
        let is_played: Vec<bool> = sessions.iter().map(|session| session.is_played).collect();
        let plan = Arc::new(Plan::of(&TraceReader::open(&spec.trace)?, &is_played, catalog)?);
        let names = sessions.iter().map(|session| String::from_utf8_lossy(&session.name));
        let names = names.map(|name| name.into_owned()).collect();
        let counted = Arc::new(Mutex::new(Counted::default()));
        let binder = Binder::new(plan.clone(), catalog.clone(), names, counted.clone());
        let now = Now::new(plan.clone());
        Ok(Some((Mapping { now, plan, catalog: catalog.clone(), counted }, binder)))
    }

    /// The results, after everything was read.
    pub fn finish(self) -> Ids {
        let counted = std::mem::take(&mut *lock(&self.counted));
        Ids::of(&self.plan, &self.catalog, counted, &self.now.finish())
    }
}

impl Run {
    /// Whether a session's next statement has to wait for an id; if so, that is recorded.
    pub(super) fn awaits_draw(&mut self, session: usize, due_ns: Option<u64>) -> bool {
        let Some(ids) = &mut self.ids else { return false };
        let player = &mut self.players[session];
        let Some(head) = player.queue.front() else { return false };
        let Some(bound) = &head.fed.ids else { return false };
        if player.undrawn == Some(head.fed.item.number) {
            return false;
        }
        let Some(slot) = ids.now.lacks(bound) else { return false };
        ids.now.wait(slot, session as u32);
        player.wait = Wait::Draw { since_ns: player.could(due_ns).0, slot };
        self.counts.held += 1;
        true
    }

    /// Rewrites ids in a session's next statement to those drawn now.
    pub(super) fn write_ids(&mut self, session: usize) {
        let Some(ids) = &mut self.ids else { return };
        let Some(head) = self.players[session].queue.front_mut() else { return };
        let fed = &mut *head.fed;
        if let Some(bound) = &fed.ids {
            ids.now.write(&mut fed.item, bound);
            self.feed.resize(fed);
        }
    }

    /// A statement was answered: records what it drew.
    pub(super) fn drew(&mut self, queued: &Queued, answer: &Answer) {
        if let (Some(ids), Some(bound)) = (&mut self.ids, &queued.fed.ids) {
            let waited = ids.now.take(bound, answer);
            self.go_on(&waited);
        }
    }

    /// A statement has ended: it will draw nothing more.
    pub(super) fn drew_not(&mut self, queued: &Queued) {
        if let (Some(ids), Some(bound)) = (&mut self.ids, &queued.fed.ids) {
            let waited = ids.now.lose(bound, Missing::Failed);
            self.go_on(&waited);
        }
    }

    /// Continues sessions that waited for an id.
    fn go_on(&mut self, sessions: &[u32]) {
        for &session in sessions {
            self.need_not_wait(session as usize);
        }
    }

    fn need_not_wait(&mut self, session: usize) {
        let now_ns = self.now_ns();
        let player = &mut self.players[session];
        let Wait::Draw { since_ns, .. } = player.wait else { return };
        player.wait = Wait::Nothing;
        player.released_ns = now_ns;
        self.counts.held -= 1;
        if let Some(ids) = &mut self.ids {
            ids.now.waited_ns += now_ns.saturating_sub(since_ns);
        }
        self.advance(session);
    }

    /// Sends a session's next statement without the ids that it waits for.
    fn go_undrawn(&mut self, session: usize) {
        let player = &mut self.players[session];
        player.undrawn = player.queue.front().map(|head| head.fed.item.number);
        self.need_not_wait(session);
    }

    /// Without any progress: sends the first statement of the capture that waits for ids.
    pub(super) fn release_undrawn(&mut self) {
        let waiting = self.players.iter().enumerate();
        let waiting = waiting.filter(|(_, player)| matches!(player.wait, Wait::Draw { .. }));
        let first = waiting.min_by_key(|(_, player)| player.queue.front().map(|head| head.place));
        if let Some((session, _)) = first {
            self.go_undrawn(session);
        }
    }

    /// Sends statements whose session holds locks that the drawing session waits for; whether any
    /// did.
    pub(super) fn release_draws(&mut self, waits: &[Blocked]) -> bool {
        let mut found = Vec::new();
        for one in waits {
            let Some(&blocked) = self.by_process.get(&one.process) else { continue };
            for blocker in one.by.iter().filter_map(|process| self.by_process.get(process)) {
                let Wait::Draw { slot, .. } = self.players[*blocker as usize].wait else {
                    continue;
                };
                let drawer = self.ids.as_ref().and_then(|ids| ids.now.drawer(slot));
                if drawer == Some(blocked) {
                    found.push(*blocker as usize);
                }
            }
        }
        found.iter().for_each(|&session| self.go_undrawn(session));
        !found.is_empty()
    }
}
