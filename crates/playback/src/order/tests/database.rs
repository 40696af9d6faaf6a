//! A server made up, with row locks and transactions, under loads that do not commute: whatever
//! runs side by side, all orders leave the same data, and those of the capture.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError};

use super::*;
use crate::order::OrderPosition;
use crate::order::edges::LockWait;
use crate::order::turns::Turns;

/// What a statement does to the one table with rows to be changed, and to one that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actions {
    /// `UPDATE t SET v = v * 3 + x WHERE id = row`
    Change(u64),
    /// `UPDATE t SET v = v * 3 + (SELECT v FROM t WHERE id = from) WHERE id = row`
    Feed(u64, u64),
    /// `UPDATE t SET v = v * 5 + 1`, with rows that no key identifies.
    ChangeAll,
    /// `INSERT INTO log SELECT sum(v) FROM t`
    Log,
    /// COMMIT.
    End,
}

const ROWS: u64 = 4;

#[derive(Clone, Debug)]
struct Sent {
    made: Made,
    actions: Actions,
}

impl Statement for Sent {
    fn scanned(&self) -> Scanned<'_> {
        self.made.scanned()
    }
}

fn sent(number: u64, session: u32, transaction: u64, actions: Actions) -> Sent {
    let known = match actions {
        Actions::Change(value) => vec![row(0, AccessMode::Values, value)],
        Actions::Feed(value, from) => {
            vec![row(0, AccessMode::Values, value), row(0, AccessMode::Read, from)]
        }
        Actions::ChangeAll => vec![ObjectAccess::whole(Object::table(0), AccessMode::Values)],
        Actions::Log => vec![
            ObjectAccess::whole(Object::table(0), AccessMode::Read),
            ObjectAccess::whole(Object::table(1), AccessMode::Add),
        ],
        Actions::End => Vec::new(),
    };
    let made = Made {
        number,
        session,
        start_us: number as i64,
        duration_us: None,
        transaction,
        ends: actions == Actions::End,
        access_set: AccessSet { known, ..AccessSet::default() },
    };
    Sent { made, actions }
}

/// A statement that a server works on.
#[derive(Clone, Debug)]
struct Work {
    sent: Sent,
    rows: VecDeque<u64>,
    /// What it read when it began.
    seen: u64,
}

/// A server.
#[derive(Clone, Debug, Default)]
struct Server {
    committed: BTreeMap<u64, u64>,
    log: BTreeMap<u64, u64>,
    changed: BTreeMap<u32, BTreeMap<u64, u64>>,
    logged: BTreeMap<u32, BTreeMap<u64, u64>>,
    locks: BTreeMap<u64, u32>,
    waiting: Vec<Work>,
    answers: Vec<Sent>,
    /// How often a statement had to wait.
    waited: usize,
    /// Who of several gets a lock first: PostgreSQL does not promise an order.
    luck: usize,
}

impl Server {
    fn seen(&self, session: u32, row: u64) -> u64 {
        let own = self.changed.get(&session).and_then(|rows| rows.get(&row));
        own.or_else(|| self.committed.get(&row)).copied().unwrap_or(row)
    }

    fn begin(&mut self, sent: Sent) {
        let session = sent.made.session;
        let (rows, seen) = match sent.actions {
            Actions::Change(row) => (VecDeque::from([row]), sent.made.number),
            Actions::Feed(row, from) => (VecDeque::from([row]), self.seen(session, from)),
            Actions::ChangeAll => ((0..ROWS).collect(), 1),
            Actions::Log => {
                let sum = (0..ROWS).fold(0u64, |sum, row| {
                    sum.wrapping_mul(31).wrapping_add(self.seen(session, row))
                });
                (VecDeque::new(), sum)
            }
            Actions::End => (VecDeque::new(), 0),
        };
        self.work(Work { sent, rows, seen });
    }

    /// Goes on until it is done or has to wait.
    fn work(&mut self, mut work: Work) {
        let session = work.sent.made.session;
        while let Some(&row) = work.rows.front() {
            if self.locks.get(&row).is_some_and(|&holder| holder != session) {
                self.waited += 1;
                return self.waiting.push(work);
            }
            self.change(&work, row);
            work.rows.pop_front();
        }
        if work.sent.actions == Actions::Log {
            let number = work.sent.made.number;
            self.logged.entry(session).or_default().insert(number, work.seen);
        }
        let is_over = work.sent.actions == Actions::End || work.sent.made.transaction == 0;
        self.answers.push(work.sent);
        if is_over {
            self.commit(session);
        }
    }

