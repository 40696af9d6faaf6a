//! Captures of which all is known: a server with one sequence, sessions that draw and use, and the
//! log that it would write. What gave which id is known here, and not in the log.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use seatrial_sqltext::reading::{
    ColumnId, StatementEffects, UseKind, ValueDraw, ValuePosition, ValueSource, ValueUse,
};

use super::super::scan::ScannedStatement;

/// A generator of random numbers: SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub fn within(&mut self, share: f64) -> bool {
        (self.next() >> 11) as f64 / ((1u64 << 53) as f64) < share
    }

    /// Exponential, so mostly short and sometimes long.
    pub fn about(&mut self, mean: f64) -> u64 {
        let one = ((self.next() >> 11) + 1) as f64 / ((1u64 << 53) as f64);
        (-one.ln() * mean) as u64
    }
}

/// What sessions do with what they drew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Behaviour {
    /// They use it next.
    Own,
    /// They use it next, or not at all.
    OwnOrNot,
    /// They put it into a queue, and then use what comes out of it.
    Queue,
    /// With this share they do that, else they use their own.
    SometimesQueue(f64),
    /// They use what the session before them drew last.
    Ring,
    /// Every second session draws, the others use what is in the queue.
    Workers,
    /// They draw, and use any of the ids of late.
    Any,
    /// They use their own, and then any of late by another text.
    OwnThenAny,
    /// They draw twice, and then use both.
    Twice,
    /// They use what they drew a few turns before, or not at all.
    OwnLate,
}

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub sessions: usize,
    pub turns: usize,
    pub behaviour: Behaviour,
    /// Rows of an INSERT.
    pub rows: u32,
    /// Means, in ns: from the record to the draw, from there to the end, between statements.
    pub draws_after_ns: f64,
    pub ends_after_ns: f64,
    pub thinks_ns: f64,
    /// Whether records are written at the beginning (`log_statement`), or at the end with
    /// durations.
    pub at_start: bool,
    /// Whether they are written at both (`log_duration` as well).
    pub at_both: bool,
    /// Shares: of INSERT that fail, with and without having drawn; of uses of rows that were there;
    /// of draws that are not in the log.
    pub fails: f64,
    pub old: f64,
    pub unseen: f64,
    /// How much further the sequence was than the catalogue says.
    pub further: i64,
    /// The sequence's step.
    pub increment: i64,
}

impl Scenario {
    pub fn of(seed: u64, behaviour: Behaviour) -> Scenario {
        Scenario {
            seed,
            sessions: 8,
            turns: 250,
            behaviour,
            rows: 1,
            draws_after_ns: 20_000.0,
            ends_after_ns: 150_000.0,
            thinks_ns: 60_000.0,
            at_start: true,
            at_both: false,
            fails: 0.0,
            old: 0.0,
            unseen: 0.0,
            further: 0,
            increment: 1,
        }
    }
}

/// What the catalogue says that the sequence gives next.
pub const NEXT_VALUE: i64 = 1_001;

/// A statement of the simulated log.
#[derive(Clone, Debug)]
pub struct LoggedStatement {
    pub session: u32,
    pub start_us: i64,
    pub duration_us: Option<u64>,
    pub reported_meanwhile: Option<u64>,
    pub has_failed: bool,
    /// What it drew; nobody else knows.
    pub drew: Vec<i64>,
    pub rows: u32,
    /// What it used, and by which text.
    pub used: Option<(i64, u64)>,
}

/// A simulated log, in the order of a trace.
pub struct Capture {
    pub statements: Vec<LoggedStatement>,
    /// For each id: which statement drew it, and in which row.
    pub truth: HashMap<i64, (u64, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Send,
    Draw,
    End,
}

struct Client {
    turns: usize,
    /// The statement in progress.
    now: Option<LoggedStatement>,
    record_ns: u64,
    /// What it has yet to use, and by which text.
    plan: VecDeque<(i64, u64)>,
    /// How many it has yet to take from the queue.
    takes: usize,
    last: Option<i64>,
    /// What it drew and has not used.
    mine: Vec<i64>,
}

struct Simulator {
    scenario: Scenario,
    random: Random,
    events: BinaryHeap<Reverse<(u64, u64, usize, Step)>>,
    turn: u64,
    clients: Vec<Client>,
    queue: VecDeque<i64>,
    late: VecDeque<i64>,
    next: i64,
    /// When records were written: time, order, the statement.
    records: Vec<(u64, u64, LoggedStatement)>,
    /// When those of ends were: time, order, session.
    ends: Vec<(u64, u64, u32)>,
}

/// Plays a scene.
pub fn capture(scenario: Scenario) -> Capture {
    let client = |_| Client {
        turns: scenario.turns,
        now: None,
        record_ns: 0,
        plan: VecDeque::new(),
        takes: 0,
        last: None,
        mine: Vec::new(),
    };
    let mut simulator = Simulator {
        scenario,
        random: Random(scenario.seed),
        events: BinaryHeap::new(),
        turn: 0,
        clients: (0..scenario.sessions).map(client).collect(),
        queue: VecDeque::new(),
        late: VecDeque::new(),
        next: NEXT_VALUE + scenario.further * scenario.increment,
        records: Vec::new(),
        ends: Vec::new(),
    };
    simulator.run();
    simulator.capture()
}

impl Simulator {
    fn run(&mut self) {
        for session in 0..self.scenario.sessions {
            let at_ns = 1_000_000_000 + self.random.below(2_000_000);
            self.later(at_ns, session, Step::Send);
        }
        while let Some(Reverse((now_ns, _, session, step))) = self.events.pop() {
            match step {
                Step::Send => self.send(now_ns, session),
                Step::Draw => self.draw(now_ns, session),
                Step::End => self.end(now_ns, session),
            }
        }
    }

