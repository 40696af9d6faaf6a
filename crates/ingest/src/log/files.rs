//! Files of a log: what each is, in which order they come, and what packs them.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use seatrial_sqltext::statements;

use super::csv::Csv;
use super::guess;
use super::json::Json;
use super::message::Said;
use super::prefix::Prefix;
use super::record::{BlockContent, LogReader, Record};
use super::stderr::Stderr;
use super::{Format, LogError, Wanted};

/// Standard input, as it is named.
const STANDARD_INPUT: &str = "-";

/// What of a file is looked at to see what it is. Where it begins inside a very long statement
/// more is read, up to the second figure.
const HEAD_BYTES: usize = 64 << 10;
const HEAD_BYTES_MAX: usize = 64 << 20;

/// What is read of a packed file at once.
const PACKED_BYTES: usize = 256 << 10;

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// As it was given.
    pub path: PathBuf,
    /// Its size on disk; 0 for standard input.
    pub size_bytes: u64,
    /// Its size unpacked.
    pub log_bytes: u64,
    /// What it is.
    pub format: Format,
    /// The `log_line_prefix` that it was read with; empty for other formats.
    pub prefix: String,
    /// Whether format or prefix were detected from its content.
    pub is_guessed: bool,
}

/// A file whose format is known.
pub struct Known {
    /// The file as reported.
    pub file: LogFile,
    /// What reads it; None for a file of SQL.
    pub reader: Option<Box<dyn LogReader>>,
    /// What its prefix lacks.
    pub prefix: Option<Prefix>,
    /// The time of its first record.
    first_us: Option<i64>,
    /// Whether the records of statements at its beginning include their durations.
    pub has_durations: bool,
    /// Whether its lines end in CR and LF.
    pub is_of_windows: bool,
    /// Standard input, of which the beginning was read.
    source: Option<Box<dyn Read + Send>>,
}

impl Known {
    /// Opens it to be read from its beginning.
    ///
    /// # Errors
    ///
    /// When the system does not let it be opened.
    pub fn open(&mut self) -> Result<Box<dyn Read + Send>, LogError> {
        match self.source.take() {
            Some(source) => Ok(source),
            None => open(&self.file.path),
        }
    }

    /// Whether it is standard input.
    pub fn is_standard_input(&self) -> bool {
        self.file.path == Path::new(STANDARD_INPUT)
    }

    /// A file that is nowhere but in memory.
    #[cfg(test)]
    pub fn in_memory(bytes: &[u8], format: Format, prefix: &str) -> Known {
        let reader = reader(format, prefix, false);
        let file = LogFile {
            path: PathBuf::new(),
            size_bytes: 0,
            log_bytes: 0,
            format,
            prefix: prefix.to_owned(),
            is_guessed: false,
        };
        let source: Box<dyn Read + Send> = Box::new(io::Cursor::new(bytes.to_vec()));
        Known {
            file,
            reader,
            prefix: None,
            first_us: None,
            has_durations: false,
            is_of_windows: false,
            source: Some(source),
        }
    }
}

/// What reads a format; None for a file of SQL.
pub fn reader(format: Format, prefix: &str, is_of_windows: bool) -> Option<Box<dyn LogReader>> {
    match format {
        Format::Csv => Some(Box::new(Csv::new(is_of_windows))),
        Format::Json => Some(Box::new(Json)),
        Format::Stderr => Some(Box::new(Stderr::new(Prefix::new(prefix), is_of_windows))),
        Format::Raw => None,
    }
}

