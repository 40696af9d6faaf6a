//! Hundreds of simulated captures: known ids are right.

mod simulator;

use std::collections::BTreeMap;

use seatrial_sqltext::catalog::{Catalog, Column, Generated, Sequence, Table};
use seatrial_sqltext::lexer::form::Parts;
use seatrial_sqltext::reading::{Reader, StatementEffects, ValueDraw, ValueSource};
use seatrial_trace::captured::Returned;

use super::classes::IdClasses;
use super::infer::{IdSource, Inferred, Level, Reason};
use super::rows::Rows;
use super::scan::{DrawCount, Scan, ScannedStatement};
use super::values::ValueText;
use simulator::{Behaviour, Capture, NEXT_VALUE, Random, Scenario, capture};

fn catalog(next_value: Option<i64>, increment: i64) -> Catalog {
    let id = Column {
        name: "id".to_owned(),
        type_name: "bigint".to_owned(),
        generated: Some(Generated::Sequence(0)),
        ..Column::default()
    };
    Catalog {
        tables: vec![Table {
            name: "orders".to_owned(),
            columns: vec![id],
            unique_keys: vec![vec![0]],
            ..Table::default()
        }],
        sequences: vec![Sequence { increment, cache: 1, next_value, ..Sequence::default() }],
        ..Catalog::default()
    }
}

/// The result of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Outcome {
    ids: usize,
    proved: usize,
    by_pattern: usize,
    wrong: usize,
    wrongly_old: usize,
    not_generated: usize,
    unresolved: usize,
    /// First used by another session than the one that drew them.
    handed: usize,
}

impl Outcome {
    fn add(&mut self, other: &Outcome) {
        self.ids += other.ids;
        self.proved += other.proved;
        self.by_pattern += other.by_pattern;
        self.wrong += other.wrong;
        self.wrongly_old += other.wrongly_old;
        self.not_generated += other.not_generated;
        self.unresolved += other.unresolved;
        self.handed += other.handed;
    }
}

fn infer(capture: &Capture, catalog: &Catalog, sessions: usize) -> (Scan, Inferred) {
    let mut scan = Scan::of(IdClasses::of(catalog), sessions, Rows::default());
    for (number, statement) in (0..).zip(&capture.statements) {
        let reading = statement.reading();
        let text = statement.used.map(|(id, _)| id.to_string()).unwrap_or_default();
        let value_text = ValueText { text: text.as_bytes(), is_literal: true };
        scan.take(&statement.scanned(number, &reading), |_| Some(value_text));
    }
    let inferred = Inferred::of(&mut scan, catalog);
    (scan, inferred)
}

fn outcome(scenario: Scenario, next_value: Option<i64>) -> Outcome {
    let capture = capture(scenario);
    let catalog = catalog(next_value, scenario.increment);
    let (scan, inferred) = infer(&capture, &catalog, scenario.sessions);
    let mut outcome = Outcome { ids: scan.used.len(), ..Outcome::default() };
    for (used, found) in scan.used.iter().zip(&inferred.found) {
        let truth = capture.truth.get(&used.id.number());
        let drew = truth.map(|&(number, _)| capture.statements[number as usize].session);
        outcome.handed += usize::from(drew.is_some_and(|session| session != used.first.session));
        match *found {
            IdSource::Slot(slot, level) => {
                let drawing = scan.drawings.iter().rfind(|one| one.first_slot <= slot);
                let drawing = drawing.unwrap();
                let inferred = (drawing.number, slot - drawing.first_slot);
                outcome.wrong += usize::from(truth != Some(&inferred));
                outcome.proved += usize::from(level == Level::Proved);
                outcome.by_pattern += usize::from(level == Level::ByPattern);
            }
            IdSource::NotGenerated => {
                outcome.not_generated += 1;
                let is_shown =
                    inferred.positions.iter().all(|position| position.next_value_log.is_some());
                outcome.wrongly_old += usize::from(truth.is_some() && is_shown);
            }
            IdSource::Unresolved(..) => outcome.unresolved += 1,
        }
    }
    outcome
}

