//! The cost of the order, and how to measure it. Without a server it is measured by `cargo test
//! --release -p seatrial-playback --lib order_costs -- --ignored --nocapture`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::*;
use crate::order::OrderPosition;
use crate::order::edges::Cost;

/// Statements that are taken in.
const STATEMENTS: usize = 1_000_000;

/// Statements that are read ahead.
const AHEAD: usize = 1_000;

/// Sessions, and the scale of pgbench.
const CLIENTS: usize = 8;
const SCALE: u64 = 10;

/// Numbers that look like chance, the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % end
    }
}

/// The accesses of a transaction of TPC-B by pgbench: account, its balance, teller, branch,
/// history.
fn transaction(dice: &mut Random) -> Vec<AccessSet> {
    let (aid, tid, bid) = (dice.below(100_000 * SCALE), dice.below(10 * SCALE), dice.below(SCALE));
    let accessed = |object_access: ObjectAccess| AccessSet {
        known: vec![object_access],
        ..AccessSet::default()
    };
    // A hash, as the access analyser gives it.
    let hash = |value: u64| value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    vec![
        AccessSet::default(),
        accessed(row(0, AccessMode::Values, hash(aid))),
        accessed(row(0, AccessMode::Read, hash(aid))),
        accessed(row(1, AccessMode::Values, hash(tid))),
        accessed(row(2, AccessMode::Values, hash(bid))),
        accessed(ObjectAccess::whole(Object::table(3), AccessMode::Add)),
        AccessSet::default(),
    ]
}

/// A trace in which sessions go on in turn, as chance has it.
fn trace() -> Vec<TestStatement> {
    let mut dice = Random(1);
    let mut open: Vec<VecDeque<AccessSet>> = vec![VecDeque::new(); CLIENTS];
    let mut transactions = [0u64; CLIENTS];
    (0..STATEMENTS)
        .map(|number| {
            let session = dice.below(CLIENTS as u64) as usize;
            if open[session].is_empty() {
                open[session].extend(transaction(&mut dice));
                transactions[session] += 1;
            }
            let access_set = open[session].pop_front().unwrap();
            TestStatement {
                number: number as u64,
                session: session as u32,
                start_us: number as i64,
                duration_us: None,
                transaction: transactions[session],
                ends: open[session].is_empty(),
                access_set,
            }
        })
        .collect()
}

/// What it took to take statements in, and to have them done.
#[derive(Default)]
struct Durations {
    taking: Duration,
    doing: Duration,
}

/// Reads ahead, and has each session's next statement done as soon as it may go.
fn play(trace: &[TestStatement], order: &mut EdgeOrder) -> Durations {
    let mut durations = Durations::default();
    let mut queues: Vec<VecDeque<OrderPosition>> = vec![VecDeque::new(); CLIENTS];
    let (mut read, mut done) = (0, 0);
    while done < trace.len() {
        let begun = Instant::now();
        while read < trace.len() && read < done + AHEAD {
            let position = order.take_in(&trace[read].ordered());
            queues[trace[read].session as usize].push_back(position);
            read += 1;
        }
        durations.taking += begun.elapsed();
        let begun = Instant::now();
        let before = done;
        while done < before + AHEAD / 4 && done < read {
            for queue in &mut queues {
                if let Some(position) = queue.pop_front_if(|&mut position| order.may_send(position))
                {
                    order.done(position);
                    done += 1;
                }
            }
        }
        durations.doing += begun.elapsed();
    }
    durations
}

#[test]
#[ignore = "it measures"]
fn order_costs() {
    let trace = trace();
    for granularity in [Granularity::Key, Granularity::Object, Granularity::All] {
        let mut order = EdgeOrder::new(granularity, CLIENTS);
        let durations = play(&trace, &mut order);
        let edges = order.cost().edges as f64;
        let (taking_ns, doing_ns) =
            (durations.taking.as_nanos() as f64, durations.doing.as_nanos() as f64);
        println!(
            "{granularity:?}: {edges} edges; {:.0} ns an edge, {:.0} ns a statement to take in, \
             {:.0} ns to have it done; timed {:.0} ns an edge; {} KiB",
            taking_ns / edges,
            taking_ns / trace.len() as f64,
            doing_ns / trace.len() as f64,
            order.cost().edge_ns().unwrap_or(0.0),
            order.memory_bytes() >> 10,
        );
    }
}

#[test]
fn edge_cost_is_none_if_statements_outnumber_edges() {
    let few = Cost { edges: 10, statements: 160, timed: 10, timed_ns: 1_000, ..Cost::default() };
    assert_eq!((few.statement_ns(), few.edge_ns()), (Some(100.0), None));
    let many = Cost { edges: 320, rebuild_ns: 1_600, ..few };
    assert_eq!((many.statement_ns(), many.edge_ns()), (Some(110.0), Some(55.0)));
    assert_eq!((Cost::default().statement_ns(), Cost::default().edge_ns()), (None, None));
}
