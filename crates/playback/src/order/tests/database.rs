//! A server made up, with row locks and transactions, under loads that do not commute: whatever
//! runs side by side, all orders leave the same data, and those of the capture.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError};

use super::*;
use crate::order::OrderPosition;
use crate::order::edges::LockWait;
use crate::order::turns::TurnScheduler;

/// What a statement does to the one table with rows to be changed, and to one that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
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
    statement: TestStatement,
    action: Action,
}

impl Statement for Sent {
    fn scanned(&self) -> Scanned<'_> {
        self.statement.scanned()
    }
}

fn sent(number: u64, session: u32, transaction: u64, action: Action) -> Sent {
    let known = match action {
        Action::Change(value) => vec![row(0, AccessMode::Values, value)],
        Action::Feed(value, from) => {
            vec![row(0, AccessMode::Values, value), row(0, AccessMode::Read, from)]
        }
        Action::ChangeAll => vec![ObjectAccess::whole(Object::table(0), AccessMode::Values)],
        Action::Log => vec![
            ObjectAccess::whole(Object::table(0), AccessMode::Read),
            ObjectAccess::whole(Object::table(1), AccessMode::Add),
        ],
        Action::End => Vec::new(),
    };
    let statement = TestStatement {
        number,
        session,
        start_us: number as i64,
        duration_us: None,
        transaction,
        ends: action == Action::End,
        access_set: AccessSet { known, ..AccessSet::default() },
    };
    Sent { statement, action }
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
        let session = sent.statement.session;
        let (rows, seen) = match sent.action {
            Action::Change(row) => (VecDeque::from([row]), sent.statement.number),
            Action::Feed(row, from) => (VecDeque::from([row]), self.seen(session, from)),
            Action::ChangeAll => ((0..ROWS).collect(), 1),
            Action::Log => {
                let sum = (0..ROWS).fold(0u64, |sum, row| {
                    sum.wrapping_mul(31).wrapping_add(self.seen(session, row))
                });
                (VecDeque::new(), sum)
            }
            Action::End => (VecDeque::new(), 0),
        };
        self.work(Work { sent, rows, seen });
    }

    /// Goes on until it is done or has to wait.
    fn work(&mut self, mut work: Work) {
        let session = work.sent.statement.session;
        while let Some(&row) = work.rows.front() {
            if self.locks.get(&row).is_some_and(|&holder| holder != session) {
                self.waited += 1;
                return self.waiting.push(work);
            }
            self.change(&work, row);
            work.rows.pop_front();
        }
        if work.sent.action == Action::Log {
            let number = work.sent.statement.number;
            self.logged.entry(session).or_default().insert(number, work.seen);
        }
        let is_over = work.sent.action == Action::End || work.sent.statement.transaction == 0;
        self.answers.push(work.sent);
        if is_over {
            self.commit(session);
        }
    }

    fn change(&mut self, work: &Work, row: u64) {
        let session = work.sent.statement.session;
        let factor = if work.sent.action == Action::ChangeAll { 5 } else { 3 };
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
                (0..self.waiting.len()).filter(|&position| free(&self.waiting[position])).collect();
            let Some(&position) = ready.get(self.luck % ready.len().max(1)) else { return };
            self.luck = self.luck * 7 % 1_009 + 1;
            let work = self.waiting.remove(position);
            self.work(work);
        }
    }

    /// Sessions that wait, and for whose lock.
    fn waits(&self) -> Vec<(u32, u32)> {
        let waits =
            |work: &Work| Some((work.sent.statement.session, *self.locks.get(&work.rows[0])?));
        self.waiting.iter().filter_map(waits).collect()
    }

    fn is_waiting(&self, session: u32) -> bool {
        self.waiting.iter().any(|work| work.sent.statement.session == session)
    }

    fn data(&self) -> [Vec<(u64, u64)>; 2] {
        let pairs = |rows: &BTreeMap<u64, u64>| rows.iter().map(|(&a, &b)| (a, b)).collect();
        [&self.committed, &self.log].map(pairs)
    }
}

/// What a session does: transactions of statements; those in the plural are in a block.
type Script = Vec<Vec<Action>>;

