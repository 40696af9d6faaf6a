//! Asynchronous writes of one thread: helper threads write, as in the C library's POSIX AIO, which
//! Filebench uses. The time of a write counts from its submission.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;
use std::{io, iter};

use seatrial_gauge::lock;
use seatrial_load::worker::Record;

use crate::spec::AIO_DEPTH_MAX;
use crate::waits::{NAP, Term};
use crate::worker::{World, note_failure};

/// Helpers of one thread; the C library has twenty a process by default.
const HELPERS: usize = 16;

/// One write.
#[derive(Debug)]
pub struct Write {
    /// To which file.
    pub file: Arc<File>,
    /// Where.
    pub offset_bytes: u64,
    /// What, as a part of the data that all writes share.
    pub data: std::ops::Range<usize>,
    /// Number of its kind.
    pub kind: usize,
    /// Its place among those that are outstanding.
    pub slot: usize,
}

/// The places of outstanding writes that are free.
#[derive(Debug)]
struct Free {
    slots: Mutex<Vec<usize>>,
    changed: Condvar,
}

/// A thread's helpers.
#[derive(Debug)]
pub struct Aio {
    sender: Sender<Write>,
    free: Arc<Free>,
}

impl Aio {
    /// Starts the helpers of a thread with this record.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn start(world: &Arc<World>, record: &Arc<Mutex<Record>>) -> io::Result<Aio> {
        // Place 0 is that of the thread's own request.
        let slots = Mutex::new((1..=AIO_DEPTH_MAX).collect());
        let free = Arc::new(Free { slots, changed: Condvar::new() });
        let (sender, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..HELPERS {
            let (world, record) = (world.clone(), record.clone());
            let (free, receiver) = (free.clone(), receiver.clone());
            let body = move || help(&world, &record, &receiver, &free);
            thread::Builder::new().name("aio".into()).spawn(body)?;
        }
        Ok(Aio { sender, free })
    }

    /// Takes a place for a write, once one is free; `None` when the sample ended first.
    pub fn place(&self, term: &Term) -> Option<usize> {
        let mut slots = lock(&self.free.slots);
        loop {
            if let Some(slot) = slots.pop() {
                return Some(slot);
            }
            if term.is_over() {
                return None;
            }
            let nap = term.nap();
            slots = match self.free.changed.wait_timeout(slots, nap) {
                Ok((slots, _)) => slots,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Hands a write to the helpers.
    pub fn submit(&self, write: Write) {
        // Helpers live as long as this sender.
        let _ = self.sender.send(write);
    }

    /// Waits until none is outstanding; false when a time came first.
    pub fn wait_all(&self, until_ns: u64, term: &Term) -> bool {
        let mut slots = lock(&self.free.slots);
        while slots.len() < AIO_DEPTH_MAX {
            let left_ns = until_ns.saturating_sub(term.clock.now_ns());
            if left_ns == 0 {
                return false;
            }
            let nap = Duration::from_nanos(left_ns).min(NAP);
            slots = match self.free.changed.wait_timeout(slots, nap) {
                Ok((slots, _)) => slots,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        true
    }
}

fn help(world: &World, record: &Mutex<Record>, receiver: &Mutex<Receiver<Write>>, free: &Free) {
    let next = || lock(receiver).recv().ok();
    for write in iter::from_fn(next) {
        let data = &world.data.all()[write.data.clone()];
        let outcome = write.file.write_all_at(data, write.offset_bytes);
        let at_ns = world.term.clock.now_ns();
        let bytes = data.len() as u64;
        let mut record = lock(record);
        match outcome {
            Ok(()) => {
                record.recorder.complete_as(write.kind, write.slot, at_ns, bytes);
                world.count_request(bytes, true);
            }
            Err(error) => note_failure(&mut record, write.kind, write.slot, at_ns, &error),
        }
        drop(record);
        lock(&free.slots).push(write.slot);
        free.changed.notify_all();
    }
}
