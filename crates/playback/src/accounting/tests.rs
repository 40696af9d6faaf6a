//! Any sequence of events sums up, and none that does not is let pass.

use proptest::prelude::*;
use seatrial_gauge::Histogram;
use seatrial_pgwire::answer::{ServerError, Tag, TransactionStatus};
use seatrial_sqltext::lexer;

use super::*;
use crate::item::UnsafeOperation;

const SETTINGS: AccountingSettings = AccountingSettings {
    slice_ns: 1_000,
    stall_threshold_ns: 10_000,
    start_us: 0,
    speed: None,
    texts_max: 2_000,
};

const ERROR: [u8; 5] = *b"23505";

fn item(number: u64, sql: &str) -> Item {
    let (fingerprint, _) = lexer::fingerprint(sql.as_bytes());
    Item {
        number,
        start_us: number as i64,
        duration_us: Some(7),
        sql: sql.as_bytes().to_vec(),
        class: fingerprint.class,
        fingerprint: fingerprint.hash,
        statements: fingerprint.statements,
        ..Item::default()
    }
}

fn times(sent_ns: u64, ended_ns: u64) -> Times {
    Times {
        due_ns: None,
        sendable_ns: sent_ns,
        sent_ns,
        ended_ns,
        delay_cause: DelayCause::Nothing,
    }
}

fn answer(tag: &str, rows: u64) -> Answer {
    Answer { tag: Tag::of(tag.as_bytes()), rows: Some(rows), ..Answer::default() }
}

/// A statement ends, and what the server said is taken in.
fn take(accounting: &mut StatementAccounting, item: &Item, times: &Times, answer: &Answer) {
    accounting.ended(times.ended_ns, answer.error.is_none());
    accounting.answered(item, times, answer);
}

fn refusal(sqlstate: [u8; 5]) -> Answer {
    let error = ServerError { sqlstate, message: "no".to_owned() };
    Answer { error: Some(error), status: TransactionStatus::Failed, ..Answer::default() }
}

fn survey(items: &[Item]) -> Survey {
    let mut survey = Survey { statements: items.len() as u64, ..Survey::default() };
    for item in items {
        *survey.classes.entry(item.class).or_default() += 1;
        survey.errors += u64::from(item.error.is_some());
    }
    survey
}

fn summary(survey: &Survey, end: PlaybackEnd, not_reached: u64) -> PlaybackSummary<'_> {
    PlaybackSummary {
        start_unix_ns: 0,
        duration_ns: 1_000_000,
        end,
        survey,
        not_reached,
        order: OrderDelays::default(),
        sessions: Sessions::default(),
        client: DriverUsage::default(),
        ids: Ids::default(),
        keeps_counts: true,
        start_lateness_ns: 0,
    }
}

fn interrupted(survey: &Survey, not_reached: u64) -> PlaybackSummary<'_> {
    summary(survey, PlaybackEnd::Interrupted, not_reached)
}

/// What may become of a statement.
#[derive(Clone, Copy, Debug)]
enum Event {
    Ok,
    Error,
    Unanswered,
    Skipped(Skipped),
    NotReached,
}

fn events() -> impl Strategy<Value = Vec<(usize, Event, bool)>> {
    let event = prop_oneof![
        4 => Just(Event::Ok),
        1 => Just(Event::Error),
        1 => Just(Event::Unanswered),
        1 => Just(Event::Skipped(Skipped::Writes)),
        1 => Just(Event::Skipped(Skipped::Refused(UnsafeOperation::Ddl))),
        1 => Just(Event::NotReached),
    ];
    proptest::collection::vec((0..TEXTS.len(), event, any::<bool>()), 0..120)
}

const TEXTS: [&str; 6] =
    ["select 1", "insert into t values (1)", "update t set a = 1", "commit", "select 2 from t", ""];

/// What became of the statements, and the items.
fn played(
    events: &[(usize, Event, bool)],
    settings: AccountingSettings,
) -> (StatementAccounting, Vec<Item>, u64) {
    let mut accounting = StatementAccounting::new(settings);
    let (mut items, mut not_reached) = (Vec::new(), 0);
    for (place, &(text, event, had_error)) in events.iter().enumerate() {
        let mut item = item(place as u64, TEXTS[text]);
        item.error = had_error.then_some(ERROR);
        let at_ns = place as u64 * 700;
        let times = times(at_ns, at_ns + 300);
        match event {
            Event::Ok | Event::Error | Event::Unanswered => accounting.sent(&item, at_ns),
            _ => {}
        }
        match event {
            Event::Ok => take(&mut accounting, &item, &times, &answer("SELECT", 1)),
            Event::Error => take(&mut accounting, &item, &times, &refusal(ERROR)),
            Event::Unanswered => accounting.unanswered(&item, &times),
            Event::Skipped(why) => accounting.skipped(&item, why),
            Event::NotReached => not_reached += 1,
        }
        items.push(item);
    }
    (accounting, items, not_reached)
}

