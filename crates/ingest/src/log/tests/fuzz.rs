//! Real logs, damaged by chance, through every reader: nothing panics, every record is accounted
//! for, and blocks make no difference.
//!
//! ```text
//! SEATRIAL_FUZZ_CASES=10000000 cargo test --release -p seatrial-ingest fuzz
//! ```
//!
//! Each case has its own seed, which a failure names; `SEATRIAL_FUZZ_SEED` begins with it.

use std::env;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

use seatrial_sqltext::lexer::form::{Filling, Parts};
use seatrial_sqltext::lexer::token::Tokens;
use seatrial_sqltext::lexer::{Fingerprint, significant};
use seatrial_sqltext::statements;

use super::super::assemble::Assembler;
use super::super::files::DetectedFile;
use super::super::{blocks, guess, raw};
use super::matrix::LOGS;
use super::*;
use crate::streams::StreamSplitter;

/// Cases of a run by default. A second or two.
const CASES: u64 = 20_000;

/// Lines of a log that a case is made of, at most.
const LINES_MAX: usize = 9;

/// One case in this many is read by several threads, and has its prefix guessed.
const SELDOM: u64 = 64;

/// What formats and statements treat apart.
const WORDS: [&str; 48] = [
    "\n",
    "\r\n",
    "\r",
    "\t",
    "\"",
    "\"\"",
    "'",
    "''",
    "\\",
    "\\u",
    "\\ud83d",
    "\\n",
    ",",
    ",,",
    ";",
    "{",
    "}",
    ":",
    "\0",
    "LOG:  ",
    "ERROR:  ",
    "DETAIL:  ",
    "STATEMENT:  ",
    "CONTEXT:  ",
    "FATAL:  ",
    "statement: ",
    "execute ",
    "execute fetch from ",
    "parse ",
    "bind ",
    "duration: 1.5 ms",
    "duration: 99999999999999999999.000 ms  ",
    "Parameters: $1 = '",
    ", $2 = NULL",
    "$1",
    "$$",
    "...",
    "begin;",
    "commit and chain;",
    "rollback to a",
    "copy t from stdin;",
    "\n\\.\n",
    "/*",
    "*/",
    "2026-11-21 12:00:00.000 UTC ",
    "99999999999999999999",
    "-",
    "\n\\x ",
];

/// What the logs were written with.
const OWN_PREFIX: &str = "%m [%p] %q%u@%d/%a %c %l %v %x %e ";

/// Prefixes that do not fit the logs, or fit them otherwise than meant.
const PREFIXES: [&str; 8] = [
    "",
    "%m [%p] ",
    "%m [%p] %q%u@%d ",
    "%t:%r:%u@%d:[%p]: ",
    "%n %-10u %10d %x %v ",
    "%q%a",
    "%s %Q %P %b ",
    "%c%%%l%i%h",
];

/// Random numbers from a seed: splitmix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
/// Generators", 2014).
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn is_one_in(&mut self, many: u64) -> bool {
        self.next().is_multiple_of(many)
    }

    fn pick<'a, T: ?Sized>(&mut self, among: &[&'a T]) -> &'a T {
        among[self.below(among.len())]
    }
}

/// A log in lines, and what wrote it.
struct Source {
    format: Format,
    lines: Vec<&'static [u8]>,
}

fn sources() -> Vec<Source> {
    let of_name = |name: &str| match name.rsplit('.').next() {
        Some("csv") => Format::Csv,
        Some("json") => Format::Json,
        _ => Format::Stderr,
    };
    let lines = |bytes: &'static [u8]| bytes.split_inclusive(|&byte| byte == b'\n').collect();
    let logs = LOGS.into_iter().flatten();
    logs.map(|&(name, bytes)| Source { format: of_name(name), lines: lines(bytes) }).collect()
}

/// A few lines that follow each other.
fn part(source: &Source, chance: &mut SplitMix) -> Vec<u8> {
    let count = 1 + chance.below(LINES_MAX);
    let from = chance.below(source.lines.len());
    source.lines[from..source.lines.len().min(from + count)].concat()
}

