//! The data of writes, and its verification in reads.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seatrial_gauge::Operation;

use crate::data::BufferFiller;
use crate::engine::Request;
use crate::ledger::{Ledger, LedgerError};
use crate::spec::{CellSpec, TargetKind};
use crate::verify::{self, SECTOR_BYTES};
use crate::worker::{CORRUPTIONS_MAX, Record};

/// Why the ledger of verifiable data cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum LedgerStoreError {
    /// The ledger itself.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Its file.
    #[error("the ledger {path}: {source}")]
    File {
        /// Where.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
}

/// Data state that the workers of a cell share: the ledger, if any.
#[derive(Debug)]
pub struct LedgerStore {
    spec: CellSpec,
    ledger: Option<Arc<Ledger>>,
}

impl LedgerStore {
    /// Opens the ledger that the specification names, or starts one where data are verifiable.
    ///
    /// # Errors
    ///
    /// [`LedgerStoreError`] when the ledger cannot be read, is not one, or does not suit the cell.
    pub fn new(spec: &CellSpec) -> Result<LedgerStore, LedgerStoreError> {
        let ledger = match &spec.ledger_path {
            Some(path) if path.exists() => {
                let ledger = Ledger::from_bytes(&fs::read(path).map_err(at(path))?)?;
                ledger.suits(spec)?;
                Some(ledger)
            }
            _ if spec.is_verifiable() => Some(new_ledger(spec)?),
            _ => None,
        };
        Ok(LedgerStore { spec: spec.clone(), ledger: ledger.map(Arc::new) })
    }

    /// Whether reads are verified; the null target stores no data.
    pub fn is_checked(&self) -> bool {
        let keeps = self.spec.target.kind == TargetKind::File;
        keeps && self.spec.verify && self.ledger.is_some()
    }

    /// The data of one worker.
    pub fn content(&self, worker: u32) -> WorkerData {
        WorkerData {
            filler: BufferFiller::new(&self.spec.data, self.spec.seed, worker),
            ledger: self.ledger.clone(),
            checks_reads: self.is_checked(),
        }
    }

    /// Removes the ledger's file before the first write: from then on it is out of date, and after
    /// a crash its reader would take new data for corrupt data.
    ///
    /// # Errors
    ///
    /// [`LedgerStoreError::File`] when it cannot be removed.
    pub fn open(&self) -> Result<(), LedgerStoreError> {
        let writes = self.spec.accesses.iter().any(|access| access.operation.writes());
        match (&self.ledger, &self.spec.ledger_path) {
            (Some(_), Some(path)) if writes && path.exists() => {
                fs::remove_file(path).map_err(at(path))
            }
            _ => Ok(()),
        }
    }

    /// Saves the ledger where the specification names a file for it.
    ///
    /// # Errors
    ///
    /// [`LedgerStoreError::File`] when it cannot be written.
    pub fn save(&self) -> Result<(), LedgerStoreError> {
        match (&self.ledger, &self.spec.ledger_path) {
            (Some(ledger), Some(path)) => write_durably(path, &ledger.to_bytes()).map_err(at(path)),
            _ => Ok(()),
        }
    }
}

/// Writes a file that is there whole or not at all, also after a loss of power.
fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let mut file = File::create(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Whether the expected content of the read is known.
fn is_known(ledger: &Ledger, offset_bytes: u64, length_bytes: u64) -> bool {
    let mut sectors = (offset_bytes..offset_bytes + length_bytes).step_by(SECTOR_BYTES as usize);
    sectors.any(|at_bytes| !ledger.expected(at_bytes).is_unknown())
}

/// A ledger of the whole target if its block size is given, else of the cell's range.
fn new_ledger(spec: &CellSpec) -> Result<Ledger, LedgerError> {
    match spec.ledger_block_bytes {
        Some(block_bytes) => Ledger::new(spec.seed, 0, spec.target.size_bytes, block_bytes),
        None => Ledger::for_spec(spec),
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> LedgerStoreError {
    let path = path.to_owned();
    |source| LedgerStoreError::File { path, source }
}

/// The data of one worker.
#[derive(Debug)]
pub struct WorkerData {
    filler: BufferFiller,
    ledger: Option<Arc<Ledger>>,
    checks_reads: bool,
}

impl WorkerData {
    /// Fills a buffer for the first time.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        self.filler.fill(buffer);
    }

    /// Whether a request may start: with a ledger, not while another on its blocks is in flight.
    #[inline]
    pub fn admit(&self, offset_bytes: u64, length_bytes: u64) -> bool {
        self.ledger.as_ref().is_none_or(|ledger| ledger.claim(offset_bytes, length_bytes))
    }

    /// Takes back the leave of a request that does not go after all.
    pub fn give_back(&self, offset_bytes: u64, length_bytes: u64) {
        if let Some(ledger) = &self.ledger {
            ledger.release(offset_bytes, length_bytes);
        }
    }

    /// Makes the data of a write, unlike any written before.
    #[inline]
    pub fn prepare(&mut self, request: &Request, buffer: &mut [u8]) {
        match &self.ledger {
            // A copy writes what it reads, elsewhere: its source stays as it is.
            _ if request.operation == Operation::Copy => {}
            None => self.filler.restamp(buffer),
            Some(ledger) => {
                ledger.mark_uncertain(request.offset_bytes, buffer.len() as u64);
                verify::stamp(buffer, request.offset_bytes, ledger);
            }
        }
    }

    /// Whether a ledger is kept, so that the end of each request must be reported.
    #[inline]
    pub fn is_kept(&self) -> bool {
        self.ledger.is_some()
    }

    /// A request has ended well: a read is verified, a write becomes the expected content.
    pub fn settle(&self, request: &Request, buffer: &[u8], record: &mut Record) {
        let Some(ledger) = &self.ledger else { return };
        let (offset_bytes, length_bytes) = (request.offset_bytes, buffer.len() as u64);
        match request.operation {
            Operation::Write | Operation::Commit => ledger.confirm(offset_bytes, length_bytes),
            Operation::Read
                if self.checks_reads && is_known(ledger, offset_bytes, length_bytes) =>
            {
                record.checked_blocks += 1;
                if let Err(corruption) = verify::check(buffer, offset_bytes, ledger) {
                    record.corrupt_blocks += 1;
                    if record.corruptions.len() < CORRUPTIONS_MAX {
                        record.corruptions.push((offset_bytes, corruption));
                    }
                }
            }
            _ => {}
        }
        ledger.release(offset_bytes, length_bytes);
    }

    /// A request has failed: a write leaves its blocks uncertain.
    pub fn abandon(&self, request: &Request) {
        self.give_back(request.offset_bytes, u64::from(request.length_bytes));
    }
}