proptest! {
    #[test]
    fn any_sequence_sums_up(events in events(), texts_max in 1usize..6) {
        let settings = AccountingSettings { texts_max, ..SETTINGS };
        let (accounting, items, not_reached) = played(&events, settings);
        let survey = survey(&items);
        let totals = accounting.totals();
        let played = accounting.finish(interrupted(&survey, not_reached)).unwrap();
        let accounts = played.record.classes.values();
        let sum = |count: fn(&Account) -> u64| accounts.clone().map(count).sum::<u64>();
        prop_assert_eq!(sum(|account| account.captured), items.len() as u64);
        prop_assert_eq!(sum(|account| account.ok), totals.ok);
        prop_assert_eq!(sum(|account| account.not_reached), not_reached);
        for account in accounts.clone() {
            let skipped: u64 = account.skipped.values().sum();
            let accounted = account.ok + account.failed + skipped + account.not_reached;
            prop_assert_eq!(account.captured, accounted);
        }
        let sent = sum(|account| account.ok + account.failed);
        let outcome = played.outcome;
        prop_assert_eq!((outcome.offered, outcome.completed), (sent, totals.ok));
        let queries = &played.record.queries;
        let queried: u64 = queries.iter().map(|query| query.ok + query.failed).sum();
        prop_assert_eq!(queried + played.record.queries_dropped, sent);
        let errors = &played.record.errors;
        let compared = errors.same + errors.new + errors.other + errors.unanswered;
        prop_assert_eq!(compared, totals.failed);
        let examples: u64 = errors.examples.iter().map(|example| example.count).sum();
        prop_assert_eq!(examples, compared + errors.gone);
    }

    #[test]
    fn every_answer_is_in_a_slice(events in events(), slice_ns in 1u64..100_000) {
        let settings = AccountingSettings { slice_ns, ..SETTINGS };
        let (accounting, items, not_reached) = played(&events, settings);
        let totals = accounting.totals();
        let survey = survey(&items);
        let played = accounting.finish(interrupted(&survey, not_reached)).unwrap();
        let sliced: u64 = played.slices.iter().map(|row| row.completed).sum();
        prop_assert_eq!(sliced, totals.ok);
        for (place, kind) in played.kinds.iter().enumerate() {
            let mut joined = Histogram::new();
            for row in played.slices.iter().filter(|row| row.kind == place) {
                joined.merge(&Histogram::decode(&row.response).unwrap());
            }
            prop_assert_eq!(&joined, &kind.response);
            prop_assert_eq!(kind.response.entries(), kind.completed);
            prop_assert_eq!(kind.service.entries(), kind.completed);
        }
        let playback_timeline = &played.record.timeline;
        let unanswered = played.record.errors.unanswered;
        let answered: u64 = playback_timeline.iter().map(|moment| moment.answered).sum();
        prop_assert_eq!(answered, totals.ok + totals.failed - unanswered);
        prop_assert!(playback_timeline.len() <= 2_048);
    }
}