    fn later(&mut self, at_ns: u64, session: usize, step: Step) {
        self.turn += 1;
        self.events.push(Reverse((at_ns, self.turn, session, step)));
    }

    fn send(&mut self, now_ns: u64, session: usize) {
        let is_worker = self.scenario.behaviour == Behaviour::Workers && session % 2 == 1;
        let planned = self.clients[session].plan.pop_front();
        let takes = self.clients[session].takes;
        let planned = planned.or_else(|| if is_worker || takes > 0 { self.popped() } else { None });
        self.clients[session].takes = takes.saturating_sub(1);
        let (used, rows) = match planned {
            Some(used) => (Some(used), 0),
            None if self.clients[session].turns == 0 => return,
            None if is_worker => {
                self.clients[session].turns -= 1;
                return self.later(now_ns + 100_000, session, Step::Send);
            }
            None => {
                self.clients[session].turns -= 1;
                if self.random.within(self.scenario.old) {
                    let before = 1 + self.random.below(1_000) as i64;
                    (Some((NEXT_VALUE - self.scenario.increment * before, 2)), 0)
                } else {
                    (None, self.scenario.rows)
                }
            }
        };
        let statement = LoggedStatement {
            session: session as u32,
            start_us: (now_ns / 1_000_000 * 1_000) as i64,
            duration_us: None,
            reported_meanwhile: None,
            has_failed: rows > 0 && self.random.within(self.scenario.fails),
            drew: Vec::new(),
            rows,
            used,
        };
        self.clients[session].record_ns = now_ns;
        self.clients[session].now = Some(statement.clone());
        if self.scenario.at_start {
            self.records.push((now_ns, self.turn, statement));
        }
        let after_ns = self.random.about(self.scenario.draws_after_ns) + 1;
        self.later(now_ns + after_ns, session, Step::Draw);
    }

    fn popped(&mut self) -> Option<(i64, u64)> {
        self.queue.pop_front().map(|id| (id, 1))
    }

    fn draw(&mut self, now_ns: u64, session: usize) {
        if self.random.within(self.scenario.unseen) {
            self.next += self.scenario.increment;
        }
        let Some(now) = &mut self.clients[session].now else { return };
        if now.has_failed {
            self.next += self.scenario.increment * self.random.below(2) as i64;
        } else if (now.drew.len() as u32) < now.rows {
            now.drew.push(self.next);
            self.next += self.scenario.increment;
            if (now.drew.len() as u32) < now.rows {
                // Others may draw between two rows.
                let after_ns = self.random.about(2_000.0) + 1;
                return self.later(now_ns + after_ns, session, Step::Draw);
            }
        }
        let after_ns = self.random.about(self.scenario.ends_after_ns) + 1;
        self.later(now_ns + after_ns, session, Step::End);
    }

    fn end(&mut self, now_ns: u64, session: usize) {
        let Some(mut now) = self.clients[session].now.take() else { return };
        let client = &self.clients[session];
        if !self.scenario.at_start {
            let took_us = (now_ns - client.record_ns) / 1_000;
            now.duration_us = (!now.has_failed).then_some(took_us);
            now.start_us = (now_ns / 1_000_000 * 1_000) as i64 - took_us as i64;
            self.records.push((now_ns, self.turn, now.clone()));
        } else if let Some(record) =
            self.records.iter_mut().rev().find(|(_, _, one)| one.session == now.session)
        {
            record.2.drew = now.drew.clone();
            if self.scenario.at_both {
                let took_us = (now_ns - client.record_ns) / 1_000;
                record.2.duration_us = (!now.has_failed).then_some(took_us);
                self.ends.push((now_ns, self.turn, now.session));
            }
        }
        let drew = now.drew.clone();
        self.clients[session].last = drew.last().copied().or(self.clients[session].last);
        self.late.extend(&drew);
        while self.late.len() > 40 {
            self.late.pop_front();
        }
        if !drew.is_empty() {
            self.plan(session, &drew);
        }
        let thinks_ns = self.random.about(self.scenario.thinks_ns) + 1;
        self.later(now_ns + thinks_ns, session, Step::Send);
    }

