//! Imports another program's trace into a recording.

use std::ops::ControlFlow;
use std::path::Path;

use seatrial_gauge::UserError;

use crate::about::{About, Device, KnownFields, LeftOut, Lost};
use crate::foreign::{ForeignError, ForeignTrace, Format, TraceInfo};
use crate::writer::RecordingSummary;
use crate::{RecordingError, RecordingWriter};

/// Why a trace did not become a recording.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] ForeignError),
    /// The recording cannot be written.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

impl ImportError {
    /// Returns the error as a user reads it.
    pub fn explained(&self) -> UserError {
        match self {
            ImportError::Trace(error) => error.explained(),
            ImportError::Recording(error) => error.explained(),
        }
    }
}

/// Reads a trace, of a format or of the one that its beginning fits, into a recording of one file.
///
/// # Errors
///
/// If the trace cannot be read, or the recording cannot be written; in the first case no recording
/// was begun.
pub fn import(
    trace: &Path,
    format: Option<Format>,
    recording: &Path,
) -> Result<(TraceInfo, RecordingSummary), ImportError> {
    let mut foreign = ForeignTrace::open(trace, format)?;
    let mut writer = RecordingWriter::create(recording, about(&foreign.info), u64::MAX)?;
    let mut written = Ok(());
    foreign.requests(&mut |request| {
        written = writer.add(request);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    let summary = writer.finish(foreign.info.length_ns, Lost::default())?;
    Ok((foreign.info, summary))
}

fn about(info: &TraceInfo) -> About {
    let knows = info.knows;
    let made_up = [("time", knows.time), ("operation", knows.operation), ("address", knows.offset)];
    let device = |name: &String| Device { name: name.clone(), size_bytes: None };
    let left_out = info.left_out.iter().cloned();
    About {
        began_at_ns: info.began_unix_ns.unwrap_or(0),
        source: format!("{} (imported)", info.format.name()),
        devices: info.devices.iter().map(device).collect(),
        processes: info.processes.clone(),
        knows: KnownFields {
            arrival: knows.time,
            sync: knows.sync,
            failures: knows.failures,
            queue: knows.queue,
            device: knows.device,
            process: knows.process,
            relations: false,
        },
        made_up: made_up
            .into_iter()
            .filter(|(_, is_known)| !is_known)
            .map(|(name, _)| name.to_string())
            .collect(),
        left_out: left_out.map(|(reason, count)| LeftOut { reason, count }).collect(),
        ..About::default()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::RecordingReader;

    #[test]
    fn a_trace_becomes_a_recording_that_says_what_it_does_not_know() {
        let folder = TempDir::new().unwrap();
        let (trace, recording) = (folder.path().join("t.csv"), folder.path().join("t.rec"));
        fs::write(&trace, "9,R,4096,512,1700000000000000\n7,W,0,4096,1700000000500000\n").unwrap();
        let (info, written) = import(&trace, None, &recording).unwrap();
        assert_eq!((info.format, written.requests, written.files), (Format::Alibaba, 2, 1));
        let mut reader = RecordingReader::open(&recording).unwrap();
        let columns = reader.next_columns().unwrap().unwrap();
        assert_eq!(columns.arrived_ns, [0, 500_000_000]);
        assert_eq!(columns.device_ns, [-1, -1]);
        assert_eq!(columns.is_sync, [-1, -1]);
        let about = reader.about();
        assert_eq!(about.began_at_ns, 1_700_000_000_000_000_000);
        assert_eq!(about.length_ns, 500_000_000);
        assert_eq!(about.devices.iter().map(|each| &each.name).collect::<Vec<_>>(), ["9", "7"]);
        assert!(!about.knows.device && !about.knows.process && about.made_up.is_empty());
    }

    #[test]
    fn what_is_made_up_is_named_and_a_bad_trace_leaves_nothing() {
        let folder = TempDir::new().unwrap();
        let (trace, recording) = (folder.path().join("t.lis"), folder.path().join("t.rec"));
        fs::write(&trace, "8 8 0 1\n16 8 0 2\n").unwrap();
        import(&trace, None, &recording).unwrap();
        let reader = RecordingReader::open(&recording).unwrap();
        assert_eq!(reader.about().made_up, ["time", "operation"]);
        fs::write(&trace, "8 8 0 1\n16 x 0 2\n").unwrap();
        let other = folder.path().join("other.rec");
        assert!(matches!(import(&trace, None, &other), Err(ImportError::Trace(_))));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
