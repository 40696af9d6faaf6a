//! The files of a trace, compressed by gzip or not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// So much of a file's beginning says its format.
pub const BEGINNING_BYTES: u64 = 4096;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const BUFFER_BYTES: usize = 1 << 18;

/// Opens a file; one that is compressed by gzip is unpacked as it is read.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::with_capacity(BUFFER_BYTES, File::open(path)?);
    if is_packed(file.fill_buf()?) {
        let unpacked = flate2::bufread::MultiGzDecoder::new(file);
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked)));
    }
    Ok(Box::new(file))
}

/// Returns the beginning of a file, unpacked, and its length; 0 where it is packed.
pub fn beginning(path: &Path) -> io::Result<(Vec<u8>, u64)> {
    let mut found = Vec::new();
    open(path)?.take(BEGINNING_BYTES).read_to_end(&mut found)?;
    let mut magic = [0; 2];
    let file_bytes = match File::open(path)?.read(&mut magic)? {
        2 if is_packed(&magic) => 0,
        _ => std::fs::metadata(path)?.len(),
    };
    Ok((found, file_bytes))
}

fn is_packed(beginning: &[u8]) -> bool {
    beginning.starts_with(&GZIP)
}

/// Fills a record; false at the end, and an error of kind `UnexpectedEof` within a record.
pub fn read_record(input: &mut dyn BufRead, record: &mut [u8]) -> io::Result<bool> {
    if input.fill_buf()?.is_empty() {
        return Ok(false);
    }
    input.read_exact(record)?;
    Ok(true)
}

/// Returns the files of a blktrace, of which one was named: all whose names differ in the number
/// of the processor alone.
pub fn of_all_processors(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let Some((stem, number)) = name.rsplit_once('.') else { return vec![path.into()] };
    if !stem.ends_with(".blktrace") || !is_number(number) {
        return vec![path.into()];
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(entries) = std::fs::read_dir(folder.unwrap_or(Path::new("."))) else {
        return vec![path.into()];
    };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|other| {
            let name = other.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('.')).is_some_and(is_number)
        })
        .collect();
    files.sort();
    files
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
