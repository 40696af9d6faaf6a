//! Passes over the records of a trace of any format.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use super::blktrace::{self, TraceEvents};
use super::error::ForeignError;
use super::fields::SECOND_NS;
use super::fio_iolog::{self, LogLine};
use super::format::{Format, KnownFields, is_heading};
use super::input;
use super::left_out::OmissionCounts;
use super::lines::{LINE_BYTES_MAX, Lines};
use super::oracle_general::{self, ObjectOffsets};
use super::row::Row;
use super::vscsi::Version;
use super::{alibaba, arc, msr, spc, tencent, vscsi, vscsi_text};

/// Latest time of a trace; sums of earlier ones do not overflow.
const AT_NS_MAX: u64 = u64::MAX / 2 + u64::MAX / 4;
/// Longest time of a request; the sum of two does not overflow.
const TIME_NS_MAX: u64 = i64::MAX as u64 / 4;
const LENGTH_BYTES_MAX: u64 = u32::MAX as u64;

/// Receives the records of a pass.
type Sink<'a> = &'a mut dyn FnMut(Row<'_>) -> Result<(), String>;

/// Why a pass ends early: a record at a position is malformed, or the file cannot be read.
enum Fault {
    Record(String, String),
    Io(io::Error),
}

/// A trace that can be read several times.
pub struct TracePasses {
    path: PathBuf,
    files: Vec<PathBuf>,
    /// The format.
    pub format: Format,
    /// Records that the last pass left out.
    pub left_out: OmissionCounts,
    events: Option<TraceEvents>,
    object_offsets: ObjectOffsets,
    knows: KnownFields,
}

impl TracePasses {
    /// Opens a trace, of a format or of the one that its beginning fits.
    pub fn open(path: &Path, format: Option<Format>) -> Result<TracePasses, ForeignError> {
        let io_error = |error| ForeignError::Io { path: path.into(), error };
        let (beginning, file_bytes) = input::beginning(path).map_err(io_error)?;
        let unknown = || ForeignError::UnknownFormat { path: path.into() };
        let format =
            format.or_else(|| Format::detected(&beginning, file_bytes)).ok_or_else(unknown)?;
        let files = match format {
            Format::Blktrace => input::of_all_processors(path),
            _ => vec![path.into()],
        };
        Ok(TracePasses {
            path: path.into(),
            files,
            format,
            left_out: OmissionCounts::default(),
            events: None,
            object_offsets: ObjectOffsets::default(),
            knows: format.knows(),
        })
    }

    /// Returns how many files the trace has.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Returns the fields that this trace has, after a pass: a log of fio may have times or none.
    pub fn knows(&self) -> KnownFields {
        self.knows
    }

    /// Returns the Unix time of a time of the trace, where it is known.
    pub fn unix_ns(&self, at_ns: u64) -> Option<u64> {
        match self.format {
            Format::Msr => at_ns.checked_sub(msr::EPOCH_S * SECOND_NS),
            Format::Alibaba | Format::Tencent => Some(at_ns),
            Format::Blktrace => self.events.as_ref()?.epoch_unix_ns?.checked_add(at_ns),
            _ => None,
        }
    }

    /// Passes every request to the sink once.
    pub fn run(&mut self, sink: Sink<'_>) -> Result<(), ForeignError> {
        let mut left_out = OmissionCounts::default();
        let mut too_long = 0;
        let mut checked = |row: Row<'_>| {
            let longest_ns = row.queue_ns.max(row.device_ns).unwrap_or(0);
            if row.at_ns > AT_NS_MAX || longest_ns > TIME_NS_MAX {
                return Err("a time is too large".to_string());
            }
            if row.length_bytes > LENGTH_BYTES_MAX {
                too_long += 1;
                return Ok(());
            }
            sink(row)
        };
        let passed = self.pass(&mut left_out, &mut checked);
        left_out.count("requests of 4 GiB or more", too_long);
        self.left_out = left_out;
        passed.map_err(|fault| match fault {
            Fault::Io(error) => ForeignError::Io { path: self.path.clone(), error },
            Fault::Record(position, problem) => ForeignError::Record {
                path: self.path.clone(),
                position,
                problem,
                format: self.format,
            },
        })
    }

    fn pass(&mut self, left_out: &mut OmissionCounts, sink: Sink<'_>) -> Result<(), Fault> {
        if self.format == Format::Blktrace {
            return self.blktrace(left_out, sink);
        }
        let mut file = input::open(&self.path).map_err(Fault::Io)?;
        match self.format {
            Format::Vscsi => {
                self.knows.device = vscsi_records(&mut *file, left_out, sink)?;
                Ok(())
            }
            Format::OracleGeneral => {
                self.object_offsets.begin();
                records(&mut *file, oracle_general::RECORD_BYTES, &mut |record| {
                    sink(self.object_offsets.parse(record)?)
                })
            }
            Format::FioIolog => {
                self.knows.time = fio_lines(&mut *file, left_out, sink)?;
                Ok(())
            }
            format => text_lines(format, &mut *file, left_out, sink),
        }
    }

    fn blktrace(&mut self, left_out: &mut OmissionCounts, sink: Sink<'_>) -> Result<(), Fault> {
        if self.events.is_none() {
            let mut events = TraceEvents::default();
            for path in &self.files {
                blktrace_records(path, &mut events)?;
            }
            events.sort();
            self.events = Some(events);
        }
        let Some(events) = &self.events else { return Ok(()) };
        events.rows(left_out, sink).map_err(|problem| Fault::Record("a request".into(), problem))
    }
}

