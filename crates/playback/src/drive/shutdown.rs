//! Ends what is open when a playback ends, and collects its results.

use rustix::event::epoll::Event;
use seatrial_pgwire::link::Link;

use super::PlaybackError;
use super::ids::IdMapping;
use super::run::{CANCEL, PlaybackLoop};
use super::usage;
use crate::accounting::PlaybackSummary;
use crate::order::statement_order::StatementOrder;
use crate::played::{DriverUsage, OrderDelays, PlaybackEnd, ReplayResult};
use crate::rewrite::reported::Ids;

/// How long open statements may take to complete at the end.
const DRAIN_TIMEOUT_NS: u64 = 2_000_000_000;

/// How long a server may take to end cancelled statements.
const CANCEL_TIMEOUT_NS: u64 = 1_000_000_000;

impl PlaybackLoop {
    /// Stops sending, waits for open statements, cancels the remaining ones, and gives up those
    /// still open.
    pub(super) fn drain(&mut self, events: &mut Vec<Event>) -> Result<(), PlaybackError> {
        // Sessions that would continue see that it is over.
        self.end.get_or_insert(PlaybackEnd::Complete);
        self.wait_for_open(events, DRAIN_TIMEOUT_NS)?;
        if self.counts.in_flight > 0 {
            // They last as long as it takes.
            let _requests = self.cancel();
            self.wait_for_open(events, CANCEL_TIMEOUT_NS)?;
        }
        for session in 0..self.players.len() {
            self.give_up(session);
        }
        Ok(())
    }

    fn wait_for_open(
        &mut self,
        events: &mut Vec<Event>,
        at_most_ns: u64,
    ) -> Result<(), PlaybackError> {
        let until_ns = self.now_ns() + at_most_ns;
        while self.counts.in_flight > 0 && self.now_ns() < until_ns {
            self.wait(events, Some(until_ns.saturating_sub(self.now_ns()).max(1)))?;
        }
        Ok(())
    }

    /// Cancels the open statements, each over a separate connection.
    fn cancel(&self) -> Vec<Link> {
        let open = self.players.iter().filter(|player| player.open.is_some());
        let request = |peer: &super::player::Peer| {
            let mut request = Vec::new();
            peer.connection.cancel_request(&mut request);
            Link::open(&self.address, &self.epoll, CANCEL, &request).ok().flatten()
        };
        open.filter_map(|player| player.peer.as_deref().and_then(request)).collect()
    }

    /// Closes all connections, and returns the results.
    ///
    /// # Errors
    ///
    /// When the statements do not add up.
    pub(super) fn finish(mut self, end: PlaybackEnd) -> Result<ReplayResult, PlaybackError> {
        self.record_ended();
        let duration_ns = self.now_ns();
        let queued = self.players.iter().map(|player| player.queue.len() as u64).sum::<u64>();
        let not_reached = queued + (self.survey.statements - self.counts.taken);
        // That these connections end now says nothing about the replay, and is not recorded.
        for session in 0..self.players.len() {
            self.terminate(session);
        }
        let (looped, run_delay_ns) = self.used();
        let read = self.feed.end();
        let used = looped.plus(read);
        let busy_ns = looped.total_ns() + run_delay_ns;
        let client = DriverUsage {
            cpu_user_ns: used.user_ns,
            cpu_system_ns: used.system_ns,
            reader_cpu_ns: read.total_ns(),
            run_delay_ns,
            idle_ns: duration_ns.saturating_sub(busy_ns),
            memory_bytes_max: self.memory_bytes_max.max(usage::memory_bytes()),
            read_ahead_max: self.feed.buffered_items_max,
        };
        let start_unix_ns = self.start_unix_ns();
        let ids = self.ids.take().map_or_else(Ids::off, IdMapping::finish);
        let cost = self.order.as_ref().map(StatementOrder::cost).unwrap_or_default();
        let PlaybackLoop { accounting, survey, delays, sessions, spec, start_lateness_ns, .. } =
            self;
        let delays = OrderDelays {
            edges: cost.edges,
            edge_ns: cost.edge_ns(),
            statement_ns: cost.statement_ns(),
            postponed: cost.postponed,
            ..delays
        };
        Ok(accounting.finish(PlaybackSummary {
            start_unix_ns,
            duration_ns,
            end,
            survey: &survey,
            not_reached,
            order: delays,
            sessions,
            client,
            ids,
            keeps_counts: spec.part.is_some(),
            start_lateness_ns,
        })?)
    }
}