    fn change(&mut self, work: &Work, row: u64) {
        let session = work.sent.made.session;
        let factor = if work.sent.actions == Actions::ChangeAll { 5 } else { 3 };
        let value = self.seen(session, row).wrapping_mul(factor).wrapping_add(work.seen);
        self.locks.insert(row, session);
        self.changed.entry(session).or_default().insert(row, value);
    }

    fn commit(&mut self, session: u32) {
        self.committed.extend(self.changed.remove(&session).unwrap_or_default());
        self.log.extend(self.logged.remove(&session).unwrap_or_default());
        self.locks.retain(|_, holder| *holder != session);
        loop {
            let free = |work: &Work| !self.locks.contains_key(&work.rows[0]);
            let ready: Vec<usize> =
                (0..self.waiting.len()).filter(|&place| free(&self.waiting[place])).collect();
            let Some(&place) = ready.get(self.luck % ready.len().max(1)) else { return };
            self.luck = self.luck * 7 % 1_009 + 1;
            let work = self.waiting.remove(place);
            self.work(work);
        }
    }

    /// Sessions that wait, and for whose lock.
    fn waits(&self) -> Vec<(u32, u32)> {
        let waits = |work: &Work| Some((work.sent.made.session, *self.locks.get(&work.rows[0])?));
        self.waiting.iter().filter_map(waits).collect()
    }

    fn is_waiting(&self, session: u32) -> bool {
        self.waiting.iter().any(|work| work.sent.made.session == session)
    }

    fn data(&self) -> [Vec<(u64, u64)>; 2] {
        let pairs = |rows: &BTreeMap<u64, u64>| rows.iter().map(|(&a, &b)| (a, b)).collect();
        [&self.committed, &self.log].map(pairs)
    }
}

/// What a session does: transactions of statements; those in the plural are in a block.
type Script = Vec<Vec<Actions>>;

/// Runs scripts side by side; what was logged, in the order in which statements began.
fn capture_of(scripts: &[Script], dice: &[u8]) -> (Vec<Sent>, Server) {
    let mut server = Server { luck: usize::from(dice[0]), ..Server::default() };
    let mut queues: Vec<VecDeque<(u64, Actions)>> = scripts.iter().map(statements).collect();
    let mut trace = Vec::new();
    let mut dice = dice.iter().cycle();
    loop {
        let ready: Vec<usize> = (0..queues.len())
            .filter(|&place| !queues[place].is_empty() && !server.is_waiting(place as u32))
            .collect();
        if ready.is_empty() {
            break;
        }
        let session = ready[usize::from(*dice.next().unwrap()) % ready.len()];
        let (transaction, actions) = queues[session].pop_front().unwrap();
        let sent = sent(trace.len() as u64, session as u32, transaction, actions);
        trace.push(sent.clone());
        server.begin(sent);
    }
    assert!(server.waiting.is_empty() && queues.iter().all(VecDeque::is_empty));
    (trace, server)
}

/// How long the longest statement of a capture in the order of ends takes.
const LONGEST_US: u64 = 10_000_000;

/// Runs scripts side by side; what was logged, in the order in which statements ended. An end's
/// line may be written later than those of who waited for it, and of what follows these.
fn ended_of(scripts: &[Script], dice: &[u8]) -> Vec<Sent> {
    const STEP_US: i64 = 20_000;
    let mut server = Server { luck: usize::from(dice[0]), ..Server::default() };
    let mut queues: Vec<VecDeque<(u64, Actions)>> = scripts.iter().map(statements).collect();
    // By when they were written.
    let mut lines: Vec<(i64, Sent)> = Vec::new();
    let mut written_us = vec![0; scripts.len()];
    let (mut now_us, mut number) = (0, 0);
    let mut dice = dice.iter().cycle();
    loop {
        let ready: Vec<usize> = (0..queues.len())
            .filter(|&place| !queues[place].is_empty() && !server.is_waiting(place as u32))
            .filter(|&place| written_us[place] <= now_us)
            .collect();
        let die = *dice.next().unwrap();
        now_us += STEP_US;
        if !ready.is_empty() {
            let session = ready[usize::from(die) % ready.len()];
            let (transaction, actions) = queues[session].pop_front().unwrap();
            let mut sent = sent(number, session as u32, transaction, actions);
            (sent.made.start_us, number) = (now_us, number + 1);
            server.begin(sent);
        } else if queues.iter().all(VecDeque::is_empty) {
            break;
        }
        for mut sent in std::mem::take(&mut server.answers) {
            let is_late = sent.made.ends && die % 3 == 0;
            let late_us = if is_late { STEP_US * i64::from(die % 7) } else { 0 };
            let end_us = now_us + 10 * lines.len() as i64 % 1_000 + late_us;
            sent.made.duration_us = Some((end_us - sent.made.start_us) as u64);
            written_us[sent.made.session as usize] = end_us;
            lines.push((end_us, sent));
        }
    }
    lines.sort_by_key(|&(end_us, _)| end_us);
    let mut trace: Vec<Sent> = lines.into_iter().map(|(_, sent)| sent).collect();
    (0..).zip(&mut trace).for_each(|(number, sent)| sent.made.number = number);
    trace
}

