//! `RecordingWriter` and `RecordingReader`: block requests in a file.

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use seatrial_gauge::lock;
use seatrial_recording::about::Lost;
use seatrial_recording::columns::Columns;
use seatrial_recording::foreign::Format;
use seatrial_recording::watched::WatchedWriter;
use seatrial_recording::{About, RecordingError, RecordingReader, RecordingWriter};

use crate::errors::{Failure, Outcome, as_json};
use crate::watch::{PyWatch, PyWatchedRequest};

/// A recording of block requests that is written.
#[pyclass(frozen, name = "RecordingWriter")]
pub struct PyRecordingWriter(Mutex<Option<WatchedWriter>>);

#[pymethods]
impl PyRecordingWriter {
    /// Begin a recording; ``about_json`` is its metadata (docs/recording.md).
    ///
    /// ``began_ns`` is its beginning by CLOCK_MONOTONIC. A file that has reached ``rotate_bytes``
    /// is followed by another one.
    ///
    /// Raises NativeError when it cannot be made, another process writes one of this name, or one
    /// was cut off that can be recovered.
    #[new]
    #[pyo3(signature = (path, about_json, *, began_ns, rotate_bytes))]
    fn new(
        path: PathBuf,
        about_json: &str,
        began_ns: u64,
        rotate_bytes: u64,
    ) -> Outcome<PyRecordingWriter> {
        let about: About = serde_json::from_str(about_json).map_err(Failure::defect)?;
        let writer = RecordingWriter::create(&path, about, rotate_bytes)?;
        Ok(PyRecordingWriter(Mutex::new(Some(WatchedWriter::new(writer, began_ns)))))
    }

    /// Name a device by its numbers.
    #[pyo3(signature = (major, minor, name, size_bytes=None))]
    fn name_device(
        &self,
        major: u32,
        minor: u32,
        name: &str,
        size_bytes: Option<u64>,
    ) -> Outcome<()> {
        self.with(|writer| {
            writer.name_device(major, minor, name, size_bytes);
            Ok(())
        })
    }

    /// Return the number of a relation, by its name.
    fn relation(&self, name: &str) -> Outcome<u32> {
        self.with(|writer| Ok(writer.writer.relation(name)))
    }

    /// Record the requests that completed since a watch was read last; return how many.
    ///
    /// Raises NativeError when the file cannot be written.
    fn take(&self, py: Python<'_>, watch: &PyWatch) -> Outcome<u64> {
        py.detach(|| {
            self.with(|writer| {
                let (mut taken, mut written) = (0, Ok(()));
                watch.with(|watch| {
                    watch.take(|record| {
                        if written.is_ok() {
                            written = writer.add(record, None);
                            taken += 1;
                        }
                    });
                });
                written.map(|()| taken)
            })
        })
    }

    /// Record requests, each with the number of its relation; -1 where it has none.
    ///
    /// Raises NativeError when the file cannot be written.
    fn add(&self, requests: Vec<PyRef<'_, PyWatchedRequest>>, relations: Vec<i32>) -> Outcome<()> {
        if requests.len() != relations.len() {
            return Err(Failure::defect("requests and relations are not equally many"));
        }
        self.with(|writer| {
            let numbers = relations.iter().map(|&number| u32::try_from(number).ok());
            requests.iter().zip(numbers).try_for_each(|(each, number)| writer.add(&each.0, number))
        })
    }

    /// Make sure that everything until now can be read even if this process dies.
    ///
    /// Raises NativeError when the file cannot be written.
    fn checkpoint(&self, py: Python<'_>, length_ns: u64, lost_json: &str) -> Outcome<()> {
        let lost: Lost = serde_json::from_str(lost_json).map_err(Failure::defect)?;
        py.detach(|| self.with(|writer| writer.writer.checkpoint(length_ns, lost)))
    }

    /// Complete the recording; return its requests, bytes and files.
    ///
    /// Raises NativeError when the file cannot be written.
    fn finish(&self, py: Python<'_>, length_ns: u64, lost_json: &str) -> Outcome<(u64, u64, u32)> {
        let lost: Lost = serde_json::from_str(lost_json).map_err(Failure::defect)?;
        let taken = lock(&self.0).take();
        let writer = taken.ok_or_else(|| Failure::defect("the recording has ended"))?.writer;
        let written = py.detach(|| writer.finish(length_ns, lost))?;
        Ok((written.requests, written.bytes, written.files))
    }

