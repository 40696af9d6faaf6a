//! Tests of the figures of a trace: each is compared with a count by hand.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use seatrial_sqltext::lexer::fingerprint;
use serde_json::json;
use tempfile::TempDir;

use super::fingerprints::{Fingerprints, TRACKED_MAX};
use super::*;
use crate::TraceWriter;
use crate::captured::{Session, SessionId, Sink, Skip};
use crate::tests::{Owned, pgbench, session, trace_of};

/// 2026-11-21 08:00:00 UTC.
const START_US: i64 = 1_795_248_000_000_000;
const SECOND_US: i64 = 1_000_000;

fn mix_of(statements: &[Owned]) -> Mix {
    let folder = TempDir::new().unwrap();
    Mix::of(&trace_of(&folder, statements, None)).unwrap()
}

/// A statement this many milliseconds after the start.
fn at(session: u32, offset_ms: i64, sql: &str) -> Owned {
    Owned::new(session, START_US + offset_ms * 1_000, sql)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn figures_are_sums_of_statements(
        rows in proptest::collection::vec(
            (0u32..4, 0i64..600, 0usize..4, proptest::option::of(0u64..5_000), 0u64..3, 0usize..7),
            1..80),
    ) {
        let texts = ["select 1", "select 'x' from t", "update t set a = 5", "begin; commit"];
        let statements: Vec<Owned> = rows
            .iter()
            .map(|&(session, second, text, duration_us, transaction, ending)| Owned {
                duration_us,
                transaction,
                error: (ending == 0).then_some(*b"23505"),
                skip: (ending == 1).then_some(Skip::CutOff),
                rows: (ending == 2).then_some(3),
                ..at(session, second * 1_000, texts[text])
            })
            .collect();
        let mix = mix_of(&statements);
        let total_us: u64 = rows.iter().filter_map(|row| row.3).sum();
        let count = rows.len() as u64;
        prop_assert_eq!((mix.counts.statements, mix.total_us), (count, total_us));
        prop_assert_eq!(mix.classes.iter().map(|class| class.sums.calls).sum::<u64>(), count);
        prop_assert_eq!(mix.queries.iter().map(|one| one.sums.calls).sum::<u64>(), count);
        prop_assert_eq!(mix.timeline.slices.iter().map(|one| one.statements).sum::<u64>(), count);
        prop_assert_eq!(mix.names.databases.iter().map(|one| one.statements).sum::<u64>(), count);
        let transactions = &mix.transactions;
        prop_assert_eq!(transactions.statements + transactions.statements_outside, count);
        prop_assert_eq!(transactions.length.entries, transactions.count);
        let thinks = mix.think.inside.entries + mix.think.between.entries;
        prop_assert_eq!(
            thinks + mix.think.unknown + mix.think.overlapping + mix.sessions.with_statements,
            count
        );
        let mut by_text: HashMap<&[u8], (u64, u64)> = HashMap::new();
        for statement in &statements {
            let sums = by_text.entry(&statement.sql).or_default();
            *sums = (sums.0 + 1, sums.1 + statement.duration_us.unwrap_or(0));
        }
        for (text, sums) in by_text {
            let expected = fingerprint(text).0;
            let found = mix.queries.iter().find(|one| one.text == expected.text).unwrap();
            prop_assert_eq!((found.sums.calls, found.sums.total_us), sums);
            prop_assert_eq!(found.latency.entries, found.sums.timed);
            prop_assert_eq!(&found.fingerprint, &format!("{:016x}", expected.hash));
        }
        let mut minutes: BTreeMap<i64, u64> = BTreeMap::new();
        rows.iter().for_each(|row| *minutes.entry(row.1 / 60).or_default() += 1);
        prop_assert_eq!(mix.busiest_minute.unwrap().statements, *minutes.values().max().unwrap());
    }
}

#[test]
fn mix_of_a_pgbench_trace() {
    let mix = mix_of(&pgbench(1_000, 8));
    assert_eq!((mix.counts.sessions, mix.counts.statements), (8, 7_000));
    assert_eq!((mix.transactions.count, mix.transactions.statements_max), (1_000, 7));
    assert_eq!((mix.queries.len(), mix.others), (7, EvictedStatements::default()));
    assert!(mix.queries.iter().all(|one| one.sums.calls == 1_000));
    assert_eq!(mix.protocols, BTreeMap::from([("simple".to_owned(), 7_000)]));
    let calls = |class| mix.classes.iter().find(|one| one.class == class).unwrap().sums.calls;
    assert_eq!((calls(Class::Update), calls(Class::Transaction)), (3_000, 2_000));
}