fn statements(script: &Script) -> VecDeque<(u64, Actions)> {
    let mut all = VecDeque::new();
    for (place, actions) in script.iter().enumerate() {
        let transaction = if actions.len() > 1 { place as u64 + 1 } else { 0 };
        all.extend(actions.iter().map(|&one| (transaction, one)));
        if transaction > 0 {
            all.push_back((transaction, Actions::End));
        }
    }
    all
}

/// A playback of what was captured.
struct Playback {
    order: EdgeOrder,
    queues: Vec<VecDeque<(Sent, OrderPosition)>>,
    /// Sent, and yet to be seen by the server.
    inbox: Vec<Sent>,
    busy: Vec<Option<OrderPosition>>,
    /// Whether what a session sent last is no part of a transaction.
    alone: Vec<bool>,
    server: Server,
}

impl Playback {
    fn new(trace: &[Sent], grain: Grain, luck: usize) -> Playback {
        Playback::timed(trace, None, grain, luck)
    }

    fn timed(trace: &[Sent], longest_us: Option<u64>, grain: Grain, luck: usize) -> Playback {
        let sessions = SESSIONS as usize;
        let mut turns = Turns::new(sessions, longest_us);
        trace.iter().cloned().for_each(|sent| turns.take_in(sent));
        turns.end();
        let mut order = EdgeOrder::new(grain, sessions);
        let mut queues = vec![VecDeque::new(); sessions];
        while let Some(sent) = turns.next_turn() {
            let place = order.take_in(&sent.made.turned());
            queues[sent.made.session as usize].push_back((sent, place));
        }
        Playback {
            order,
            queues,
            inbox: Vec::new(),
            busy: vec![None; sessions],
            alone: vec![false; sessions],
            server: Server { luck, ..Server::default() },
        }
    }

    fn may_go(&self, session: usize) -> bool {
        let next = self.queues[session].front();
        next.is_some_and(|&(_, place)| self.busy[session].is_none() && self.order.may_go(place))
    }

    fn send(&mut self, session: usize) {
        let (sent, place) = self.queues[session].pop_front().unwrap();
        self.busy[session] = Some(place);
        self.alone[session] = sent.made.transaction == 0;
        self.inbox.push(sent);
    }

    fn take_answers(&mut self) {
        for sent in std::mem::take(&mut self.server.answers) {
            let session = sent.made.session as usize;
            self.order.done(self.busy[session].take().unwrap());
        }
    }

    /// Asks who waits for whom.
    fn ask(&mut self) {
        let waits = self.server.waits().into_iter().map(|(waiter, blocker)| {
            let (busy, queue) = (self.busy[blocker as usize], &self.queues[blocker as usize]);
            let is_held = busy.is_none() && !self.may_go(blocker as usize);
            let end = queue.iter().find(|(sent, _)| sent.made.ends).map(|&(_, place)| place);
            let is_alone = self.alone[blocker as usize];
            LockWait {
                waiter: SessionId(waiter),
                place: self.busy[waiter as usize].unwrap(),
                blocker: SessionId(blocker),
                next: queue.front().filter(|_| is_held).map(|&(_, place)| place),
                end: if is_alone { busy } else { end },
            }
        });
        let waits: Vec<LockWait> = waits.collect();
        self.order.wait_for_locks(&waits);
    }

    fn run(mut self, dice: &[u8]) -> Server {
        let mut dice = dice.iter().cycle().map(|&die| usize::from(die));
        let mut in_vain = 0;
        loop {
            let ready: Vec<usize> =
                (0..self.queues.len()).filter(|&session| self.may_go(session)).collect();
            let choices = ready.len() + self.inbox.len() + self.server.answers.len().min(1);
            if choices == 0 {
                if self.queues.iter().all(VecDeque::is_empty) && self.server.waiting.is_empty() {
                    return self.server;
                }
                self.ask();
                in_vain += 1;
                assert!(in_vain < 9, "a deadlock");
                continue;
            }
            in_vain = 0;
            let die = dice.next().unwrap();
            if die > 200 {
                self.ask();
            }
            let choice = die % choices;
            if choice < ready.len() {
                self.send(ready[choice]);
            } else if choice < ready.len() + self.inbox.len() {
                let sent = self.inbox.swap_remove(choice - ready.len());
                self.server.begin(sent);
            } else {
                self.take_answers();
            }
        }
    }
}

