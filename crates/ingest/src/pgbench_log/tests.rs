//! Logs made by hand and by chance.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use seatrial_gauge::Histogram;
use tempfile::TempDir;

use super::*;

/// 2026-11-21, in us.
const START_US: u64 = 1_795_219_200_000_000;
const MS: u64 = 1_000;

/// Logs in a folder of their own.
struct Logs {
    folder: TempDir,
    spec: LogSpec,
}

impl Logs {
    /// One process a row, one file a text.
    fn new(processes: &[&[String]]) -> Logs {
        let folder = TempDir::new().unwrap();
        let write = |process: usize, thread: usize, text: &String| {
            let path: PathBuf = folder.path().join(format!("log-{process}.{thread}"));
            fs::write(&path, text).unwrap();
            path
        };
        let each = processes.iter().enumerate().map(|(process, texts)| {
            texts.iter().enumerate().map(|(thread, text)| write(process, thread, text)).collect()
        });
        let processes = each.collect();
        let spec = LogSpec {
            processes,
            scripts: vec!["transaction".to_owned()],
            has_lag: false,
            has_retries: false,
            start_unix_ns: Some(START_US * 1_000),
            duration_ns: None,
            slice_ms: 100,
            stall_threshold_ms: 50,
        };
        Logs { folder, spec }
    }

    fn one(text: &str) -> Logs {
        Logs::new(&[&[text.to_owned()]])
    }

    fn with(mut self, change: impl FnOnce(&mut LogSpec)) -> Logs {
        change(&mut self.spec);
        self
    }

    fn read(&self) -> LogSample {
        read(&self.spec).unwrap()
    }

    fn error(&self) -> String {
        let sentence = read(&self.spec).unwrap_err().to_string();
        sentence.replace(&*self.folder.path().to_string_lossy(), "")
    }
}

/// A line of a transaction that ended this many us after the start.
fn line(client: u32, time: impl std::fmt::Display, end_us: u64) -> String {
    let at_us = START_US + end_us;
    format!("{client} 1 {time} 0 {} {}\n", at_us / 1_000_000, at_us % 1_000_000)
}

/// Lines of transactions: (client, length in ms, end in ms).
fn lines(transactions: &[(u32, u64, u64)]) -> String {
    transactions.iter().map(|&(client, ms, end_ms)| line(client, ms * MS, end_ms * MS)).collect()
}

/// (start in ms, length in ms, depth) of each stall.
fn stalls_ms(sample: &LogSample) -> Vec<(u64, u64, u32)> {
    let ms = |ns: u64| ns / 1_000_000;
    sample.stalls.kept.iter().map(|s| (ms(s.start_ns), ms(s.length_ns), s.depth())).collect()
}

