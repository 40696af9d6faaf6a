//! The report on ids.

use std::collections::BTreeMap;

use seatrial_sqltext::catalog::Catalog;
use seatrial_sqltext::reading::ValueSource;
use serde::Serialize;

use super::binder::IdCounts;
use super::id_slots::RewriteOutcome;
use crate::ids::infer::Level;
use crate::ids::plan::Plan;

/// Maximum number of reported pairs of texts.
const PATTERNS_REPORTED_MAX: usize = 64;

/// Maximum number of reported examples.
const EXAMPLES_REPORTED_MAX: usize = 64;

/// Ids, and which of them were rewritten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Ids {
    /// `off` or `infer`.
    pub mode: String,
    /// By class of columns.
    pub classes: Vec<ClassReport>,
    /// What pairs of texts do, those with the most uses first.
    pub patterns: Vec<PatternReport>,
    /// Values that may be ids and go where ids are not followed, so that they were left alone: they
    /// are handed to a `function`, are in a statement with an `unknown_table`, in one that is
    /// `not_understood`, or within a `text`.
    pub not_followed: BTreeMap<String, u64>,
    /// Values that a draw of the capture gave or may have given, and that were sent as captured:
    /// their statements may have met other rows.
    pub doubtful_uses: u64,
    /// The first uses of each reason that could not be traced to a draw.
    pub examples: Vec<Example>,
    /// Whether the trace has both the beginning and the end of statements that draw.
    #[serde(rename = "tells_both_ends")]
    pub logs_both_ends: bool,
    /// Statements that were given a RETURNING.
    pub returning_added: u64,
    /// How long statements waited for draws of others, together.
    pub waited_ns: u64,
    /// Functions in statements that return a different value each time.
    pub volatile: Volatiles,
    /// Texts of which only the names were understood.
    pub forms_not_understood: u64,
}

/// Columns that hold the same ids: `uses = exact + proved + by_pattern + unresolved +
/// not_generated`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ClassReport {
    /// The column that they are made for, as `schema.table.column`.
    pub column: String,
    /// The sequence that makes them, or `random`.
    pub source: String,
    /// Columns that refer to it.
    pub referring: Vec<String>,
    /// Values that were drawn in the capture, as far as known.
    pub draws: u64,
    /// Of these, those that the client was given, so that a capture on the wire has them.
    pub draws_given_back: u64,
    /// Of those that are used, drawn now.
    pub drawn_now: u64,
    /// Values in statements.
    pub uses: u64,
    /// Traced to a draw whose value was captured.
    pub exact: u64,
    /// Traced to the only draw that can have given it.
    pub proved: u64,
    /// Traced to the draw that is its session's last, as others of the same texts are.
    pub by_pattern: u64,
    /// Left alone, by reason.
    pub unresolved: BTreeMap<String, u64>,
    /// Of these, those that a capture on the wire would have had, as the client was given them: by
    /// the draws that can have given each.
    pub unresolved_given_back: u64,
    /// Left alone: they were there before.
    pub not_generated: u64,
    /// What the target's sequence would have given next at the start; None where there is none, or
    /// it may not be read.
    pub next_value_target: Option<i64>,
    /// What it gave first in the capture, as the log shows; None where it does not.
    pub next_value_log: Option<i64>,
    /// Uses that were rewritten.
    pub rewritten: u64,
    /// Numbers that are missing between the least and the greatest that were drawn now, without
    /// those of draws that nobody used.
    pub gaps: u64,
}

/// What a pair of texts does: the second uses what the first drew last in its session, or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PatternReport {
    /// The text that draws, without its literals.
    pub draw_text: String,
    /// The text that uses, likewise.
    pub use_text: String,
    /// The column that the ids are made for.
    pub column: String,
    /// Ids that were proved to be of the session's last draw.
    pub proved_own: u64,
    /// Ids that were proved not to be.
    pub proved_other: u64,
    /// Whether the others are taken to be as the proved ones.
    pub is_trusted: bool,
    /// Ids that were used by this pair first.
    pub uses: u64,
}

/// A use of an id that could not be traced to a draw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Example {
    pub reason: String,
    pub column: String,
    pub value: String,
    /// The text without its literals.
    pub text: String,
    /// The statement's position in the trace, from 0.
    pub number: u64,
    /// Its session's name in the log.
    pub session: String,
    /// Draws that can have given it.
    pub candidates: u64,
}

/// Functions in statements that return a different value each time, by what they return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Volatiles {
    /// The time.
    pub time: u64,
    /// Random values.
    pub random: u64,
    /// What the session drew last: the same statement returns it again.
    pub last_drawn: u64,
}

/// Uses of a class by how it is known who drew them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// It was captured.
    pub exact: u64,
    /// It was proved.
    pub proved: u64,
    /// By what sessions do.
    pub by_pattern: u64,
    /// They were there before.
    pub not_generated: u64,
    /// It is not known, by reason.
    pub unresolved: BTreeMap<&'static str, u64>,
    /// Of these, those that the client was given, in thousandths.
    pub given_back_per_mille: u64,
}

impl Levels {
    /// Counts an id of a level.
    pub fn add(&mut self, level: Level) {
        *self.of(level) += 1;
    }

    fn of(&mut self, level: Level) -> &mut u64 {
        match level {
            Level::Exact => &mut self.exact,
            Level::Proved => &mut self.proved,
            Level::ByPattern => &mut self.by_pattern,
        }
    }

    fn uses(&self) -> u64 {
        let unresolved: u64 = self.unresolved.values().sum();
        self.exact + self.proved + self.by_pattern + self.not_generated + unresolved
    }
}