    /// Leave the recording as it was at its last checkpoint, without completing it.
    fn abandon(&self) {
        lock(&self.0).take();
    }
}

impl PyRecordingWriter {
    fn with<T>(
        &self,
        act: impl FnOnce(&mut WatchedWriter) -> Result<T, RecordingError>,
    ) -> Outcome<T> {
        let mut writer = lock(&self.0);
        let writer = writer.as_mut().ok_or_else(|| Failure::defect("the recording has ended"))?;
        Ok(act(writer)?)
    }
}

/// A recording of block requests that is read.
#[pyclass(frozen, name = "RecordingReader")]
pub struct PyRecordingReader(Mutex<RecordingReader>);

#[pymethods]
impl PyRecordingReader {
    /// Open a recording; one that was cut off is completed first.
    ///
    /// Raises NativeError when it cannot be opened or completed, is none, or lacks a file.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> Outcome<PyRecordingReader> {
        Ok(PyRecordingReader(Mutex::new(py.detach(|| RecordingReader::open(&path))?)))
    }

    /// Its metadata, as JSON.
    #[getter]
    fn about_json(&self) -> Outcome<String> {
        as_json(lock(&self.0).about())
    }

    /// Number of requests, according to its files.
    #[getter]
    fn requests(&self) -> u64 {
        lock(&self.0).requests()
    }

    /// Size of its files.
    #[getter]
    fn total_bytes(&self) -> u64 {
        lock(&self.0).bytes()
    }

    /// How many files it has.
    #[getter]
    fn files(&self) -> usize {
        lock(&self.0).files()
    }

    /// Return the next requests (at most 65,536) as columns by name; None at the end.
    ///
    /// Each column is the bytes of an array in the machine's order.
    ///
    /// Raises NativeError when it is damaged.
    fn next_columns<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let next = py.detach(|| lock(&self.0).next_columns()).map_err(Failure::from)?;
        next.map(|columns| columns_dict(py, &columns)).transpose()
    }
}

fn columns_dict<'py>(py: Python<'py>, columns: &Columns) -> PyResult<Bound<'py, PyDict>> {
    let wide = |values: &[i64]| values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let narrow = |values: &[i32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let arrays: [(&str, Vec<u8>); 11] = [
        ("arrived_ns", wide(&columns.arrived_ns)),
        ("device", narrow(&columns.device)),
        ("operation", columns.operation.clone()),
        ("is_sync", columns.is_sync.iter().map(|&is_sync| is_sync as u8).collect()),
        ("failed", columns.failed.clone()),
        ("offset_bytes", wide(&columns.offset_bytes)),
        ("length_bytes", wide(&columns.length_bytes)),
        ("queue_ns", wide(&columns.queue_ns)),
        ("device_ns", wide(&columns.device_ns)),
        ("process", narrow(&columns.process)),
        ("relation", narrow(&columns.relation)),
    ];
    let found = PyDict::new(py);
    for (name, bytes) in arrays {
        found.set_item(name, PyBytes::new(py, &bytes))?;
    }
    Ok(found)
}

/// Read another program's trace into a recording.
///
/// Return the format, and how many requests, bytes and files of the trace it has.
///
/// ``trace_format`` is one of ``FOREIGN_FORMATS``, or None for the one that it fits.
///
/// Raises NativeError when the trace cannot be read or the recording cannot be written.
#[pyfunction]
#[pyo3(signature = (trace, trace_format, recording))]
pub fn import_recording(
    py: Python<'_>,
    trace: PathBuf,
    trace_format: Option<&str>,
    recording: PathBuf,
) -> Outcome<(String, u64, u64, usize)> {
    let unknown = || Failure::defect("there is no such format");
    let format = trace_format.map(|name| Format::of_name(name).ok_or_else(unknown)).transpose()?;
    let (intake, written) =
        py.detach(|| seatrial_recording::import::import(&trace, format, &recording))?;
    let name = intake.format.name().to_string();
    Ok((name, written.requests, written.bytes, intake.files))
}
