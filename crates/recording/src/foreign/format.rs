//! The formats of other programs' traces, their fields, and their detection.

use super::fields::{by_blank, by_comma};
use super::{alibaba, vscsi_text};
use super::{arc, blktrace, fio_iolog, msr, oracle_general, row::Row, spc, tencent, vscsi};

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// blktrace, binary.
    Blktrace,
    /// fio's `write_iolog`, versions 2 and 3.
    FioIolog,
    /// MSR Cambridge.
    Msr,
    /// Alibaba.
    Alibaba,
    /// Tencent CBS.
    Tencent,
    /// vscsiStats and CloudPhysics, binary.
    Vscsi,
    /// The same as text.
    VscsiText,
    /// SPC and UMass.
    Spc,
    /// ARC `.lis`.
    Arc,
    /// oracleGeneral of libCacheSim.
    OracleGeneral,
}

/// The fields of requests that a trace has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownFields {
    /// Arrival times; else they are invented.
    pub time: bool,
    /// Operations; else all are reads.
    pub operation: bool,
    /// Offsets; else they are invented.
    pub offset: bool,
    /// Whether they are synchronous.
    pub sync: bool,
    /// Failures.
    pub failures: bool,
    /// Times in the queue.
    pub queue: bool,
    /// Times at the device, or the sums with those in the queue.
    pub device: bool,
    /// Processes.
    pub process: bool,
}

const PLAIN: KnownFields = KnownFields {
    time: true,
    operation: true,
    offset: true,
    sync: false,
    failures: false,
    queue: false,
    device: false,
    process: false,
};

impl Format {
    /// All of them, in the order in which a file is compared with them.
    pub const ALL: [Format; 10] = [
        Format::Blktrace,
        Format::FioIolog,
        Format::Msr,
        Format::Alibaba,
        Format::Tencent,
        Format::Vscsi,
        Format::VscsiText,
        Format::Spc,
        Format::Arc,
        Format::OracleGeneral,
    ];

    /// Their names, as an option has them.
    pub const NAMES: [&str; 10] = [
        "blktrace",
        "fio-iolog",
        "msr",
        "alibaba",
        "tencent",
        "vscsi",
        "vscsi-csv",
        "spc",
        "arc",
        "oracle-general",
    ];

    /// Returns its name, as an option has it.
    pub fn name(self) -> &'static str {
        Format::NAMES[self as usize]
    }

    /// Returns the format of a name.
    pub fn of_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns the syntax of a record, for messages.
    pub fn record(self) -> &'static str {
        match self {
            Format::Blktrace => "48 bytes of struct blk_io_trace, version 7, little-endian",
            Format::FioIolog => "`[µs] file action [offset length]`",
            Format::Msr => "`filetime,host,disk,Read|Write,offset,size,response`",
            Format::Alibaba => "`device,R|W,offset,length,µs`",
            Format::Tencent => "`seconds,sector,sectors,0|1,volume`",
            Format::Vscsi => "32 bytes (version 1) or 40 (version 2), little-endian",
            Format::VscsiText => {
                "`version,seconds,op,size,lbn` below that heading, or \
                                  `µs,lbn,size,op`"
            }
            Format::Spc => "`unit,sector,bytes,r|w,seconds`",
            Format::Arc => "`block blocks ignored request`",
            Format::OracleGeneral => "24 bytes: u32 seconds, u64 id, u32 size, i64 next",
        }
    }

    /// Returns the fields that the format has.
    pub fn knows(self) -> KnownFields {
        match self {
            Format::Blktrace => KnownFields {
                sync: true,
                failures: true,
                queue: true,
                device: true,
                process: true,
                ..PLAIN
            },
            Format::Msr => KnownFields { device: true, ..PLAIN },
            Format::Arc => KnownFields { time: false, operation: false, ..PLAIN },
            Format::OracleGeneral => KnownFields { operation: false, offset: false, ..PLAIN },
            _ => PLAIN,
        }
    }

    /// Returns the format of a file by its beginning; None if it fits none.
    ///
    /// The length is that of the file where it is not compressed, else 0.
    pub fn detected(beginning: &[u8], file_bytes: u64) -> Option<Format> {
        if blktrace::is_beginning(beginning) {
            return Some(Format::Blktrace);
        }
        if beginning.starts_with(fio_iolog::HEADING_2)
            || beginning.starts_with(fio_iolog::HEADING_3)
        {
            return Some(Format::FioIolog);
        }
        if beginning.iter().take(256).all(|&byte| is_text(byte)) {
            return detected_text(beginning);
        }
        if vscsi::Version::of(beginning).is_some() {
            return Some(Format::Vscsi);
        }
        oracle_general::is_likely(beginning, file_bytes).then_some(Format::OracleGeneral)
    }
}

fn is_text(byte: u8) -> bool {
    byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Returns the format that the first line fits, or the second one below a heading.
fn detected_text(beginning: &[u8]) -> Option<Format> {
    let mut lines = beginning.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let mut lines = lines.by_ref().filter(|line| !line.is_empty());
    let first = lines.next()?;
    if first == vscsi_text::HEADING {
        return Some(Format::VscsiText);
    }
    let line = if is_heading(first) { lines.next()? } else { first };
    let fits = |row: Result<Row<'_>, String>| row.is_ok();
    let mut name = Vec::new();
    let (_, fields) = by_comma::<1>(line);
    let (_, words) = by_blank::<1>(line);
    match fields {
        7 if fits(msr::parse(line, &mut name)) => Some(Format::Msr),
        5 if fits(alibaba::parse(line)) => Some(Format::Alibaba),
        5 if fits(tencent::parse(line)) => Some(Format::Tencent),
        4 if vscsi_text::parse(line, false).is_ok() => Some(Format::VscsiText),
        5.. if fits(spc::parse(line)) => Some(Format::Spc),
        1 if words == 4 && fits(arc::parse(line, 0)) => Some(Format::Arc),
        _ => None,
    }
}

/// Returns whether a line names columns: each of its fields begins with a letter.
pub fn is_heading(line: &[u8]) -> bool {
    let mut fields = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    fields.all(|field| field.first().is_some_and(u8::is_ascii_alphabetic))
}