    /// What a session does after it drew.
    fn plan(&mut self, session: usize, drew: &[i64]) {
        let mut uses: Vec<(i64, u64)> = Vec::new();
        let own = || drew.iter().map(|&id| (id, 1));
        let any = |random: &mut Random, late: &VecDeque<i64>| {
            late[random.below(late.len() as u64) as usize]
        };
        match self.scenario.behaviour {
            Behaviour::Own => uses.extend(own()),
            Behaviour::OwnOrNot if self.random.within(0.5) => uses.extend(own()),
            Behaviour::OwnOrNot => {}
            Behaviour::Workers => self.queue.extend(drew),
            Behaviour::Queue => {
                self.queue.extend(drew);
                self.clients[session].takes = drew.len();
            }
            Behaviour::SometimesQueue(share) if self.random.within(share) => {
                self.queue.extend(drew);
                self.clients[session].takes = usize::from(self.random.within(0.8));
            }
            Behaviour::SometimesQueue(_) => uses.extend(own()),
            Behaviour::Ring => {
                let before = (session + self.scenario.sessions - 1) % self.scenario.sessions;
                uses.extend(self.clients[before].last.map(|id| (id, 1)));
            }
            Behaviour::Any => uses.push((any(&mut self.random, &self.late), 1)),
            Behaviour::Twice => {
                self.clients[session].mine.extend(drew);
                if self.clients[session].mine.len() == 2 {
                    uses.extend(self.clients[session].mine.drain(..).map(|id| (id, 1)));
                }
            }
            Behaviour::OwnLate => {
                let mine = &mut self.clients[session].mine;
                mine.extend(drew);
                if mine.len() > 3 {
                    let index = self.random.below(4) as usize;
                    uses.push((mine.remove(index), 1));
                    if mine.len() > 4 {
                        mine.remove(0);
                    }
                }
            }
            Behaviour::OwnThenAny => {
                uses.extend(own());
                uses.push((any(&mut self.random, &self.late), 3));
            }
        }
        self.clients[session].plan.extend(uses);
    }

    /// The log, in the order in which its reader reports statements: one with a record of its
    /// beginning only is reported when its session's next record comes.
    fn capture(mut self) -> Capture {
        let begins = self.records.drain(..).map(|(at_ns, turn, one)| (at_ns, turn, Ok(one)));
        let ends = self.ends.drain(..).map(|(at_ns, turn, session)| (at_ns, turn, Err(session)));
        let mut records: Vec<(u64, u64, Result<LoggedStatement, u32>)> =
            begins.chain(ends).collect();
        records.sort_by_key(|(at_ns, turn, _)| (*at_ns, *turn));
        let mut buffered: Vec<Option<(LoggedStatement, usize)>> =
            vec![None; self.scenario.sessions];
        let mut statements: Vec<LoggedStatement> = Vec::new();
        let report = |statements: &mut Vec<LoggedStatement>,
                      one: Option<(LoggedStatement, usize)>| {
            let meanwhile = |begun| Some((statements.len() - begun) as u64);
            let one = one.map(|(one, begun)| LoggedStatement {
                reported_meanwhile: meanwhile(begun),
                ..one
            });
            statements.extend(one);
        };
        for (.., record) in records {
            match record {
                Ok(record) if self.scenario.at_start => {
                    let own = &mut buffered[record.session as usize];
                    report(&mut statements, own.take());
                    *own = Some((record, statements.len()));
                }
                Ok(record) => statements.push(record),
                Err(session) => report(&mut statements, buffered[session as usize].take()),
            }
        }
        buffered.into_iter().for_each(|one| report(&mut statements, one));
        let mut truth = HashMap::new();
        for (number, statement) in (0u64..).zip(&statements) {
            let rows = (0u32..).zip(&statement.drew);
            truth.extend(rows.map(|(row, &id)| (id, (number, row))));
        }
        Capture { statements, truth }
    }
}

/// The column of the ids.
pub const COLUMN: ColumnId = ColumnId { table: 0, column: 0 };

impl LoggedStatement {
    /// What a parser would say of it.
    pub fn reading(&self) -> StatementEffects {
        let mut reading = StatementEffects::default();
        if self.rows > 0 {
            reading.draws.push(ValueDraw {
                source: ValueSource::Sequence(0),
                column: Some(COLUMN),
                count: Some(self.rows),
                each_of: None,
                may_conflict: false,
                returned: Some(0),
            });
        }
        if self.used.is_some() {
            reading.uses.push(ValueUse {
                column: COLUMN,
                position: ValuePosition::Literal(0),
                kind: UseKind::Equal,
            });
        }
        reading
    }

    /// As the pass sees it.
    pub fn scanned<'a>(&self, number: u64, reading: &'a StatementEffects) -> ScannedStatement<'a> {
        ScannedStatement {
            number,
            session: self.session,
            transaction: 0,
            begins: false,
            start_us: self.start_us,
            duration_us: self.duration_us,
            reported_meanwhile: self.reported_meanwhile,
            error: self.has_failed.then_some(*b"XX000"),
            fingerprint: self.used.map_or(100, |(_, text)| text),
            reading,
            returned: None,
            rows: None,
            value_counts: (0, 0),
        }
    }
}