fn pooled(rows: &[SliceRow], kind: usize) -> Histogram {
    let mut pooled = Histogram::new();
    for row in rows.iter().filter(|row| row.kind == kind) {
        pooled.merge(&Histogram::decode(&row.response).unwrap());
    }
    pooled
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Transactions of some threads of some processes, each thread in order of time.
    #[test]
    fn totals_are_the_sums_of_the_lines(
        threads in proptest::collection::vec(
            (0usize..3, proptest::collection::vec(
                (0u32..4, 0u64..400_000, 0u64..100_000, 0u32..2, 0u8..10), 0..80)),
            1..6),
    ) {
        let mut texts: Vec<Vec<String>> = vec![Vec::new(); 3];
        let (mut latencies, mut lags, mut ends) = ([Vec::new(), Vec::new()], 0u128, Vec::new());
        let (mut failed, mut skipped, mut retries) = (0, 0, 0);
        for (process, transactions) in &threads {
            let (mut text, mut end_us) = (String::new(), 1_000_000);
            for &(client, step_us, lag_us, script, choice) in transactions {
                end_us += step_us;
                let latency_us = lag_us + step_us / 2;
                let (time, lag_us) = match choice {
                    0 => { failed += 1; ("deadlock".to_owned(), 0) }
                    1 => { skipped += 1; ("skipped".to_owned(), 0) }
                    _ => {
                        latencies[script as usize].push(latency_us * 1_000);
                        lags += u128::from(lag_us);
                        (latency_us.to_string(), lag_us)
                    }
                };
                retries += u64::from(choice);
                ends.push(end_us);
                let at_us = START_US + end_us;
                let (s, us) = (at_us / 1_000_000, at_us % 1_000_000);
                text += &format!("{client} 7 {time} {script} {s} {us} {lag_us} {choice}\n");
            }
            texts[*process].push(text);
        }
        texts[0].push(String::new());
        let rows: Vec<&[String]> = texts.iter().map(Vec::as_slice).collect();
        let sample = Logs::new(&rows)
            .with(|spec| {
                spec.scripts = vec!["ingest".to_owned(), "query".to_owned()];
                (spec.has_lag, spec.has_retries) = (true, true);
            })
            .read();
        let completed = (latencies[0].len() + latencies[1].len()) as u64;
        prop_assert_eq!(sample.outcome, Outcome {
            offered: ends.len() as u64, completed, failed, late_skipped: skipped,
            in_flight_at_end: 0,
        });
        let sum_ns: u128 = latencies.iter().flatten().map(|&ns| u128::from(ns)).sum();
        let total = &sample.total;
        prop_assert_eq!(total.transactions, completed);
        prop_assert_eq!(total.latency_us_sum * 1_000, sum_ns);
        prop_assert_eq!(total.lag_us_sum, lags);
        prop_assert_eq!((total.retries, total.failed, total.skipped), (retries, failed, skipped));
        prop_assert_eq!(total.last_end_unix_us, ends.iter().max().map(|us| START_US + us));
        let parts = &sample.processes;
        prop_assert_eq!(parts.iter().map(|part| part.transactions).sum::<u64>(), completed);
        for (kind, wanted) in latencies.iter().enumerate() {
            let mut exact = Histogram::new();
            wanted.iter().for_each(|&ns| exact.record(ns));
            let kept = &sample.kinds[kind];
            prop_assert_eq!(&kept.response, &exact);
            prop_assert_eq!(kept.service.entries(), wanted.len() as u64);
            prop_assert_eq!(&pooled(&sample.slices, kind), &exact);
        }
        prop_assert_eq!((sample.truncated_lines, sample.disordered_lines), (0, 0));
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let logs = Logs::one("");
        fs::write(&logs.spec.processes[0][0], bytes).unwrap();
        let _ = read(&logs.spec);
    }

    #[test]
    fn any_words_are_survived(
        words in proptest::collection::vec("[0-9]{1,21}|skipped|deadlock|-1|é|", 0..9),
        has_lag in any::<bool>(),
    ) {
        let text = format!("{}\n", words.join(" "));
        let logs = Logs::one(&text).with(|spec| spec.has_lag = has_lag);
        if let Err(error) = read(&logs.spec) {
            prop_assert!(error.to_string().contains("line 1: "), "{error}");
        }
    }
}

#[test]
fn a_time_without_an_end_while_transactions_are_in_progress_is_a_stall() {
    let both = [(0, 5, 5), (1, 8, 8), (0, 300, 305), (1, 298, 306), (0, 2, 307)];
    let sample = Logs::one(&lines(&both)).read();
    assert_eq!(stalls_ms(&sample), [(8, 297, 2)]);
}

#[test]
fn the_end_of_a_transaction_in_another_file_ends_a_stall() {
    let slow = lines(&[(0, 10, 10), (0, 200, 210)]);
    let other = lines(&[(1, 12, 12), (1, 88, 100), (1, 110, 210)]);
    let apart = Logs::new(&[&[slow.clone(), other.clone()]]).read();
    assert_eq!(stalls_ms(&apart), [(12, 88, 2), (100, 110, 2)]);
    // The same client numbers, in another process.
    let same = other.replace("1 1 ", "0 1 ");
    assert_eq!(stalls_ms(&Logs::new(&[&[slow], &[same]]).read()), stalls_ms(&apart));
}

#[test]
fn a_transaction_that_lasts_through_several_stalls_is_in_each_of_them() {
    let text = lines(&[(0, 100, 100), (0, 100, 200), (0, 1, 201), (0, 99, 300), (1, 250, 300)]);
    assert_eq!(stalls_ms(&Logs::one(&text).read()), [(0, 100, 2), (100, 100, 2), (201, 99, 2)]);
}

#[test]
fn idle_clients_are_no_stall() {
    let text = lines(&[(0, 1, 10), (0, 1, 500), (0, 70, 900)]);
    let idle = Logs::one(&text).read();
    assert_eq!(stalls_ms(&idle), [(830, 70, 1)], "only while it was in progress");
    let late =
        Logs::one(&lines(&[(0, 1, 10)])).with(|spec| spec.duration_ns = Some(10_000_000_000));
    assert_eq!(stalls_ms(&late.read()), [], "nothing was in progress at the end");
}

#[test]
fn the_first_transaction_may_stall_from_its_start() {
    let sample = Logs::one(&lines(&[(0, 80, 100)])).read();
    assert_eq!(stalls_ms(&sample), [(20, 80, 1)]);
}

/// Due at 20 ms, started at 300 ms, because its client was not free or was stopped.
#[test]
fn a_transaction_that_is_due_counts_as_in_progress() {
    let text = "0 1 5000 0 1795219200 10000 0\n0 2 290000 0 1795219200 310000 280000\n";
    let sample = Logs::one(text).with(|spec| spec.has_lag = true).read();
    assert_eq!(stalls_ms(&sample), [(20, 290, 1)]);
    let kind = &sample.kinds[0];
    assert_eq!((kind.response.max_ns(), kind.service.max_ns()), (290_000_000, 10_000_000));
    assert_eq!((sample.total.lag_us_sum, sample.total.lag_us_max), (280_000, 280_000));
}