/// Looks at all files, and puts them in the order of their first times. Empty ones are left out.
///
/// # Errors
///
/// When one cannot be read, is of no known format, or they are not one log.
pub fn look(wanted: &Wanted) -> Result<Vec<Known>, LogError> {
    let mut known = Vec::new();
    let mut seen: Vec<(PathBuf, PathBuf)> = Vec::new();
    for path in &wanted.paths {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        if seen.iter().any(|(_, other)| *other == real) {
            return Err(LogError::Twice { path: path.clone() });
        }
        seen.push((path.clone(), real));
        known.extend(look_at(path, wanted)?);
    }
    let Some(first) = known.first() else {
        return Err(LogError::Empty { path: wanted.paths.first().cloned().unwrap_or_default() });
    };
    let format = first.file.format;
    if let Some(other) = known.iter().find(|known| known.file.format != format) {
        return Err(LogError::Mixed {
            path: first.file.path.clone(),
            format,
            other: other.file.path.clone(),
            other_format: other.file.format,
        });
    }
    if known.iter().all(|known| known.first_us.is_some()) {
        known.sort_by_key(|known| known.first_us);
    }
    Ok(known)
}

/// Looks at the beginning of a file; None where it is empty.
fn look_at(path: &Path, wanted: &Wanted) -> Result<Option<Known>, LogError> {
    let size_bytes = match path.metadata() {
        Ok(metadata) if path != Path::new(STANDARD_INPUT) => metadata.len(),
        _ => 0,
    };
    let mut source = open(path)?;
    let mut head = Vec::new();
    let mut head_bytes = HEAD_BYTES;
    let mut known = loop {
        let want = (head_bytes - head.len()) as u64;
        let read = source.by_ref().take(want).read_to_end(&mut head);
        let read = read.map_err(|source| LogError::Io { path: path.to_path_buf(), source })?;
        if head.is_empty() {
            return Ok(None);
        }
        let is_all = (read as u64) < want;
        match detect(path, &head, wanted) {
            Some(known) => break known,
            None if is_all || head_bytes >= HEAD_BYTES_MAX => {
                return Err(unknown_format(path, &head, wanted));
            }
            None => head_bytes *= 8,
        }
    };
    known.file.size_bytes = size_bytes;
    if path == Path::new(STANDARD_INPUT) {
        known.source = Some(Box::new(io::Cursor::new(head).chain(source)));
    }
    Ok(Some(known))
}

/// Detects what a file is, from the options and its beginning.
fn detect(path: &Path, head: &[u8], wanted: &Wanted) -> Option<Known> {
    let format = wanted.format.or_else(|| guess_format(path, head, wanted))?;
    let mut fits = true;
    let prefix = match (format, &wanted.prefix) {
        (Format::Stderr, Some(text)) => Some(Prefix::new(text)),
        (Format::Stderr, None) => Some(guess::guess(head)?.prefix),
        _ => None,
    };
    let is_of_windows = is_of_windows(head);
    let reader = reader(format, prefix.as_ref().map_or("", Prefix::text), is_of_windows);
    let first = reader.as_ref().and_then(|reader| {
        let at = reader.first_record(head);
        fits = at.is_some();
        Some(Beginning::of(reader.as_ref(), &head[at?..]))
    });
    let Beginning { first_us, has_durations } = first.unwrap_or_default();
    let is_guessed = match format {
        Format::Stderr => wanted.prefix.is_none(),
        _ => wanted.format.is_none(),
    };
    let file = LogFile {
        path: path.to_path_buf(),
        size_bytes: 0,
        log_bytes: 0,
        format,
        prefix: prefix.as_ref().map(|prefix| prefix.text().to_owned()).unwrap_or_default(),
        is_guessed,
    };
    let source = None;
    let known = Known { file, reader, prefix, first_us, has_durations, is_of_windows, source };
    fits.then_some(known)
}

fn guess_format(path: &Path, head: &[u8], wanted: &Wanted) -> Option<Format> {
    if wanted.prefix.is_some() {
        return Some(Format::Stderr);
    }
    let readers: [(Format, &dyn LogReader); 2] =
        [(Format::Json, &Json), (Format::Csv, &Csv::new(false))];
    for (format, reader) in readers {
        let at = reader.first_record(head);
        if at.is_some_and(|at| Beginning::of(reader, &head[at..]).first_us.is_some()) {
            return Some(format);
        }
    }
    if guess::guess(head).is_some() {
        return Some(Format::Stderr);
    }
    is_sql(path, head).then_some(Format::Raw)
}