/// Scenes of a test: 150 show each habit several times, and `make test-long` plays 1,000.
/// `SEATRIAL_ID_SCENES=20000 cargo test -p seatrial-playback ids:: -- --nocapture` plays more, and
/// prints the results of each habit.
fn scenarios() -> u64 {
    std::env::var("SEATRIAL_ID_SCENES").ok().and_then(|text| text.parse().ok()).unwrap_or(150)
}

const BEHAVIOURS: [Behaviour; 11] = [
    Behaviour::Own,
    Behaviour::OwnOrNot,
    Behaviour::Twice,
    Behaviour::OwnLate,
    Behaviour::OwnThenAny,
    Behaviour::SometimesQueue(0.05),
    Behaviour::SometimesQueue(0.3),
    Behaviour::Queue,
    Behaviour::Ring,
    Behaviour::Workers,
    Behaviour::Any,
];

/// A scene of whatever kind, in which the target is what the captured server was.
fn scenario(seed: u64, behaviours: &[Behaviour]) -> (Scenario, Random) {
    let mut random = Random(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let mut one = |all: &[f64]| all[random.below(all.len() as u64) as usize];
    let scenario = Scenario {
        sessions: one(&[1.0, 2.0, 4.0, 8.0, 16.0]) as usize,
        turns: one(&[5.0, 40.0, 150.0, 400.0]) as usize,
        rows: one(&[1.0, 1.0, 1.0, 3.0]) as u32,
        draws_after_ns: one(&[2_000.0, 20_000.0, 200_000.0]),
        ends_after_ns: one(&[20_000.0, 150_000.0, 2_000_000.0]),
        thinks_ns: one(&[10_000.0, 60_000.0, 3_000_000.0, 100_000_000.0]),
        at_start: one(&[0.0, 1.0]) > 0.0,
        at_both: seed % 3 == 0,
        fails: one(&[0.0, 0.0, 0.02]),
        old: one(&[0.0, 0.2, 0.9]),
        increment: one(&[1.0, 1.0, 10.0, -1.0]) as i64,
        ..Scenario::of(seed, Behaviour::Own)
    };
    let behaviour = behaviours[random.below(behaviours.len() as u64) as usize];
    (Scenario { behaviour, ..scenario }, random)
}

/// Plays scenes and prints the sums; each is passed to `check`.
fn play(scenarios: impl Iterator<Item = Scenario>, check: impl Fn(&Scenario, &Outcome)) {
    let mut sums: BTreeMap<String, Outcome> = BTreeMap::new();
    for scenario in scenarios {
        let outcome = outcome(scenario, Some(NEXT_VALUE));
        check(&scenario, &outcome);
        sums.entry(format!("{:?}", scenario.behaviour)).or_default().add(&outcome);
    }
    for (behaviour, sum) in sums {
        println!("{behaviour}: {sum:?}");
    }
}

/// Sessions that exchange ids at once are the one thing that looks like draws in another order;
/// where most ids are sessions' own, the two cannot be distinguished.
fn is_rare_exchange(scenario: &Scenario, outcome: &Outcome) -> bool {
    scenario.behaviour == Behaviour::Queue && outcome.handed * 2 < outcome.ids
}

#[test]
fn no_inferred_id_is_wrong() {
    play((0..scenarios()).map(|seed| scenario(seed, &BEHAVIOURS).0), |scenario, outcome| {
        let is_right = outcome.wrong == 0 || is_rare_exchange(scenario, outcome);
        assert!(is_right && outcome.wrongly_old == 0, "{scenario:?} {outcome:?}");
    });
}

/// A target with another position, and draws that are not in the log.
#[test]
fn incomplete_logs_and_targets_cause_no_wrong_ids() {
    let incomplete = |seed| {
        let (scenario, mut random) = scenario(seed, &BEHAVIOURS[..6]);
        let mut one = |all: &[f64]| all[random.below(all.len() as u64) as usize];
        let unseen = one(&[0.0, 0.003, 0.02]);
        let further = one(&[0.0, 37.0, 1.0, -1.0, 100.0, -100.0, -3.0]) as i64;
        Scenario { unseen, further, ..scenario }
    };
    play((0..scenarios()).map(incomplete), |scenario, outcome| {
        // An id that the target gave out before it was copied is there: it is left alone rightly.
        let is_there = scenario.further < 0 && outcome.wrongly_old <= 3;
        let is_right = outcome.wrongly_old == 0 || is_there;
        assert!(outcome.wrong == 0 && is_right, "{scenario:?} {outcome:?}");
    });
}

/// Eight clients that do nothing but insert and update their own row leave nothing open.
#[test]
fn all_ids_of_eight_clients_are_resolved() {
    for (seed, at_start) in [(1, true), (2, true), (3, false), (4, false)] {
        // The draw comes soon after the record of its beginning, or soon before that of its end.
        let (draws_after_ns, ends_after_ns) =
            if at_start { (10_000.0, 150_000.0) } else { (150_000.0, 10_000.0) };
        let scenario = Scenario::of(seed, Behaviour::Own);
        let scenario = Scenario { at_start, draws_after_ns, ends_after_ns, ..scenario };
        let outcome = outcome(scenario, Some(NEXT_VALUE));
        assert_eq!((outcome.wrong, outcome.unresolved), (0, 0), "{outcome:?}");
        assert_eq!(outcome.proved + outcome.by_pattern, 2_000);
        assert_eq!(super::tests::outcome(scenario, None).wrong, 0);
    }
}

/// Statements that wait for their commits end in another order than they drew.
#[test]
fn waits_for_commits_do_not_cause_wrong_ids() {
    for seed in 1..=4 {
        let (draws_after_ns, ends_after_ns) = (100_000.0, 4_000_000.0);
        let scenario =
            Scenario { at_start: false, turns: 100, ..Scenario::of(seed, Behaviour::Own) };
        let scenario = Scenario { draws_after_ns, ends_after_ns, ..scenario };
        let own = outcome(scenario, Some(NEXT_VALUE));
        assert_eq!(own.wrong, 0, "{own:?}");
        assert!(own.unresolved * 10 < own.ids, "{own:?}");
        for behaviour in [Behaviour::Queue, Behaviour::Ring, Behaviour::SometimesQueue(0.05)] {
            let handed = outcome(Scenario { behaviour, ..scenario }, Some(NEXT_VALUE));
            assert_eq!(handed.wrong, 0, "{behaviour:?} {handed:?}");
        }
    }
}

/// Records of beginnings and of ends leave little open of what goes from session to session at
/// once, of which either alone leave nearly all.
#[test]
fn start_and_end_records_together_prove_more_ids() {
    for seed in 1..=4 {
        let outcome_of = |at_start: bool, at_both: bool| {
            let (draws_after_ns, ends_after_ns) = (20_000.0, 60_000.0);
            let scenario = Scenario { at_start, at_both, ..Scenario::of(seed, Behaviour::Queue) };
            let scenario =
                Scenario { draws_after_ns, ends_after_ns, thinks_ns: 300_000.0, ..scenario };
            outcome(scenario, Some(NEXT_VALUE))
        };
        let (begun, ended, both) =
            (outcome_of(true, false), outcome_of(false, false), outcome_of(true, true));
        assert_eq!((begun.wrong, ended.wrong, both.wrong), (0, 0, 0));
        println!("{begun:?} {ended:?} {both:?}");
        assert!(
            both.proved > begun.proved.max(ended.proved) * 3 / 2,
            "{begun:?} {ended:?} {both:?}"
        );
    }
}

/// Ids that no session uses as soon as it drew them, as others do or it does so later, show the
/// position of the sequence, and some of them which draw gave them.
#[test]
fn ids_used_later_show_the_sequence_position() {
    for behaviour in [Behaviour::Workers, Behaviour::OwnLate] {
        for seed in 1..=6 {
            let scenario = Scenario { sessions: 4, turns: 160, ..Scenario::of(seed, behaviour) };
            let capture = capture(scenario);
            let (_, inferred) = infer(&capture, &catalog(Some(NEXT_VALUE), 1), scenario.sessions);
            let [position] = inferred.positions[..] else { panic!("one sequence") };
            assert_eq!(position.next_value_log, Some(NEXT_VALUE), "{scenario:?}");
            let outcome = outcome(scenario, Some(NEXT_VALUE));
            assert_eq!((outcome.wrong, outcome.wrongly_old), (0, 0), "{outcome:?}");
            assert!(outcome.proved + outcome.by_pattern > 0, "{outcome:?}");
        }
    }
}

/// A shop, where most of what is examined was there before.
#[test]
fn old_rows_do_not_hide_new_draws() {
    for (seed, at_start) in [(1, true), (2, false), (3, false)] {
        let scenario =
            Scenario { old: 0.9, turns: 1_000, at_start, ..Scenario::of(seed, Behaviour::Own) };
        let outcome = outcome(scenario, Some(NEXT_VALUE));
        assert_eq!((outcome.wrong, outcome.wrongly_old), (0, 0), "{outcome:?}");
        let drawn = outcome.ids - outcome.not_generated;
        assert!(outcome.unresolved * 50 < drawn && drawn > 500, "{outcome:?}");
    }
}

#[test]
fn target_with_another_sequence_position_is_reported() {
    for further in [5, -5, 400] {
        let scenario = Scenario { further, sessions: 2, ..Scenario::of(7, Behaviour::Own) };
        let capture = capture(scenario);
        let catalog = catalog(Some(NEXT_VALUE), 1);
        let (_, inferred) = infer(&capture, &catalog, scenario.sessions);
        let [position] = inferred.positions[..] else { panic!("one sequence") };
        assert_eq!(position.next_value_log, Some(NEXT_VALUE + further));
        let is_open =
            |found: &IdSource| matches!(found, IdSource::Unresolved(Reason::SequenceElsewhere, _));
        assert!(inferred.found.iter().all(is_open));
    }
}

/// A text, the error that it ended with, and the id that it returned.
type Logged<'a> = (&'a str, Option<[u8; 5]>, Option<i64>);