fn actions(may_change_all: bool) -> impl Strategy<Value = Actions> {
    let most = if may_change_all { 12u8 } else { 11 };
    (0..most, 0..ROWS, 0..ROWS).prop_map(|(kind, row, from)| match kind {
        0 => Actions::Log,
        1 | 2 => Actions::Feed(row, from),
        11 => Actions::ChangeAll,
        _ => Actions::Change(row),
    })
}

/// Transactions that lock rows in one order, so that they do not end in a deadlock.
fn script(may_change_all: bool) -> impl Strategy<Value = Script> {
    let block = proptest::collection::vec(actions(may_change_all), 1..5).prop_map(|mut actions| {
        actions.sort_by_key(|actions| match actions {
            Actions::Change(row) | Actions::Feed(row, _) => *row,
            _ => 0,
        });
        // What locks all rows must not wait for them while it has some.
        match actions.iter().find(|actions| **actions == Actions::ChangeAll) {
            Some(_) => vec![Actions::ChangeAll, Actions::Log],
            None => actions,
        }
    });
    proptest::collection::vec(block, 0..6)
}

fn scripts(may_change_all: bool) -> impl Strategy<Value = Vec<Script>> {
    proptest::collection::vec(script(may_change_all), SESSIONS as usize)
}

/// Plays one by one, by object and by key; what is played one by one.
fn all_orders_agree(
    luck: usize,
    play: impl Fn(Grain, usize) -> Server,
) -> Result<Server, TestCaseError> {
    let strict = play(Grain::All, 1);
    for grain in [Grain::Object, Grain::Key] {
        prop_assert_eq!(play(grain, luck).data(), strict.data(), "{:?}", grain);
    }
    Ok(strict)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Where keys show who has to wait.
    #[test]
    fn keys_lead_to_the_same_data(
        scripts in scripts(false),
        dice in proptest::collection::vec(any::<u8>(), 1..90),
        others in proptest::collection::vec(any::<u8>(), 90),
        luck in 0usize..1_000,
    ) {
        let (trace, _) = capture_of(&scripts, &dice);
        all_orders_agree(luck, |grain, luck| Playback::new(&trace, grain, luck).run(&others))?;
    }

    /// Without statements that see more than the row that they change, it is the capture's data.
    #[test]
    fn the_captures_data_come_back(
        rows in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(0..ROWS, 2..5), 0..6),
            SESSIONS as usize,
        ),
        dice in proptest::collection::vec(any::<u8>(), 1..90),
    ) {
        let change = |mut rows: Vec<u64>| {
            rows.sort_unstable();
            rows.into_iter().map(Actions::Change).collect()
        };
        let scripts: Vec<Script> = rows
            .into_iter()
            .map(|script| script.into_iter().map(change).collect())
            .collect();
        let (trace, captured) = capture_of(&scripts, &dice);
        let server = Playback::new(&trace, Grain::Key, 5).run(&dice);
        prop_assert_eq!(server.data(), captured.data());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::with_cases(300)
    })]

    /// Where no key identifies the rows, the server's locks do. The loads are the same each time:
    /// in one of some ten thousand, in which several statements wait for several others at once, it
    /// matters when that is noticed.
    #[test]
    fn locks_lead_to_the_same_data(
        scripts in scripts(true),
        dice in proptest::collection::vec(any::<u8>(), 1..90),
        others in proptest::collection::vec(any::<u8>(), 90),
        luck in 0usize..1_000,
    ) {
        let (trace, _) = capture_of(&scripts, &dice);
        all_orders_agree(luck, |grain, luck| Playback::new(&trace, grain, luck).run(&others))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Where ends and durations were logged, no statement has to wait in the order of turns,
    /// whether a key identifies the rows or not; so it cannot matter when a wait is noticed.
    #[test]
    fn what_ended_when_leads_to_the_same_data(
        scripts in scripts(true),
        dice in proptest::collection::vec(any::<u8>(), 1..90),
        others in proptest::collection::vec(any::<u8>(), 90),
        luck in 0usize..1_000,
    ) {
        let trace = ended_of(&scripts, &dice);
        let strict = all_orders_agree(luck, |grain, luck| {
            Playback::timed(&trace, Some(LONGEST_US), grain, luck).run(&others)
        })?;
        prop_assert_eq!(strict.waited, 0);
    }
}