#[test]
fn a_failed_transaction_ends_a_stall_and_was_in_progress_in_a_closed_loop() {
    let text = line(0, 1_000, 10 * MS) + &line(0, "serialization", 200 * MS);
    let closed = Logs::one(&text).read();
    assert_eq!(stalls_ms(&closed), [(10, 190, 1)]);
    let failure = closed.failures[0];
    assert_eq!((failure.reason.name(), failure.at_ns), ("serialization", 200_000_000));
    let scheduled = Logs::one(&text.replace('\n', " 0\n")).with(|spec| spec.has_lag = true);
    assert_eq!(stalls_ms(&scheduled.read()), [], "when it began is not known");
}

#[test]
fn skipped_transactions_neither_end_a_stall_nor_are_in_it() {
    let text = line(0, 1_000, 10 * MS)
        + &line(1, "skipped", 100 * MS)
        + &line(0, 190 * MS, 200 * MS)
        + &line(0, "skipped", 200 * MS);
    let text = text.replace('\n', " 0\n");
    let sample = Logs::one(&text).with(|spec| spec.has_lag = true).read();
    assert_eq!(stalls_ms(&sample), [(10, 190, 1)]);
    assert_eq!((sample.outcome.late_skipped, sample.outcome.completed), (2, 2));
}

#[test]
fn many_stalls_are_counted_when_they_are_no_longer_kept() {
    let usual = (1..=1_200).map(|number| (0, 60, number * 60));
    let each: Vec<(u32, u64, u64)> = usual.chain([(0, 500, 72_500)]).collect();
    let sample = Logs::one(&lines(&each)).read();
    assert_eq!((sample.stalls.kept.len(), sample.stalls.dropped), (1_000, 201));
    assert_eq!(stalls_ms(&sample).last(), Some(&(72_000, 500, 1)), "the longest are kept");
}

#[test]
fn without_a_start_the_earliest_intended_one_is_it() {
    let text = lines(&[(0, 10, 1_000), (0, 10, 1_100), (1, 700, 1_200)]);
    let sample = Logs::one(&text).with(|spec| spec.start_unix_ns = None).read();
    assert_eq!(sample.start_unix_ns, (START_US + 500 * MS) * 1_000);
    assert_eq!(sample.duration_ns, 700_000_000);
    assert_eq!(sample.slices.iter().map(|row| row.index).collect::<Vec<_>>(), [5, 6, 7]);
    assert_eq!(
        (sample.total.clients, sample.total.first_start_unix_us),
        (2, Some(START_US + 500 * MS))
    );
}

#[test]
fn a_transaction_that_ended_before_the_start_counts_in_the_first_slice() {
    let text = line(0, 10, 0) + &line(0, 10, 950 * MS);
    let start_ns = (START_US + 900 * MS) * 1_000;
    let sample = Logs::one(&text).with(|spec| spec.start_unix_ns = Some(start_ns)).read();
    let slices: Vec<_> = sample.slices.iter().map(|row| (row.index, row.completed)).collect();
    assert_eq!((slices, sample.outcome.completed), (vec![(0, 2)], 2));
}

#[test]
fn scripts_of_the_same_operation_are_one_kind() {
    let text = (0..4).map(|script| format!("0 1 5 {script} 1795219200 {script}\n"));
    let names = ["ingest", "query", "ingest", "batch"];
    let sample = Logs::one(&text.collect::<String>())
        .with(|spec| spec.scripts = names.map(str::to_owned).to_vec())
        .read();
    assert_eq!(sample.kind_names, ["ingest", "query", "batch"]);
    let completed: Vec<u64> = sample.kinds.iter().map(|kind| kind.completed).collect();
    assert_eq!(completed, [2, 1, 1]);
}

#[test]
fn a_log_without_transactions_says_zero() {
    let sample = Logs::one("").with(|spec| spec.start_unix_ns = None).read();
    assert_eq!((sample.outcome.offered, sample.duration_ns, sample.start_unix_ns), (0, 0, 0));
    assert_eq!(sample.total.first_start_unix_us, None);
}

#[test]
fn a_line_that_was_cut_off_is_counted() {
    let whole = lines(&[(0, 1, 10), (0, 1, 12)]);
    let sample = Logs::new(&[&[whole[..whole.len() - 4].to_owned(), whole[..9].to_owned()]]).read();
    assert_eq!((sample.truncated_lines, sample.outcome.offered), (2, 1));
}