/// The pass over these texts of one session.
fn scan_of(texts: &[Logged<'_>]) -> Scan {
    let catalog = catalog(Some(1), 1);
    let mut catalog = Catalog { search_path: vec!["public".to_owned()], ..catalog };
    catalog.tables[0].schema = "public".to_owned();
    (catalog.sequences[0].schema, catalog.sequences[0].name) =
        ("public".to_owned(), "orders_id_seq".to_owned());
    let mut reader = Reader::new(&catalog);
    let mut scan = Scan::of(IdClasses::of(&catalog), 1, Rows::default());
    for (number, &(sql, error, id)) in (0..).zip(texts) {
        let mut parts = Parts::default();
        parts.take_apart(sql.as_bytes());
        let reading = reader.read(sql.as_bytes(), &parts);
        let rows = id.map(|id| vec![Some(id.to_string().into_bytes())]);
        let returned = Returned { columns: vec![b"id".to_vec()], rows: rows.into_iter().collect() };
        let scanned = ScannedStatement {
            number,
            session: 0,
            transaction: 0,
            begins: false,
            start_us: number as i64,
            duration_us: Some(1),
            reported_meanwhile: None,
            error,
            fingerprint: number,
            reading: &reading,
            returned: id.map(|_| &returned),
            rows: None,
            value_counts: (0, 0),
        };
        scan.take(&scanned, |_| None);
    }
    scan
}

#[test]
fn last_value_of_an_insert_is_its_own() {
    let one = "INSERT INTO orders DEFAULT VALUES";
    for of in ["currval('orders_id_seq')", "lastval()"] {
        let own = format!("{one} RETURNING {of}");
        let several =
            format!("INSERT INTO orders SELECT FROM generate_series(1, 3) RETURNING {of}");
        let asked = format!("SELECT {of}");
        let slots = |last: &str, id| {
            let exact = scan_of(&[(one, None, None), (last, None, Some(id))]).exact;
            exact.into_iter().map(|((_, id), slot)| (id.number(), slot)).collect::<Vec<_>>()
        };
        assert_eq!(slots(&own, 2), [(2, 1)]);
        assert_eq!(slots(&several, 4), []);
        assert_eq!(slots(&asked, 1), [(1, 0)]);
    }
}

#[test]
fn draws_of_failed_statements_are_known_where_nothing_else_fails() {
    let one = "INSERT INTO orders DEFAULT VALUES";
    let several = format!("{one}; {one}");
    let drawn = |sql: &str, code| {
        let scan = scan_of(&[(sql, Some(code), None)]);
        (scan.drawings[0].slots, scan.drawings[0].count)
    };
    assert_eq!(drawn(one, *b"42P01"), (0, DrawCount::Known));
    assert_eq!(drawn(one, *b"23505"), (1, DrawCount::Known));
    assert_eq!(drawn(one, *b"25P02"), (0, DrawCount::Known));
    // A policy, or a trigger.
    assert_eq!(drawn(one, *b"42501"), (1, DrawCount::Failed));
    for code in [*b"42P01", *b"23505"] {
        assert_eq!(drawn(&several, code), (1, DrawCount::Failed));
    }
}

#[test]
fn statements_that_ran_nothing_drew_nothing() {
    let obscure = |error| scan_of(&[("'masked'", error, None)]).obscure.len();
    let codes = [None, Some(*b"23505"), Some(*b"42601"), Some(*b"25P02")];
    assert_eq!(codes.map(obscure), [1, 1, 0, 0]);
}

/// Of INSERT ... SELECT ... RETURNING the first rows are kept; it drew as many as it had.
#[test]
fn rows_cut_from_returning_count_as_drawn() {
    let catalog = catalog(None, 1);
    let draw = ValueDraw {
        source: ValueSource::Sequence(0),
        column: Some(simulator::COLUMN),
        count: None,
        each_of: None,
        may_conflict: false,
        returned: Some(0),
    };
    let reading = StatementEffects { draws: vec![draw], ..StatementEffects::default() };
    let drawn = |kept: u64, rows: Option<u64>| {
        let rows_kept = (1..=kept).map(|id| vec![Some(id.to_string().into_bytes())]);
        let returned = Returned { columns: vec![b"id".to_vec()], rows: rows_kept.collect() };
        let mut scan = Scan::of(IdClasses::of(&catalog), 1, Rows::default());
        let scanned = ScannedStatement {
            number: 0,
            session: 0,
            transaction: 0,
            begins: false,
            start_us: 0,
            duration_us: Some(1),
            reported_meanwhile: None,
            error: None,
            fingerprint: 0,
            reading: &reading,
            returned: Some(&returned),
            rows,
            value_counts: (0, 0),
        };
        scan.take(&scanned, |_| None);
        (scan.drawings[0].slots, scan.drawings[0].count, scan.exact.len())
    };
    assert_eq!(drawn(3, Some(3)), (3, DrawCount::Known, 3));
    assert_eq!(drawn(3, None), (3, DrawCount::Known, 3));
    assert_eq!(drawn(1_000, Some(5_000)), (5_000, DrawCount::Known, 1_000));
    assert_eq!(drawn(1_000, Some(1 << 40)), (0, DrawCount::Unknown, 0));
    assert_eq!(drawn(0, Some(0)), (0, DrawCount::Known, 0));
}