/// Values of a class that were drawn now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrawnValues {
    pub count: u64,
    /// The least and the greatest number, if they are numbers.
    pub range: Option<(i64, i64)>,
}

impl DrawnValues {
    /// Counts a value.
    pub fn add(&mut self, number: Option<i64>) {
        self.count += 1;
        if let Some(number) = number {
            let (least, greatest) = self.range.unwrap_or((number, number));
            self.range = Some((least.min(number), greatest.max(number)));
        }
    }

    /// Missing numbers between the minimum and the maximum, without those of draws that nobody
    /// used.
    fn gaps(&self, increment: i64, draws: u64) -> u64 {
        let Some((least, greatest)) = self.range else { return 0 };
        let steps = greatest.abs_diff(least) / increment.unsigned_abs().max(1);
        (steps + 1).saturating_sub(self.count.max(draws))
    }
}

impl Ids {
    /// The report if ids are sent as captured.
    pub fn off() -> Ids {
        Ids { mode: "off".to_owned(), ..Ids::default() }
    }

    /// The report of a plan, with the counters of reading and of sending.
    pub fn of(
        plan: &Plan,
        catalog: &Catalog,
        mut counts: IdCounts,
        outcome: &RewriteOutcome,
    ) -> Ids {
        for (&(class, level, missing), &count) in &outcome.missed {
            let Some(levels) = counts.classes.get_mut(class as usize) else { continue };
            *levels.of(level) -= count.min(*levels.of(level));
            *levels.unresolved.entry(missing.name()).or_default() += count;
        }
        let classes = (0..plan.classes.all.len()).map(|index| {
            let levels = counts.classes.get(index).cloned().unwrap_or_default();
            class(plan, catalog, index, &levels, outcome)
        });
        let examples = counts.examples.into_values().flatten().take(EXAMPLES_REPORTED_MAX);
        Ids {
            mode: "infer".to_owned(),
            classes: classes.collect(),
            patterns: patterns(plan),
            not_followed: owned(&counts.not_followed),
            doubtful_uses: counts.doubtful_uses + outcome.missed.values().sum::<u64>(),
            examples: examples.collect(),
            logs_both_ends: plan.logs_both_ends,
            returning_added: counts.returning_added,
            waited_ns: outcome.waited_ns,
            volatile: counts.volatile,
            forms_not_understood: plan.not_understood,
        }
    }
}

fn class(
    plan: &Plan,
    catalog: &Catalog,
    index: usize,
    levels: &Levels,
    outcome: &RewriteOutcome,
) -> ClassReport {
    let about = &plan.classes.all[index];
    let sequence = match about.source {
        ValueSource::Sequence(sequence) => Some(sequence),
        ValueSource::Random | ValueSource::Time => None,
    };
    let is_its =
        |sequence: usize| plan.positions.iter().find(|one| one.sequence as usize == sequence);
    let position = sequence.and_then(is_its);
    let definition = sequence.and_then(|sequence| catalog.sequences.get(sequence));
    let drawn = outcome.drawn.get(index).copied().unwrap_or_default();
    let draws = plan.draws.get(index).copied().unwrap_or(0);
    // The numbers between those of one class may be of another.
    let is_shared = |sequence: &usize| plan.classes.of_sequence(*sequence).nth(1).is_some();
    let draws_of_source = match sequence.filter(is_shared) {
        Some(shared) => plan.sequence_draws.get(&(shared as u32)).copied().flatten(),
        None => Some(draws),
    };
    ClassReport {
        column: about.name.clone(),
        source: about.source_name.clone(),
        referring: about.referring.clone(),
        draws,
        draws_given_back: plan.draws_given_back.get(index).copied().unwrap_or(0),
        drawn_now: drawn.count,
        uses: levels.uses(),
        exact: levels.exact,
        proved: levels.proved,
        by_pattern: levels.by_pattern,
        unresolved: owned(&levels.unresolved),
        unresolved_given_back: levels.given_back_per_mille / 1_000,
        not_generated: levels.not_generated,
        next_value_target: definition.and_then(|definition| definition.next_value),
        next_value_log: position.and_then(|position| position.next_value_log),
        rewritten: outcome.rewritten.get(index).copied().unwrap_or(0),
        gaps: definition
            .zip(draws_of_source)
            .map_or(0, |(definition, draws)| drawn.gaps(definition.increment, draws)),
    }
}

fn owned(counts: &BTreeMap<&'static str, u64>) -> BTreeMap<String, u64> {
    counts.iter().map(|(&reason, &count)| (reason.to_owned(), count)).collect()
}

fn patterns(plan: &Plan) -> Vec<PatternReport> {
    let shown = |text: u32| {
        let fingerprint = plan.texts.get(text as usize).map(|text| text.fingerprint);
        let shown = fingerprint.and_then(|fingerprint| plan.shown.get(&fingerprint));
        crate::accounting::queries::shown(shown.map(String::as_str).unwrap_or_default())
    };
    let mut patterns: Vec<_> = plan.patterns.iter().collect();
    patterns.sort_by_key(|(_, pattern)| std::cmp::Reverse(pattern.ids));
    let reports =
        patterns.into_iter().take(PATTERNS_REPORTED_MAX).map(|(pair, pattern)| PatternReport {
            draw_text: shown(pair.draw),
            use_text: shown(pair.used),
            column: plan.class(pair.class).map(|class| class.name.clone()).unwrap_or_default(),
            proved_own: pattern.proved_own,
            proved_other: pattern.proved_other,
            is_trusted: pattern.is_trusted(),
            uses: pattern.ids,
        });
    reports.collect()
}