fn damage(bytes: &mut Vec<u8>, sources: &[Source], chance: &mut SplitMix) {
    let at = chance.below(bytes.len() + 1);
    let most_bytes = 1 << chance.below(8);
    let to = bytes.len().min(at + chance.below(most_bytes));
    match chance.below(8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
        1 => drop(bytes.drain(at..to)),
        2 => drop(bytes.splice(at..at, chance.pick(&WORDS).bytes())),
        3 => drop(bytes.splice(at..to, chance.pick(&WORDS).bytes())),
        4 => {
            let again = bytes[at..to].to_vec();
            drop(bytes.splice(at..at, again));
        }
        5 => {
            let other = part(&sources[chance.below(sources.len())], chance);
            let cut = chance.below(other.len() + 1);
            drop(bytes.splice(at..at, other[cut..].iter().copied()));
        }
        6 => bytes.truncate(at),
        _ => {
            let noise: Vec<u8> = (0..chance.below(20)).map(|_| chance.next() as u8).collect();
            drop(bytes.splice(at..to, noise));
        }
    }
}

/// The input of one case.
struct FuzzCase {
    files: Vec<Vec<u8>>,
    format: Format,
    prefix: String,
}

impl FuzzCase {
    fn new(sources: &[Source], chance: &mut SplitMix) -> FuzzCase {
        let source = &sources[chance.below(sources.len())];
        let mut bytes = part(source, chance);
        if chance.is_one_in(16) {
            bytes = (0..chance.below(200)).map(|_| chance.next() as u8).collect();
        }
        for _ in 0..chance.below(5) {
            damage(&mut bytes, sources, chance);
        }
        let formats = [Format::Stderr, Format::Csv, Format::Json, Format::Raw];
        let format = if chance.is_one_in(8) { formats[chance.below(4)] } else { source.format };
        let prefix = if chance.is_one_in(4) { chance.pick(&PREFIXES) } else { OWN_PREFIX };
        let mut files = vec![bytes];
        if chance.is_one_in(4) {
            let cut = chance.below(files[0].len() + 1);
            let second = files[0].split_off(cut);
            files.push(second);
        }
        FuzzCase { files, format, prefix: prefix.to_owned() }
    }

    /// Any length of a block that a line fits into. In a shorter one, the beginning of a file could
    /// not be distinguished from its middle.
    fn block_bytes(&self, chance: &mut SplitMix) -> usize {
        let total_bytes: usize = self.files.iter().map(Vec::len).sum();
        let lines = self.files.iter().flat_map(|file| file.split(|&byte| byte == b'\n'));
        let longest = lines.map(<[u8]>::len).max().unwrap_or(0);
        (1 + chance.below(total_bytes)).max(longest + 1)
    }

    /// Reads it in blocks of this size, with this number of workers.
    fn read(&self, block_bytes: usize, workers: usize) -> (RecordedSink, RecordCounts) {
        let known = |bytes: &Vec<u8>| DetectedFile::in_memory(bytes, self.format, &self.prefix);
        let mut files: Vec<DetectedFile> = self.files.iter().map(known).collect();
        let mut kept = RecordedSink::default();
        let mut assembler = Assembler::new(&mut kept);
        if self.format == Format::Raw {
            for file in &mut files {
                raw::read(file, block_bytes, &mut assembler).unwrap();
            }
        } else {
            blocks::read(&mut files, BlockSource::Blocks { workers, block_bytes }, &mut assembler)
                .unwrap();
        }
        assembler.finish().unwrap();
        let counted = assembler.counted;
        (kept, counted)
    }
}

