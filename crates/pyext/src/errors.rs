//! Errors as Python's exceptions, each with `seen`, `cause` and `next_step`.
//!
//! `seatrial.errors.native_errors` is where Python makes its own of them.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use seatrial_capture::CaptureError;
use seatrial_files::trial::FilesError;
use seatrial_gauge::UserError;
use seatrial_gauge::user_error::ErrorClass;
use seatrial_ingest::intake::IntakeError;
use seatrial_ingest::pgbench_log::LogError;
use seatrial_load::trial::TrialError;
use seatrial_pgwire::null_server::NullServerError;
use seatrial_playback::drive::PlaybackError;
use seatrial_recording::RecordingError;
use seatrial_recording::import::ImportError;
use seatrial_trace::TraceError;
use seatrial_watch::WatchError;

create_exception!(
    _core,
    NativeError,
    PyException,
    "What failed: ``seen``, ``cause``, ``next_step``."
);
create_exception!(_core, NativeUsageError, NativeError, "The request cannot be carried out.");
create_exception!(_core, NativeTargetError, NativeError, "The target cannot be used.");
create_exception!(_core, NativeSpaceError, NativeError, "The disk is full.");
create_exception!(_core, NativeSystemError, NativeError, "The system refused a required resource.");
create_exception!(_core, NativeDefectError, NativeError, "A defect of Seatrial.");

/// An error of the crates on its way to Python.
pub struct Failure(UserError);

/// The result of a function of the module.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// Returns a defect of ours.
    pub fn defect(seen: impl std::fmt::Display) -> Failure {
        Failure(UserError::defect(seen.to_string()))
    }
}

impl From<Failure> for PyErr {
    fn from(Failure(explained): Failure) -> PyErr {
        Python::attach(|py| {
            let class = match explained.class {
                ErrorClass::Usage => py.get_type::<NativeUsageError>(),
                ErrorClass::Target => py.get_type::<NativeTargetError>(),
                ErrorClass::Space => py.get_type::<NativeSpaceError>(),
                ErrorClass::System => py.get_type::<NativeSystemError>(),
                ErrorClass::Defect => py.get_type::<NativeDefectError>(),
            };
            raised(&class, &explained).unwrap_or_else(|error| error)
        })
    }
}

fn raised(class: &Bound<'_, PyType>, explained: &UserError) -> PyResult<PyErr> {
    let exception = class.call1((&explained.seen,))?;
    exception.setattr("seen", &explained.seen)?;
    exception.setattr("cause", &explained.cause)?;
    exception.setattr("next_step", &explained.next_step)?;
    Ok(PyErr::from_value(exception))
}

/// Lets `?` make a [`Failure`] of errors that explain themselves.
macro_rules! failures {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                Failure(error.explained())
            }
        }
    )*};
}

failures!(
    ImportError,
    CaptureError,
    FilesError,
    IntakeError,
    LogError,
    PlaybackError,
    RecordingError,
    TraceError,
    TrialError,
    WatchError
);

impl From<NullServerError> for Failure {
    fn from(error: NullServerError) -> Failure {
        let seen = error.to_string();
        Failure(match error {
            NullServerError::Version(_) => UserError::defect(seen),
            NullServerError::OpenFolder { .. } => UserError::usage(
                seen,
                "Any user who can access it could impersonate the server",
                "Use `chmod 700`, or another directory",
            ),
            NullServerError::Io { .. } => UserError::new(
                ErrorClass::Target,
                seen,
                "The folder is missing, its name is too long for a socket, or too many files are \
                 open",
                "See `ls -ld` of the folder, and `ulimit -n`",
            ),
        })
    }
}

/// Returns a record as JSON.
pub fn as_json(record: &impl serde::Serialize) -> Outcome<String> {
    serde_json::to_string(record).map_err(Failure::defect)
}

/// Returns a result that is taken once; RuntimeError, saying why, where there is none.
pub fn taken<T, E: Into<Failure>>(result: Option<Result<T, E>>, why: &'static str) -> PyResult<T> {
    let result = result.ok_or_else(|| PyRuntimeError::new_err(why))?;
    Ok(result.map_err(Into::<Failure>::into)?)
}
