//! Hundreds of simulated captures: what is said to be known is right.

mod simulator;

use std::collections::BTreeMap;

use seatrial_sqltext::catalog::{Catalog, Column, Generated, Sequence, Table};
use seatrial_sqltext::reading::{StatementEffects, ValueDraw, ValueSource};
use seatrial_trace::captured::Returned;

use super::classes::Classes;
use super::infer::{IdSource, Inferred, Level, Reason};
use super::rows::Rows;
use super::scan::{Count, Scan, ScannedStatement};
use super::values::Spelled;
use simulator::{Capture, Chance, Habit, NEXT_VALUE, Scene, capture};

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
    let mut scan = Scan::of(Classes::of(catalog), sessions, Rows::default());
    for (number, statement) in (0..).zip(&capture.statements) {
        let reading = statement.reading();
        let text = statement.used.map(|(id, _)| id.to_string()).unwrap_or_default();
        let spelled = Spelled { text: text.as_bytes(), is_literal: true };
        scan.take(&statement.seen(number, &reading), |_| Some(spelled));
    }
    let inferred = Inferred::of(&mut scan, catalog);
    (scan, inferred)
}

fn outcome(scene: Scene, next_value: Option<i64>) -> Outcome {
    let capture = capture(scene);
    let catalog = catalog(next_value, scene.increment);
    let (scan, inferred) = infer(&capture, &catalog, scene.sessions);
    let mut outcome = Outcome { ids: scan.used.len(), ..Outcome::default() };
    for (used, found) in scan.used.iter().zip(&inferred.found) {
        let truth = capture.truth.get(&used.id.number());
        let drew = truth.map(|&(number, _)| capture.statements[number as usize].session);
        outcome.handed += usize::from(drew.is_some_and(|session| session != used.first.session));
        match *found {
            IdSource::Slot(slot, level) => {
                let drawing = scan.drawings.iter().rfind(|one| one.first_slot <= slot);
                let drawing = drawing.unwrap();
                let said = (drawing.number, slot - drawing.first_slot);
                outcome.wrong += usize::from(truth != Some(&said));
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
fn scenes() -> u64 {
    std::env::var("SEATRIAL_ID_SCENES")
        .ok()
        .and_then(|reported| reported.parse().ok())
        .unwrap_or(150)
}

const HABITS: [Habit; 11] = [
    Habit::Own,
    Habit::OwnOrNot,
    Habit::Twice,
    Habit::OwnLate,
    Habit::OwnThenAny,
    Habit::SometimesQueue(0.05),
    Habit::SometimesQueue(0.3),
    Habit::Queue,
    Habit::Ring,
    Habit::Workers,
    Habit::Any,
];

/// A scene of whatever kind, in which the target is what the captured server was.
fn scene(seed: u64, habits: &[Habit]) -> (Scene, Chance) {
    let mut chance = Chance(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let mut one = |all: &[f64]| all[chance.below(all.len() as u64) as usize];
    let scene = Scene {
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
        ..Scene::of(seed, Habit::Own)
    };
    let habit = habits[chance.below(habits.len() as u64) as usize];
    (Scene { habit, ..scene }, chance)
}

/// Plays scenes and prints the sums; each is passed to `check`.
fn play(scenes: impl Iterator<Item = Scene>, check: impl Fn(&Scene, &Outcome)) {
    let mut sums: BTreeMap<String, Outcome> = BTreeMap::new();
    for scene in scenes {
        let outcome = outcome(scene, Some(NEXT_VALUE));
        check(&scene, &outcome);
        sums.entry(format!("{:?}", scene.habit)).or_default().add(&outcome);
    }
    for (habit, sum) in sums {
        println!("{habit}: {sum:?}");
    }
}

/// Sessions that exchange ids at once are the one thing that looks like draws in another order;
/// where most ids are sessions' own, the two cannot be distinguished.
fn is_rare_exchange(scene: &Scene, outcome: &Outcome) -> bool {
    scene.habit == Habit::Queue && outcome.handed * 2 < outcome.ids
}

#[test]
fn nothing_that_is_said_is_wrong() {
    play((0..scenes()).map(|seed| scene(seed, &HABITS).0), |scene, outcome| {
        let is_right = outcome.wrong == 0 || is_rare_exchange(scene, outcome);
        assert!(is_right && outcome.wrongly_old == 0, "{scene:?} {outcome:?}");
    });
}

/// A target with another position, and draws that are not in the log.
#[test]
fn nothing_is_wrong_where_the_log_or_the_target_is_not_whole() {
    let strange = |seed| {
        let (scene, mut chance) = scene(seed, &HABITS[..6]);
        let mut one = |all: &[f64]| all[chance.below(all.len() as u64) as usize];
        let unseen = one(&[0.0, 0.003, 0.02]);
        let further = one(&[0.0, 37.0, 1.0, -1.0, 100.0, -100.0, -3.0]) as i64;
        Scene { unseen, further, ..scene }
    };
    play((0..scenes()).map(strange), |scene, outcome| {
        // An id that the target gave out before it was copied is there: it is left alone rightly.
        let is_there = scene.further < 0 && outcome.wrongly_old <= 3;
        let is_right = outcome.wrongly_old == 0 || is_there;
        assert!(outcome.wrong == 0 && is_right, "{scene:?} {outcome:?}");
    });
}

/// Eight clients that do nothing but insert and update their own row leave nothing open.
#[test]
fn the_orders_of_eight_clients_are_all_known() {
    for (seed, at_start) in [(1, true), (2, true), (3, false), (4, false)] {
        // The draw comes soon after the record of its beginning, or soon before that of its end.
        let (draws_after_ns, ends_after_ns) =
            if at_start { (10_000.0, 150_000.0) } else { (150_000.0, 10_000.0) };
        let scene = Scene::of(seed, Habit::Own);
        let scene = Scene { at_start, draws_after_ns, ends_after_ns, ..scene };
        let outcome = outcome(scene, Some(NEXT_VALUE));
        assert_eq!((outcome.wrong, outcome.unresolved), (0, 0), "{outcome:?}");
        assert_eq!(outcome.proved + outcome.by_pattern, 2_000);
        assert_eq!(super::tests::outcome(scene, None).wrong, 0);
    }
}

/// Statements that wait for their commits end in another order than they drew.
#[test]
fn commits_that_are_waited_for_hide_nothing() {
    for seed in 1..=4 {
        let (draws_after_ns, ends_after_ns) = (100_000.0, 4_000_000.0);
        let scene = Scene { at_start: false, turns: 100, ..Scene::of(seed, Habit::Own) };
        let scene = Scene { draws_after_ns, ends_after_ns, ..scene };
        let own = outcome(scene, Some(NEXT_VALUE));
        assert_eq!(own.wrong, 0, "{own:?}");
        assert!(own.unresolved * 10 < own.ids, "{own:?}");
        for habit in [Habit::Queue, Habit::Ring, Habit::SometimesQueue(0.05)] {
            let handed = outcome(Scene { habit, ..scene }, Some(NEXT_VALUE));
            assert_eq!(handed.wrong, 0, "{habit:?} {handed:?}");
        }
    }
}

/// Records of beginnings and of ends leave little open of what goes from session to session at
/// once, of which either alone leave nearly all.
#[test]
fn beginnings_and_ends_show_what_either_hides() {
    for seed in 1..=4 {
        let reported = |at_start: bool, at_both: bool| {
            let (draws_after_ns, ends_after_ns) = (20_000.0, 60_000.0);
            let scene = Scene { at_start, at_both, ..Scene::of(seed, Habit::Queue) };
            let scene = Scene { draws_after_ns, ends_after_ns, thinks_ns: 300_000.0, ..scene };
            outcome(scene, Some(NEXT_VALUE))
        };
        let (begun, ended, both) =
            (reported(true, false), reported(false, false), reported(true, true));
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
fn ids_that_are_not_used_at_once_show_where_the_sequence_stood() {
    for habit in [Habit::Workers, Habit::OwnLate] {
        for seed in 1..=6 {
            let scene = Scene { sessions: 4, turns: 160, ..Scene::of(seed, habit) };
            let capture = capture(scene);
            let (_, inferred) = infer(&capture, &catalog(Some(NEXT_VALUE), 1), scene.sessions);
            let [position] = inferred.positions[..] else { panic!("one sequence") };
            assert_eq!(position.next_value_log, Some(NEXT_VALUE), "{scene:?}");
            let outcome = outcome(scene, Some(NEXT_VALUE));
            assert_eq!((outcome.wrong, outcome.wrongly_old), (0, 0), "{outcome:?}");
            assert!(outcome.proved + outcome.by_pattern > 0, "{outcome:?}");
        }
    }
}

/// A shop, where most of what is looked at was there before.
#[test]
fn what_was_there_does_not_hide_what_is_drawn() {
    for (seed, at_start) in [(1, true), (2, false), (3, false)] {
        let scene = Scene { old: 0.9, turns: 1_000, at_start, ..Scene::of(seed, Habit::Own) };
        let outcome = outcome(scene, Some(NEXT_VALUE));
        assert_eq!((outcome.wrong, outcome.wrongly_old), (0, 0), "{outcome:?}");
        let drawn = outcome.ids - outcome.not_generated;
        assert!(outcome.unresolved * 50 < drawn && drawn > 500, "{outcome:?}");
    }
}

#[test]
fn a_target_that_stands_elsewhere_is_reported() {
    for further in [5, -5, 400] {
        let scene = Scene { further, sessions: 2, ..Scene::of(7, Habit::Own) };
        let capture = capture(scene);
        let catalog = catalog(Some(NEXT_VALUE), 1);
        let (_, inferred) = infer(&capture, &catalog, scene.sessions);
        let [position] = inferred.positions[..] else { panic!("one sequence") };
        assert_eq!(position.next_value_log, Some(NEXT_VALUE + further));
        let is_open =
            |found: &IdSource| matches!(found, IdSource::Unresolved(Reason::SequenceElsewhere, _));
        assert!(inferred.found.iter().all(is_open));
    }
}

/// Of INSERT ... SELECT ... RETURNING the first rows are kept; it drew as many as it had.
#[test]
fn what_is_cut_of_returning_was_drawn_all_the_same() {
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
        let mut scan = Scan::of(Classes::of(&catalog), 1, Rows::default());
        let seen = ScannedStatement {
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
            places: (0, 0),
        };
        scan.take(&seen, |_| None);
        (scan.drawings[0].slots, scan.drawings[0].count, scan.exact.len())
    };
    assert_eq!(drawn(3, Some(3)), (3, Count::Known, 3));
    assert_eq!(drawn(3, None), (3, Count::Known, 3));
    assert_eq!(drawn(1_000, Some(5_000)), (5_000, Count::Known, 1_000));
    assert_eq!(drawn(1_000, Some(1 << 40)), (0, Count::Unknown, 0));
    assert_eq!(drawn(0, Some(0)), (0, Count::Known, 0));
}
