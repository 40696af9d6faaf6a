//! Files of a log: their formats, order and compression.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use seatrial_sqltext::statements;

use super::csv::Csv;
use super::guess;
use super::json::Json;
use super::message::MessageKind;
use super::prefix::Prefix;
use super::raw::BYTE_ORDER_MARK;
use super::record::{BlockContent, LogReader, Record};
use super::stderr::Stderr;
use super::{Format, LogError, ReadOptions};

/// Standard input, as it is named.
const STANDARD_INPUT: &str = "-";

/// Bytes of a file from which its format is detected. Where it begins inside a very long statement
/// more is read, up to the second figure.
const HEAD_BYTES: usize = 64 << 10;
const HEAD_BYTES_MAX: usize = 64 << 20;

/// Read size of compressed files.
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
    /// Its format.
    pub format: Format,
    /// The `log_line_prefix` that it was read with; empty for other formats.
    pub prefix: String,
    /// Whether format or prefix were detected from its content.
    pub is_guessed: bool,
}

/// A file whose format is known.
pub struct DetectedFile {
    /// The file as reported.
    pub file: LogFile,
    /// Its reader; None for a file of SQL.
    pub reader: Option<Box<dyn LogReader>>,
    /// The `log_line_prefix` of a plain log.
    pub prefix: Option<Prefix>,
    /// The time of its first record.
    first_us: Option<i64>,
    /// Whether the records of statements at its beginning include their durations.
    pub has_durations: bool,
    /// Whether its lines end in CR and LF.
    pub is_of_windows: bool,
    /// Standard input, whose first bytes were already read.
    source: Option<Box<dyn Read + Send>>,
}

impl DetectedFile {
    /// Opens the file at its beginning.
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