/// A statement that is lost, reported twice, or of another class breaks the equation.
#[test]
fn mismatching_counts_give_no_result() {
    let one = [item(0, "select 1")];
    let survey_of_one = survey(&one);
    let finish = |accounting: StatementAccounting, survey: &Survey, end: PlaybackEnd, left: u64| {
        accounting.finish(summary(survey, end, left)).map(|_| ())
    };
    let accounting = || StatementAccounting::new(SETTINGS);
    let answered = |accounting: &mut StatementAccounting| {
        accounting.sent(&one[0], 0);
        take(accounting, &one[0], &times(0, 5), &answer("SELECT 1", 1));
    };
    let lost = AccountingMismatch::NotReached { missing: 1, left: 0 };
    assert_eq!(finish(accounting(), &survey_of_one, PlaybackEnd::Complete, 0), Err(lost.clone()));
    assert_eq!(finish(accounting(), &survey_of_one, PlaybackEnd::Interrupted, 0), Err(lost));
    assert_eq!(finish(accounting(), &survey_of_one, PlaybackEnd::Interrupted, 1), Ok(()));
    let left = AccountingMismatch::NotReached { missing: 1, left: 1 };
    assert_eq!(finish(accounting(), &survey_of_one, PlaybackEnd::Complete, 1), Err(left));
    let mut twice = accounting();
    answered(&mut twice);
    twice.skipped(&one[0], Skipped::Dependent);
    let broken = finish(twice, &survey_of_one, PlaybackEnd::Complete, 0);
    assert!(matches!(
        broken,
        Err(AccountingMismatch::Class { captured: 1, ok: 1, skipped: 1, .. })
    ));
    let mut never_ended = accounting();
    never_ended.sent(&one[0], 0);
    let broken = finish(never_ended, &survey_of_one, PlaybackEnd::Interrupted, 1);
    assert_eq!(broken, Err(AccountingMismatch::Sent { class: "select", sent: 1, ended: 0 }));
    let mut never_sent = accounting();
    take(&mut never_sent, &one[0], &times(0, 5), &answer("SELECT 1", 1));
    let broken = finish(never_sent, &survey_of_one, PlaybackEnd::Complete, 0);
    assert_eq!(broken, Err(AccountingMismatch::Sent { class: "select", sent: 0, ended: 1 }));
    let mut other_class = accounting();
    answered(&mut other_class);
    let broken = finish(other_class, &survey(&[item(0, "commit")]), PlaybackEnd::Complete, 0);
    assert!(matches!(broken, Err(AccountingMismatch::Class { class: "select", captured: 0, .. })));
}

/// The timeline is that of the replay, however much of the log is not part of it.
#[test]
fn what_is_not_played_is_not_in_the_timeline() {
    let day_us = 86_400_000_000;
    let played = Item { start_us: 0, ..item(0, "select 1") };
    let left_out = Item { start_us: day_us, ..item(1, "select 1") };
    for why in [Skipped::AfterUntil, Skipped::OtherDatabase, Skipped::OtherHost] {
        let settings = AccountingSettings { speed: Some(1.0), ..SETTINGS };
        let mut accounting = StatementAccounting::new(settings);
        accounting.sent(&played, 0);
        take(&mut accounting, &played, &times(0, 5), &answer("SELECT 1", 1));
        accounting.skipped(&left_out, why);
        let survey = survey(&[played.clone(), left_out.clone()]);
        let played = accounting.finish(summary(&survey, PlaybackEnd::Complete, 0)).unwrap();
        assert_eq!(played.record.timeline_slice_s, 1e-6, "{why:?}");
        let captured: u64 = played.record.timeline.iter().map(|slice| slice.captured).sum();
        assert_eq!(captured, 1, "{why:?}");
    }
}

#[test]
fn of_whom_a_query_is_shown() {
    let mut accounting = StatementAccounting::new(SETTINGS);
    let items: Vec<Item> = (0..100).map(|n| item(n, &format!("select {n} from t"))).collect();
    for (item, sent_ns) in items.iter().zip((0..).step_by(10_000)) {
        accounting.sent(item, sent_ns);
        let slow_ns = if item.number == 99 { 9_000 } else { 1_000 };
        take(&mut accounting, item, &times(sent_ns, sent_ns + slow_ns), &answer("SELECT 2", 2));
    }
    let played = accounting.finish(summary(&survey(&items), PlaybackEnd::Complete, 0)).unwrap();
    let [query] = &played.record.queries[..] else { panic!("one fingerprint") };
    assert_eq!(query.text, "select $1 from t");
    assert_eq!((query.ok, query.rows, query.service_ns_sum), (100, 200, 108_000));
    assert!((995..=1_005).contains(&query.service_ns_p50));
    assert_eq!(query.service_ns_max, 9_000);
    assert_eq!((query.captured_known, query.captured_ns_sum), (100, 700_000));
}

/// However many queries of whatever times: the room for them is bounded, and none is lost.
#[test]
fn many_queries_take_bounded_memory() {
    let mut queries = Queries::new(2_000);
    let mut state = 1u64;
    for number in 0..200_000u64 {
        let mut one = item(number, "select 1");
        one.fingerprint = number % 3_000;
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let length_ns = 1_000 << ((state >> 33) % 30);
        let answer = answer("SELECT 1", 1);
        queries.take(&one, SentOutcome::Answered(&answer), &times(0, length_ns));
    }
    assert!(queries.memory_bytes() < 5 << 20, "{}", queries.memory_bytes());
    let (kept, dropped) = queries.finish();
    let counted: u64 = kept.iter().map(|query| query.ok).sum();
    assert_eq!(counted + dropped, 200_000);
    assert!(kept.len() <= 2_000 && kept.len() >= 1_000);
}