fn blktrace_records(path: &Path, events: &mut TraceEvents) -> Result<(), Fault> {
    let mut file = input::open(path).map_err(Fault::Io)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (mut record, mut following) = ([0; blktrace::RECORD_BYTES], Vec::new());
    let mut at_bytes: u64 = 0;
    let at = |at_bytes: u64| format!("{name}, byte {at_bytes}");
    while input::read_record(&mut *file, &mut record)
        .map_err(|error| record_fault(error, &at(at_bytes)))?
    {
        let follow = blktrace::follow_bytes(&record)
            .map_err(|problem| Fault::Record(at(at_bytes), problem))?;
        following.resize(follow, 0);
        file.read_exact(&mut following).map_err(|error| record_fault(error, &at(at_bytes)))?;
        events.add(&record, &following);
        at_bytes += (blktrace::RECORD_BYTES + follow) as u64;
    }
    Ok(())
}

/// Reads records of a fixed length.
fn records(
    file: &mut dyn BufRead,
    record_bytes: usize,
    take: &mut dyn FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), Fault> {
    let mut record = vec![0; record_bytes];
    let mut at_bytes: u64 = 0;
    let at = |at_bytes: u64| format!("byte {at_bytes}");
    while input::read_record(file, &mut record)
        .map_err(|error| record_fault(error, &at(at_bytes)))?
    {
        take(&record).map_err(|problem| Fault::Record(at(at_bytes), problem))?;
        at_bytes += record_bytes as u64;
    }
    Ok(())
}

fn record_fault(error: io::Error, position: &str) -> Fault {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Fault::Record(position.to_string(), "the file ends within the record".to_string())
        }
        _ => Fault::Io(error),
    }
}

/// Reads the requests of a binary vscsi trace; returns whether it has response times.
fn vscsi_records(
    file: &mut dyn BufRead,
    left_out: &mut OmissionCounts,
    sink: Sink<'_>,
) -> Result<bool, Fault> {
    let beginning = file.fill_buf().map_err(Fault::Io)?;
    if beginning.is_empty() {
        return Ok(false);
    }
    let Some(version) = Version::of(beginning) else {
        let problem = "the first records bear neither version 1 nor version 2";
        return Err(Fault::Record("byte 0".to_string(), problem.to_string()));
    };
    records(file, version.record_bytes(), &mut |record| match vscsi::parse(record, version)? {
        Some(row) => sink(row),
        None => {
            left_out.count("commands that transfer nothing", 1);
            Ok(())
        }
    })?;
    Ok(version == Version::Two)
}

/// Returns the next line with its number; None at the end.
fn next_line<'a>(lines: &'a mut Lines<'_>) -> Result<Option<(&'a [u8], u64)>, Fault> {
    let next = lines.number + 1;
    lines.next_line().map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Fault::Record(
            format!("line {next}"),
            format!("the line is longer than {LINE_BYTES_MAX} bytes"),
        ),
        _ => Fault::Io(error),
    })
}

fn text_lines(
    format: Format,
    file: &mut dyn BufRead,
    left_out: &mut OmissionCounts,
    sink: Sink<'_>,
) -> Result<(), Fault> {
    let mut lines = Lines::new(file);
    let (mut has_heading, mut taken) = (false, 0);
    let mut name = Vec::new();
    let mut is_first = true;
    while let Some((line, number)) = next_line(&mut lines)? {
        if std::mem::take(&mut is_first) && is_heading(line) {
            has_heading = line == vscsi_text::HEADING;
            continue;
        }
        let row = match format {
            Format::Msr => msr::parse(line, &mut name).map(Some),
            Format::Alibaba => alibaba::parse(line).map(Some),
            Format::Tencent => tencent::parse(line).map(Some),
            Format::VscsiText => vscsi_text::parse(line, has_heading),
            Format::Arc => arc::parse(line, taken).map(Some),
            _ => spc::parse(line).map(Some),
        };
        let fault = |problem| Fault::Record(format!("line {number}"), problem);
        match row.map_err(fault)? {
            Some(row) => sink(row).map_err(fault)?,
            None => left_out.count("commands that transfer nothing", 1),
        }
        taken += 1;
    }
    Ok(())
}

/// Reads the requests of a log of fio; returns whether it has times.
fn fio_lines(
    file: &mut dyn BufRead,
    left_out: &mut OmissionCounts,
    sink: Sink<'_>,
) -> Result<bool, Fault> {
    let mut lines = Lines::new(file);
    let is_third = match next_line(&mut lines)? {
        None => return Ok(false),
        Some((fio_iolog::HEADING_2, _)) => false,
        Some((fio_iolog::HEADING_3, _)) => true,
        Some(_) => {
            let problem = "the heading is neither `fio version 2 iolog` nor that of version 3";
            return Err(Fault::Record("line 1".to_string(), problem.to_string()));
        }
    };
    let (mut now_ns, mut has_waits) = (0_u64, false);
    while let Some((line, number)) = next_line(&mut lines)? {
        let fault = |problem| Fault::Record(format!("line {number}"), problem);
        let parsed =
            if is_third { fio_iolog::parse_3(line) } else { fio_iolog::parse_2(line, now_ns) };
        match parsed.map_err(fault)? {
            LogLine::Request(row) => {
                sink(row).map_err(fault)?;
                now_ns = now_ns.saturating_add(if has_waits { 0 } else { arc::APART_NS });
            }
            LogLine::Action => left_out.count("actions on files: add, open, close", 1),
            LogLine::Wait(wait_ns) => {
                has_waits = true;
                now_ns = now_ns.saturating_add(wait_ns);
            }
        }
    }
    Ok(is_third || has_waits)
}