    /// A file in memory.
    #[cfg(test)]
    pub fn in_memory(bytes: &[u8], format: Format, prefix: &str) -> DetectedFile {
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
        DetectedFile {
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

/// Returns the reader of a format; None for a file of SQL.
pub fn reader(format: Format, prefix: &str, is_of_windows: bool) -> Option<Box<dyn LogReader>> {
    match format {
        Format::Csv => Some(Box::new(Csv::new(is_of_windows))),
        Format::Json => Some(Box::new(Json)),
        Format::Stderr => Some(Box::new(Stderr::new(Prefix::new(prefix), is_of_windows))),
        Format::Raw => None,
    }
}

/// Detects the formats of all files and sorts them by their first times. Empty ones are left out.
///
/// # Errors
///
/// When one cannot be read, is of no known format, or they are not one log.
pub fn look(options: &ReadOptions) -> Result<Vec<DetectedFile>, LogError> {
    let mut known = Vec::new();
    let mut real_paths: Vec<(PathBuf, PathBuf)> = Vec::new();
    for path in &options.paths {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        if real_paths.iter().any(|(_, other)| *other == real) {
            return Err(LogError::Duplicate { path: path.clone() });
        }
        real_paths.push((path.clone(), real));
        known.extend(look_at(path, options)?);
    }
    let Some(first) = known.first() else {
        return Err(LogError::Empty { path: options.paths.first().cloned().unwrap_or_default() });
    };
    let format = first.file.format;
    if let Some(other) = known.iter().find(|known| known.file.format != format) {
        return Err(LogError::MixedFormats {
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

/// Detects a file's format from its first bytes; None if it is empty.
fn look_at(path: &Path, options: &ReadOptions) -> Result<Option<DetectedFile>, LogError> {
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
        let read = read.map_err(LogError::io(path))?;
        if head.is_empty() {
            return Ok(None);
        }
        let is_all = (read as u64) < want;
        match detect(path, &head, options) {
            Some(known) => break known,
            None if is_all || head_bytes >= HEAD_BYTES_MAX => {
                return Err(unknown_format(path, &head, options));
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

/// Detects the format of a file from the options and its first bytes.
fn detect(path: &Path, head: &[u8], options: &ReadOptions) -> Option<DetectedFile> {
    let format = options.format.or_else(|| guess_format(path, head, options))?;
    let mut fits = true;
    let prefix = match (format, &options.prefix) {
        (Format::Stderr, Some(text)) => Some(Prefix::new(text)),
        (Format::Stderr, None) => Some(guess::guess(head)?.prefix),
        _ => None,
    };
    let is_of_windows = is_of_windows(head);
    let reader = reader(format, prefix.as_ref().map_or("", Prefix::text), is_of_windows);
    let first = reader.as_ref().and_then(|reader| {
        let at = reader.first_record(head);
        fits = at.is_some();
        Some(FirstRecords::of(reader.as_ref(), &head[at?..]))
    });
    let FirstRecords { first_us, has_durations } = first.unwrap_or_default();
    let is_guessed = match format {
        Format::Stderr => options.prefix.is_none(),
        _ => options.format.is_none(),
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
    let known =
        DetectedFile { file, reader, prefix, first_us, has_durations, is_of_windows, source };
    fits.then_some(known)
}

fn guess_format(path: &Path, head: &[u8], options: &ReadOptions) -> Option<Format> {
    if options.prefix.is_some() {
        return Some(Format::Stderr);
    }
    let readers: [(Format, &dyn LogReader); 2] =
        [(Format::Json, &Json), (Format::Csv, &Csv::new(false))];
    for (format, reader) in readers {
        let at = reader.first_record(head);
        if at.is_some_and(|at| FirstRecords::of(reader, &head[at..]).first_us.is_some()) {
            return Some(format);
        }
    }
    if guess::guess(head).is_some() {
        return Some(Format::Stderr);
    }
    is_sql(path, head).then_some(Format::Raw)
}

/// Whether every complete line ends as on Windows, where PostgreSQL puts a CR before each line
/// end, also inside of statements.
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
    statements::begins_statement(head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head))
}

/// What the first records of a file show.
#[derive(Debug, Clone, Copy, Default)]
struct FirstRecords {
    /// The first time.
    first_us: Option<i64>,
    has_durations: bool,
}

impl FirstRecords {
    fn of(reader: &dyn LogReader, head: &[u8]) -> FirstRecords {
        let mut content = BlockContent::default();
        reader.read(&mut head.to_vec(), true, &mut content);
        let is_timed = |record: &Record| {
            let is_named =
                matches!(record.message.kind, MessageKind::Statement | MessageKind::Execute);
            is_named && record.message.duration_us.is_some()
        };
        FirstRecords {
            first_us: content.records.iter().find_map(|record| record.origin.time_us),
            has_durations: content.records.iter().any(is_timed),
        }
    }
}

fn unknown_format(path: &Path, head: &[u8], options: &ReadOptions) -> LogError {
    let line = head.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    let line = String::from_utf8_lossy(line.unwrap_or_default()).chars().take(200).collect();
    let path = path.to_path_buf();
    match (&options.prefix, options.format) {
        (Some(prefix), _) => LogError::PrefixMismatch { path, prefix: prefix.clone(), line },
        (None, Some(Format::Stderr)) | (None, None) => LogError::UnknownFormat { path, line },
        (None, Some(format)) => LogError::FormatMismatch { path, format, line },
    }
}

/// Whether a file is compressed.
///
/// # Errors
///
/// When it cannot be read.
pub fn is_packed(path: &Path) -> Result<bool, LogError> {
    let mut magic = Vec::new();
    File::open(path)
        .map_err(LogError::io(path))?
        .take(4)
        .read_to_end(&mut magic)
        .map_err(LogError::io(path))?;
    Ok(is_gzip(&magic) || is_zstd(&magic))
}

fn is_gzip(magic: &[u8]) -> bool {
    magic.starts_with(&[0x1f, 0x8b])
}

fn is_zstd(magic: &[u8]) -> bool {
    magic == [0x28, 0xb5, 0x2f, 0xfd]
}

/// Opens a file and decompresses it: gzip and zstd are recognised by their first bytes.
///
/// # Errors
///
/// When the system does not let it be opened.
pub fn open(path: &Path) -> Result<Box<dyn Read + Send>, LogError> {
    let mut plain: Box<dyn Read + Send> = if path == Path::new(STANDARD_INPUT) {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(LogError::io(path))?)
    };
    let mut magic = Vec::new();
    plain.by_ref().take(4).read_to_end(&mut magic).map_err(LogError::io(path))?;
    let (is_gzip, is_zstd) = (is_gzip(&magic), is_zstd(&magic));
    let stream = io::Cursor::new(magic).chain(plain);
    Ok(if is_gzip {
        let packed = BufReader::with_capacity(PACKED_BYTES, stream);
        Box::new(flate2::bufread::MultiGzDecoder::new(packed))
    } else if is_zstd {
        let packed = BufReader::with_capacity(PACKED_BYTES, stream);
        Box::new(zstd::stream::read::Decoder::with_buffer(packed).map_err(LogError::io(path))?)
    } else {
        Box::new(stream)
    })
}