/// Runs scripts side by side; what was logged, in the order in which statements began.
fn capture_of(scripts: &[Script], dice: &[u8]) -> (Vec<Sent>, Server) {
    let mut server = Server { luck: usize::from(dice[0]), ..Server::default() };
    let mut queues: Vec<VecDeque<(u64, Action)>> = scripts.iter().map(statements).collect();
    let mut trace = Vec::new();
    let mut dice = dice.iter().cycle();
    loop {
        let ready: Vec<usize> = (0..queues.len())
            .filter(|&position| !queues[position].is_empty() && !server.is_waiting(position as u32))
            .collect();
        if ready.is_empty() {
            break;
        }
        let session = ready[usize::from(*dice.next().unwrap()) % ready.len()];
        let (transaction, action) = queues[session].pop_front().unwrap();
        let sent = sent(trace.len() as u64, session as u32, transaction, action);
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
    let mut queues: Vec<VecDeque<(u64, Action)>> = scripts.iter().map(statements).collect();
    // By when they were written.
    let mut lines: Vec<(i64, Sent)> = Vec::new();
    let mut written_us = vec![0; scripts.len()];
    let (mut now_us, mut number) = (0, 0);
    let mut dice = dice.iter().cycle();
    loop {
        let ready: Vec<usize> = (0..queues.len())
            .filter(|&position| !queues[position].is_empty() && !server.is_waiting(position as u32))
            .filter(|&position| written_us[position] <= now_us)
            .collect();
        let die = *dice.next().unwrap();
        now_us += STEP_US;
        if !ready.is_empty() {
            let session = ready[usize::from(die) % ready.len()];
            let (transaction, action) = queues[session].pop_front().unwrap();
            let mut sent = sent(number, session as u32, transaction, action);
            (sent.statement.start_us, number) = (now_us, number + 1);
            server.begin(sent);
        } else if queues.iter().all(VecDeque::is_empty) {
            break;
        }
        for mut sent in std::mem::take(&mut server.answers) {
            let is_late = sent.statement.ends && die % 3 == 0;
            let late_us = if is_late { STEP_US * i64::from(die % 7) } else { 0 };
            let end_us = now_us + 10 * lines.len() as i64 % 1_000 + late_us;
            sent.statement.duration_us = Some((end_us - sent.statement.start_us) as u64);
            written_us[sent.statement.session as usize] = end_us;
            lines.push((end_us, sent));
        }
    }
    lines.sort_by_key(|&(end_us, _)| end_us);
    let mut trace: Vec<Sent> = lines.into_iter().map(|(_, sent)| sent).collect();
    (0..).zip(&mut trace).for_each(|(number, sent)| sent.statement.number = number);
    trace
}

fn statements(script: &Script) -> VecDeque<(u64, Action)> {
    let mut all = VecDeque::new();
    for (position, action) in script.iter().enumerate() {
        let transaction = if action.len() > 1 { position as u64 + 1 } else { 0 };
        all.extend(action.iter().map(|&one| (transaction, one)));
        if transaction > 0 {
            all.push_back((transaction, Action::End));
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
    /// Whether what a session sent last is not part of a transaction.
    alone: Vec<bool>,
    server: Server,
}

impl Playback {
    fn new(trace: &[Sent], granularity: Granularity, luck: usize) -> Playback {
        Playback::timed(trace, None, granularity, luck)
    }

    fn timed(
        trace: &[Sent],
        longest_us: Option<u64>,
        granularity: Granularity,
        luck: usize,
    ) -> Playback {
        let sessions = SESSIONS as usize;
        let mut turns = TurnScheduler::new(sessions, longest_us);
        trace.iter().cloned().for_each(|sent| turns.take_in(sent));
        turns.end();
        let mut order = EdgeOrder::new(granularity, sessions);
        let mut queues = vec![VecDeque::new(); sessions];
        while let Some(sent) = turns.next_turn() {
            let position = order.take_in(&sent.statement.ordered());
            queues[sent.statement.session as usize].push_back((sent, position));
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

    fn may_send(&self, session: usize) -> bool {
        let next = self.queues[session].front();
        next.is_some_and(|&(_, position)| {
            self.busy[session].is_none() && self.order.may_send(position)
        })
    }

    fn send(&mut self, session: usize) {
        let (sent, position) = self.queues[session].pop_front().unwrap();
        self.busy[session] = Some(position);
        self.alone[session] = sent.statement.transaction == 0;
        self.inbox.push(sent);
    }

    fn take_answers(&mut self) {
        for sent in std::mem::take(&mut self.server.answers) {
            let session = sent.statement.session as usize;
            self.order.done(self.busy[session].take().unwrap());
        }
    }

    /// Asks who waits for whom.
    fn ask(&mut self) {
        let waits = self.server.waits().into_iter().map(|(waiter, blocker)| {
            let (busy, queue) = (self.busy[blocker as usize], &self.queues[blocker as usize]);
            let is_delayed = busy.is_none() && !self.may_send(blocker as usize);
            let end =
                queue.iter().find(|(sent, _)| sent.statement.ends).map(|&(_, position)| position);
            let is_alone = self.alone[blocker as usize];
            LockWait {
                waiter: SessionId(waiter),
                position: self.busy[waiter as usize].unwrap(),
                blocker: SessionId(blocker),
                next: queue.front().filter(|_| is_delayed).map(|&(_, position)| position),
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
                (0..self.queues.len()).filter(|&session| self.may_send(session)).collect();
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

fn action(may_change_all: bool) -> impl Strategy<Value = Action> {
    let most = if may_change_all { 12u8 } else { 11 };
    (0..most, 0..ROWS, 0..ROWS).prop_map(|(kind, row, from)| match kind {
        0 => Action::Log,
        1 | 2 => Action::Feed(row, from),
        11 => Action::ChangeAll,
        _ => Action::Change(row),
    })
}

/// Transactions that lock rows in one order, so that they do not end in a deadlock.
fn script(may_change_all: bool) -> impl Strategy<Value = Script> {
    let block = proptest::collection::vec(action(may_change_all), 1..5).prop_map(|mut action| {
        action.sort_by_key(|action| match action {
            Action::Change(row) | Action::Feed(row, _) => *row,
            _ => 0,
        });
        // What locks all rows must not wait for them while it has some.
        match action.iter().find(|action| **action == Action::ChangeAll) {
            Some(_) => vec![Action::ChangeAll, Action::Log],
            None => action,
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
    play: impl Fn(Granularity, usize) -> Server,
) -> Result<Server, TestCaseError> {
    let strict = play(Granularity::All, 1);
    for granularity in [Granularity::Object, Granularity::Key] {
        prop_assert_eq!(play(granularity, luck).data(), strict.data(), "{:?}", granularity);
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
        let play = |granularity, luck| Playback::new(&trace, granularity, luck).run(&others);
        all_orders_agree(luck, play)?;
    }

    /// Without statements that see more than the row that they change, it is the capture's data.
    #[test]
    fn replay_restores_the_captured_data(
        rows in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(0..ROWS, 2..5), 0..6),
            SESSIONS as usize,
        ),
        dice in proptest::collection::vec(any::<u8>(), 1..90),
    ) {
        let change = |mut rows: Vec<u64>| {
            rows.sort_unstable();
            rows.into_iter().map(Action::Change).collect()
        };
        let scripts: Vec<Script> = rows
            .into_iter()
            .map(|script| script.into_iter().map(change).collect())
            .collect();
        let (trace, captured) = capture_of(&scripts, &dice);
        let server = Playback::new(&trace, Granularity::Key, 5).run(&dice);
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
        let play = |granularity, luck| Playback::new(&trace, granularity, luck).run(&others);
        all_orders_agree(luck, play)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Where ends and durations were logged, no statement has to wait in the order of turns,
    /// whether a key identifies the rows or not; so it cannot matter when a wait is noticed.
    #[test]
    fn order_by_logged_ends_leads_to_the_same_data(
        scripts in scripts(true),
        dice in proptest::collection::vec(any::<u8>(), 1..90),
        others in proptest::collection::vec(any::<u8>(), 90),
        luck in 0usize..1_000,
    ) {
        let trace = ended_of(&scripts, &dice);
        let strict = all_orders_agree(luck, |granularity, luck| {
            Playback::timed(&trace, Some(LONGEST_US), granularity, luck).run(&others)
        })?;
        prop_assert_eq!(strict.waited, 0);
    }
}