#[test]
fn think_times_are_split_by_transaction() {
    let inside = |offset_ms, transaction| Owned { transaction, ..at(0, offset_ms, "select 1") };
    let untimed = Owned { duration_us: None, ..at(0, 40, "select 1") };
    let mix = mix_of(&[
        inside(0, 1),
        inside(5, 1),
        inside(20, 2),
        untimed,
        at(0, 50, "select 1"),
        at(0, 50, "select 1"),
    ]);
    assert_eq!((mix.think.inside.entries, mix.think.inside.max_ns), (1, 4_900_000));
    assert_eq!((mix.think.between.entries, mix.think.between.max_ns), (2, 19_900_000));
    assert_eq!((mix.think.unknown, mix.think.overlapping), (1, 1));
    assert_eq!((mix.transactions.count, mix.transactions.length.max_ns), (2, 5_100_000));
    assert_eq!((mix.first_us, mix.last_us), (Some(START_US), Some(START_US + 50_100)));
}

#[test]
fn open_sessions_are_counted_over_time() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.trace");
    let mut writer = TraceWriter::create(&path, None).unwrap();
    let second = |offset_s: i64| Some(START_US + offset_s * SECOND_US);
    for (connected_us, disconnected_us) in
        [(second(0), second(9)), (second(2), None), (None, None), (None, None)]
    {
        let session = Session { connected_us, disconnected_us, ..session("s") };
        writer.session(&session).unwrap();
    }
    for statement in [at(1, 4_500, "select 1"), at(2, 3_000, "select 1"), at(2, 7_000, "select 1")]
    {
        writer.statement(&statement.lend()).unwrap();
    }
    writer.session_changed(SessionId(3), &session("never seen to do anything")).unwrap();
    writer.finish(&json!(null)).unwrap();
    let mix = Mix::of(&TraceReader::open(&path).unwrap()).unwrap();
    let open: Vec<u64> = mix.timeline.slices.iter().map(|slice| slice.sessions_max).collect();
    assert_eq!(open, [1, 1, 2, 3, 3, 2, 2, 2, 1, 1]);
    assert_eq!((mix.timeline.slice_s, mix.timeline.slices[0].start_us), (1, START_US));
    let sessions = mix.sessions;
    assert_eq!((sessions.count, sessions.with_statements, sessions.at_once_max), (4, 2, 3));
    assert_eq!((sessions.connects_seen, sessions.disconnects_seen), (2, 1));
    let app = &mix.names.users[0];
    assert_eq!((app.name.as_str(), app.sessions, app.statements), ("app", 4, 3));
}

#[test]
fn long_logs_have_long_slices() {
    let statements: Vec<Owned> =
        (0..20_000).map(|number| at(0, number * 10_000, "select 1")).collect();
    let mix = mix_of(&statements);
    assert_eq!((mix.timeline.slice_s, mix.timeline.slices.len()), (64, 199_990 / 64 + 1));
    assert_eq!(mix.timeline.slices.iter().map(|one| one.statements).sum::<u64>(), 20_000);
    assert_eq!(mix.busiest_minute.unwrap(), BusiestMinute { start_us: START_US, statements: 6 });
}

#[test]
fn costly_fingerprints_are_kept() {
    let mut fingerprints = Fingerprints::default();
    let costly = Owned { duration_us: Some(1_000_000), ..at(0, 0, "select 1") };
    let cheap = at(0, 0, "select 2");
    let traced = |statement: &Owned, fingerprint: u64, take: &mut Fingerprints| {
        take.take(&Traced {
            statement: statement.lend(),
            fingerprint,
            text: b"select $1",
            class: Class::Select,
            statements: 1,
        });
    };
    (0..10).for_each(|number| traced(&costly, number, &mut fingerprints));
    (10..20_000).for_each(|number| traced(&cheap, number, &mut fingerprints));
    let (kept, others) = fingerprints.finish();
    assert!(kept.len() <= TRACKED_MAX && kept[9].sums.total_us == 1_000_000);
    assert_eq!(kept.iter().map(|one| one.sums.calls).sum::<u64>() + others.calls, 20_000);
    assert_eq!(others.evicted, others.calls);
}

#[test]
fn an_empty_trace_has_empty_figures() {
    let mix = mix_of(&[]);
    assert_eq!((mix.first_us, mix.busiest_minute, mix.timeline.slices.len()), (None, None, 0));
    assert!(mix.queries.is_empty() && mix.running_mean.is_none());
    assert!(serde_json::to_value(&mix).unwrap()["sessions"]["count"] == 0);
}