#[test]
fn lines_of_windows_are_read() {
    let text = lines(&[(0, 1, 10), (0, 1, 12)]).replace('\n', "\r\n");
    assert_eq!(Logs::one(&text).read().outcome.completed, 2);
}

/// A file larger than what is read at once, with lines across every boundary.
#[test]
fn a_long_file_is_read_piece_by_piece() {
    let each: Vec<(u32, u64, u64)> = (1..20_000).map(|ms| (ms as u32 % 7, 1, ms)).collect();
    let sample = Logs::one(&lines(&each)).read();
    assert_eq!((sample.outcome.completed, sample.total.clients), (19_999, 7));
    assert_eq!(sample.total.latency_us_sum, 19_999 * 1_000);
}

#[test]
fn a_clock_that_was_set_back_a_little_is_counted() {
    let text = lines(&[(0, 1, 100), (0, 1, 90), (0, 1, 110)]);
    let sample = Logs::one(&text).read();
    assert_eq!((sample.disordered_lines, sample.outcome.completed), (1, 3));
}

#[test]
fn files_put_together_are_refused_with_the_line() {
    let text = lines(&[(0, 1, 100), (0, 1, 2_000), (1, 1, 100), (1, 1, 2_000)]);
    let error = Logs::one(&text).error();
    assert!(error.starts_with("/log-0.0, line 3: \"1 1 1000 0 1795219200 100000\": "), "{error}");
    assert!(error.contains("1.900 s before the line above it"), "{error}");
}

#[test]
fn a_line_that_makes_no_sense_is_reported_with_its_place_and_why() {
    let good = line(0, 1_000, 10 * MS);
    let cases = [
        ("0 1 5 0 1795219200", "5 columns, where this run's log has 6"),
        ("0 1 5 0 1795219200 7 9", "7 columns"),
        ("0 1 5 0 1795219200 7 ", "7 columns"),
        ("", "1 columns"),
        ("0 1 x 0 1795219200 7", "\"x\" in column 3 is not a time in us"),
        ("0 1 -5 0 1795219200 7", "\"-5\" in column 3"),
        ("0 1 skippedx 0 1795219200 7", "\"skippedx\" in column 3"),
        ("0 1 5 1 1795219200 7", "script 1, where the run has 1"),
        ("1795219200 900 5000 70000 3 9", "script 70000"),
        ("1795219200 900 5000 0 3 9", "\"3\" in column 5 is not a Unix time"),
        ("0 1 5 0 1795219200 1000000", "a number is out of range"),
        ("9999999 1 5 0 1795219200 7", "a number is out of range"),
        ("a 1 5 0 1795219200 7", "\"a\" in column 1 is not a number"),
        ("0 99999999999999999999 5 0 1795219200 7", "in column 2 is not a number"),
    ];
    for (text, reason) in cases {
        let error = Logs::one(&format!("{good}{text}\n{good}")).error();
        assert!(error.starts_with("/log-0.0, line 2: "), "{error}");
        assert!(error.contains(&format!("{text:?}: ")), "{error}");
        assert!(error.contains(reason), "{error}");
    }
    let lag = Logs::one("0 1 5 0 1795219200 7 6\n").with(|spec| spec.has_lag = true).error();
    assert!(lag.contains("the schedule lag is longer than the whole transaction"), "{lag}");
    let endless = Logs::one(&"7".repeat(200_000)).error();
    assert!(endless.contains("no line's end in 131072 bytes") && endless.len() < 300, "{endless}");
}

#[test]
fn a_missing_file_is_reported_by_name() {
    let logs = Logs::one("").with(|spec| spec.processes[0].push("/nowhere/log.1".into()));
    assert!(logs.error().starts_with("/nowhere/log.1 cannot be read: "), "{}", logs.error());
}

#[test]
fn a_specification_is_checked() {
    let json = |processes: &str, scripts: &str, slice_ms: u64| {
        let head = format!("{{\"processes\": {processes}, \"scripts\": {scripts}, ");
        let text = format!("{head}\"slice_ms\": {slice_ms}, \"stall_threshold_ms\": 50}}");
        LogSpec::parse(&text).map_err(|error| error.to_string())
    };
    assert!(json("[[\"a\", \"b\"], [\"c\"]]", "[\"transaction\"]", 100).is_ok());
    for (found, fault) in [
        (json("[[]]", "[\"transaction\"]", 100), "0 files"),
        (json("[[\"a\"]]", "[]", 100), "0 scripts"),
        (json("[[\"a\"]]", "[\"\"]", 100), "without an operation name"),
        (json("[[\"a\"]]", "[\"x\"]", 0), "slice_ms is 0"),
        (json("7", "[\"x\"]", 1), "invalid type"),
    ] {
        assert!(found.clone().is_err_and(|error| error.contains(fault)), "{found:?}");
    }
}
