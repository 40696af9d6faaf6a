//! Recorded block requests: what one is, the file that keeps them, other programs' formats.
//!
//! A recording is a Parquet file (see [`seatrial_columnar`]) that pyarrow, DuckDB and their like
//! read as it is; of one that is rotated, `FILE.1` follows `FILE`, and so on.
//!
//! | part | rule |
//! |---|---|
//! | [`request`] | one request |
//! | [`about`] | what a recording says of itself |
//! | [`schema`] | columns, encodings and the version |
//! | [`columns`] | the rows of a row group |
//! | [`writer`] | takes requests in |
//! | [`reader`] | gives them back |
//! | [`foreign`] | other programs' formats |
//! | [`import`] | makes a recording of another program's trace |
//! | [`watched`] | requests of the kernel, as they are recorded |

pub mod about;
pub mod columns;
pub mod error;
pub mod foreign;
pub mod import;
pub mod reader;
pub mod request;
pub mod schema;
#[cfg(test)]
mod tests;
pub mod watched;
pub mod writer;

use std::path::{Path, PathBuf};

pub use about::About;
pub use error::RecordingError;
pub use reader::RecordingReader;
pub use request::{Operation, Request};
pub use writer::RecordingWriter;

/// The name of a file of a recording, by its number.
pub fn file_name(path: &Path, number: u32) -> PathBuf {
    if number == 0 {
        return path.to_path_buf();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}