/// Whether each line that is whole ends as on Windows, where PostgreSQL puts a CR before each line
/// end, those inside of statements among them.
fn is_of_windows(head: &[u8]) -> bool {
    let mut ends = memchr::memchr_iter(b'\n', head).peekable();
    ends.peek().is_some() && ends.all(|end| end > 0 && head[end - 1] == b'\r')
}

/// Whether a file is of SQL, by its name or its first word.
fn is_sql(path: &Path, head: &[u8]) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
    if name.is_some_and(|name| name.split('.').skip(1).any(|part| part == "sql")) {
        return true;
    }
    statements::begins_statement(head)
}

/// What is known from the first records of a file.
#[derive(Debug, Clone, Copy, Default)]
struct Beginning {
    /// The first time.
    first_us: Option<i64>,
    has_durations: bool,
}

impl Beginning {
    fn of(reader: &dyn LogReader, head: &[u8]) -> Beginning {
        let mut found = BlockContent::default();
        reader.read(&mut head.to_vec(), true, &mut found);
        let is_timed = |record: &Record| {
            let is_named = matches!(record.message.said, Said::Statement | Said::Execute);
            is_named && record.message.duration_us.is_some()
        };
        Beginning {
            first_us: found.records.iter().find_map(|record| record.origin.time_us),
            has_durations: found.records.iter().any(is_timed),
        }
    }
}

fn unknown_format(path: &Path, head: &[u8], wanted: &Wanted) -> LogError {
    let line = head.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    let line = String::from_utf8_lossy(line.unwrap_or_default()).chars().take(200).collect();
    let path = path.to_path_buf();
    match (&wanted.prefix, wanted.format) {
        (Some(prefix), _) => LogError::PrefixMismatch { path, prefix: prefix.clone(), line },
        (None, Some(Format::Stderr)) | (None, None) => LogError::UnknownFormat { path, line },
        (None, Some(format)) => LogError::FormatMismatch { path, format, line },
    }
}

/// Whether a file has to be unpacked.
///
/// # Errors
///
/// When it cannot be read.
pub fn is_packed(path: &Path) -> Result<bool, LogError> {
    let io_error = |source| LogError::Io { path: path.to_path_buf(), source };
    let mut magic = Vec::new();
    File::open(path).map_err(io_error)?.take(4).read_to_end(&mut magic).map_err(io_error)?;
    Ok(is_gzip(&magic) || is_zstd(&magic))
}

fn is_gzip(magic: &[u8]) -> bool {
    magic.starts_with(&[0x1f, 0x8b])
}

fn is_zstd(magic: &[u8]) -> bool {
    magic == [0x28, 0xb5, 0x2f, 0xfd]
}

/// Opens a file, unpacked if need be: gzip and zstd are known by their first bytes.
///
/// # Errors
///
/// When the system does not let it be opened.
pub fn open(path: &Path) -> Result<Box<dyn Read + Send>, LogError> {
    let io_error = |source| LogError::Io { path: path.to_path_buf(), source };
    let mut plain: Box<dyn Read + Send> = if path == Path::new(STANDARD_INPUT) {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(io_error)?)
    };
    let mut magic = Vec::new();
    plain.by_ref().take(4).read_to_end(&mut magic).map_err(io_error)?;
    let (is_gzip, is_zstd) = (is_gzip(&magic), is_zstd(&magic));
    let whole = io::Cursor::new(magic).chain(plain);
    Ok(if is_gzip {
        let packed = BufReader::with_capacity(PACKED_BYTES, whole);
        Box::new(flate2::bufread::MultiGzDecoder::new(packed))
    } else if is_zstd {
        let packed = BufReader::with_capacity(PACKED_BYTES, whole);
        Box::new(zstd::stream::read::Decoder::with_buffer(packed).map_err(io_error)?)
    } else {
        Box::new(whole)
    })
}
