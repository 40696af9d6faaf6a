//! Asynchronous writes of one thread: helper threads write, as in the C library's POSIX AIO, which
//! Filebench uses. The time of a write counts from its submission.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use std::{io, iter};

use seatrial_gauge::lock;
use seatrial_load::worker::Record;

use crate::spec::AIO_DEPTH_MAX;
use crate::waits::{NAP, SampleEnd};
use crate::worker::{SharedState, note_failure};

/// Helpers of one thread; the C library has twenty a process by default.
const HELPERS: usize = 16;

/// One write.
#[derive(Debug)]
pub struct PendingWrite {
    /// To which file.
    pub file: Arc<File>,
    /// Where.
    pub offset_bytes: u64,
    /// What, as a part of the data that all writes share.
    pub data: std::ops::Range<usize>,
    /// Number of its kind.
    pub kind: usize,
    /// Its slot among the outstanding writes.
    pub slot: usize,
}

/// The free slots of outstanding writes.
#[derive(Debug)]
struct FreeSlots {
    slots: Mutex<Vec<usize>>,
    changed: Condvar,
}

/// A thread's helpers.
#[derive(Debug)]
pub struct Aio {
    sender: Sender<PendingWrite>,
    free: Arc<FreeSlots>,
}

impl Aio {
    /// Starts the helpers of a thread with this record.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn start(shared: &Arc<SharedState>, record: &Arc<Mutex<Record>>) -> io::Result<Aio> {
        // Slot 0 is that of the thread's own request.
        let slots = Mutex::new((1..=AIO_DEPTH_MAX).collect());
        let free = Arc::new(FreeSlots { slots, changed: Condvar::new() });
        let (sender, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..HELPERS {
            let (shared, record) = (shared.clone(), record.clone());
            let (free, receiver) = (free.clone(), receiver.clone());
            let body = move || help(&shared, &record, &receiver, &free);
            thread::Builder::new().name("aio".into()).spawn(body)?;
        }
        Ok(Aio { sender, free })
    }

    /// Claims a slot for a write, once one is free; `None` when the sample ended first.
    pub fn claim_slot(&self, sample_end: &SampleEnd) -> Option<usize> {
        let mut slots = lock(&self.free.slots);
        loop {
            if let Some(slot) = slots.pop() {
                return Some(slot);
            }
            if sample_end.is_over() {
                return None;
            }
            slots = sample_end.wait(&self.free.changed, slots);
        }
    }

    /// Passes a write to the helpers.
    pub fn submit(&self, write: PendingWrite) {
        // Helpers live as long as this sender.
        let _ = self.sender.send(write);
    }

    /// Waits until no write is outstanding; false on timeout.
    pub fn wait_all(&self, until_ns: u64, sample_end: &SampleEnd) -> bool {
        let mut slots = lock(&self.free.slots);
        while slots.len() < AIO_DEPTH_MAX {
            let left_ns = until_ns.saturating_sub(sample_end.clock.now_ns());
            if left_ns == 0 {
                return false;
            }
            let nap = Duration::from_nanos(left_ns).min(NAP);
            let waited = self.free.changed.wait_timeout(slots, nap);
            slots = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

fn help(
    shared: &SharedState,
    record: &Mutex<Record>,
    receiver: &Mutex<Receiver<PendingWrite>>,
    free: &FreeSlots,
) {
    let next = || lock(receiver).recv().ok();
    for write in iter::from_fn(next) {
        let data = &shared.data.all()[write.data.clone()];
        let outcome = write.file.write_all_at(data, write.offset_bytes);
        let at_ns = shared.sample_end.clock.now_ns();
        let bytes = data.len() as u64;
        let mut record = lock(record);
        match outcome {
            Ok(()) => {
                record.recorder.complete_as(write.kind, write.slot, at_ns, bytes);
                shared.count_request(bytes, true);
            }
            Err(error) => note_failure(&mut record, write.kind, write.slot, at_ns, &error),
        }
        drop(record);
        lock(&free.slots).push(write.slot);
        free.changed.notify_all();
    }
}