/// Runs one case; whatever is wrong panics.
fn run(seed: u64, sources: &[Source]) -> u64 {
    let mut chance = SplitMix(seed);
    let case = FuzzCase::new(sources, &mut chance);
    let (kept, counted) = case.read(usize::MAX >> 1, 1);
    counted.check().unwrap();
    assert_eq!(kept.statements.len() as u64, counted.statements);
    let mut skipped = [0; Skip::COUNT];
    for skip in kept.statements.iter().filter_map(|statement| statement.skip) {
        skipped[skip as usize] += 1;
    }
    assert_eq!(skipped, counted.skipped);
    let block_bytes = case.block_bytes(&mut chance);
    let workers = if chance.is_one_in(SELDOM) { 2 + chance.below(3) } else { 1 };
    assert_eq!(case.read(block_bytes, workers), (kept.clone(), counted), "blocks of {block_bytes}");
    for statement in &kept.statements {
        check_text(&statement.sql);
    }
    if chance.is_one_in(SELDOM) {
        check_text(&case.files[0]);
        let _ = guess::guess(&case.files[0]);
    }
    if case.format == Format::Raw {
        check_streams(&kept, 1 + chance.below(5));
    }
    kept.statements.len() as u64
}

/// A text is its tokens, its statements, and its form with the literals.
fn check_text(text: &[u8]) {
    assert_eq!(Tokens::of(text).map(|token| token.text).collect::<Vec<_>>().concat(), text);
    let mut statements = Vec::new();
    statements::for_each_statement(text, |statement| statements.extend_from_slice(statement));
    assert_eq!(statements, text);
    let mut parts = Parts::default();
    parts.take_apart(text);
    let mut sql = Vec::new();
    let mut filling = Filling::of(&mut sql, parts.form());
    assert!(parts.literals().all(|range| filling.fill(&text[range])) && filling.end());
    assert_eq!(sql, text);
    let fingerprint = Fingerprint::of_form(parts.form());
    assert!(fingerprint.statements > 0 || significant(text).iter().all(|token| token.is_sign(";")));
}

/// Streams pass on what they are given, each in its order.
fn check_streams(kept: &RecordedSink, streams: usize) {
    let mut parted = RecordedSink::default();
    let mut split = StreamSplitter::new(&mut parted, streams, false);
    for session in &kept.sessions {
        split.session(session).unwrap();
    }
    for statement in &kept.statements {
        let sent = Statement {
            session: SessionId(0),
            start_us: statement.start_us,
            duration_us: None,
            parameter_types: None,
            reported_meanwhile: None,
            protocol: statement.protocol,
            prepared: &[],
            sql: &statement.sql,
            parameters: &[],
            transaction: statement.transaction,
            rows: None,
            tag: None,
            returned: None,
            error: None,
            skip: statement.skip,
        };
        split.statement(&sent).unwrap();
    }
    split.finish().unwrap();
    let texts = |kept: &RecordedSink| {
        let mut texts: Vec<_> =
            kept.statements.iter().map(|statement| statement.sql.clone()).collect();
        texts.sort();
        texts
    };
    assert_eq!(texts(&parted), texts(kept));
}

fn wanted<T: FromStr<Err: Display>>(name: &str, otherwise: T) -> T {
    let text = env::var(name).ok();
    text.map_or(otherwise, |text| text.parse().unwrap_or_else(|error| panic!("{name}: {error}")))
}

#[test]
fn damaged_logs_are_accounted_for_in_any_blocks() {
    let sources = sources();
    let first: u64 = wanted("SEATRIAL_FUZZ_SEED", 1);
    let cases: u64 = wanted("SEATRIAL_FUZZ_CASES", CASES);
    let mut statements = 0;
    for seed in first..first + cases {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed, &sources)));
        statements += outcome.unwrap_or_else(|_| panic!("SEATRIAL_FUZZ_SEED={seed} fails"));
        if (seed + 1 - first).is_multiple_of(1_000_000) {
            println!("{} cases, {statements} statements", seed + 1 - first);
        }
    }
    let is_much = cases < 1_000 || statements > cases / 2;
    assert!(is_much, "{statements} statements in {cases} cases: too few to matter");
}
