//! The condition of a simulated device, which may persist from one sample to the next.
//!
//! It consists of amounts, not of times, so that it can be stored at the end of one virtual
//! clock and taken up with the start of another. Time between samples is virtual, too: it passes
//! only where the specification says so (`target.idle_s`), never by the wall clock.

use std::sync::Mutex;

use seatrial_gauge::{Operation, lock};

use super::ftl::{FlashWork, Ftl};
use super::model::DeviceModel;
use crate::engine::Request;

/// Limit of stored devices; beyond it, the oldest one is dropped.
const STORED_DEVICES_MAX: usize = 16;

/// The state of a device between requests, and perhaps between samples.
#[derive(Debug)]
pub struct Condition {
    /// Bytes in the write cache.
    pub cached_bytes: f64,
    /// Credit left; below 0 while a request waits for it.
    pub tokens: f64,
    /// The flash, where the model has one.
    pub ftl: Option<Ftl>,
}

impl Condition {
    /// A device fresh from the factory: cache empty, credit full, flash erased.
    ///
    /// # Errors
    ///
    /// A sentence when the flash would be too small or too large to be modelled.
    pub fn fresh(model: &DeviceModel, size_bytes: u64) -> Result<Condition, String> {
        Ok(Condition {
            cached_bytes: 0.0,
            tokens: model.burst.map_or(0.0, |burst| burst.credit_operations),
            ftl: model.ftl.map(|ftl| Ftl::new(&ftl, size_bytes)).transpose()?,
        })
    }

    /// Lets the device rest.
    pub fn rest(&mut self, model: &DeviceModel, idle_s: f64) {
        self.drain_cache(model, idle_s);
        self.refill_tokens(model, idle_s);
    }

    /// Drains the cache for a time.
    pub fn drain_cache(&mut self, model: &DeviceModel, since_s: f64) {
        let drain_bytes_per_s = model.write_cache.map_or(0.0, |cache| cache.drain_bytes_per_s);
        self.cached_bytes = (self.cached_bytes - since_s * drain_bytes_per_s).max(0.0);
    }

    /// Refills the credit for a time.
    pub fn refill_tokens(&mut self, model: &DeviceModel, since_s: f64) {
        let Some(burst) = model.burst else { return };
        let refilled = self.tokens + since_s * burst.refill_per_s;
        self.tokens = refilled.min(burst.credit_operations);
    }

    /// Applies a request to the flash, if any. A copy's other end is not on this device's map: it
    /// takes time, but leaves no trace.
    pub fn flash_work(&mut self, request: &Request) -> FlashWork {
        let Some(ftl) = &mut self.ftl else { return FlashWork::default() };
        match request.operation {
            Operation::Read | Operation::Copy => {
                ftl.read(request.offset_bytes, request.length_bytes)
            }
            Operation::Write | Operation::Commit => {
                ftl.write(request.offset_bytes, request.length_bytes)
            }
            Operation::Sync | Operation::Metadata => FlashWork::default(),
        }
    }
}

/// A device that is stored between two samples.
struct StoredDevice {
    state_key: String,
    model: DeviceModel,
    size_bytes: u64,
    condition: Condition,
}

static STORED_DEVICES: Mutex<Vec<StoredDevice>> = Mutex::new(Vec::new());

/// Takes the condition that the last sample stored under `state_key`; `None` if there is none, or
/// if model or size of the device differ.
pub fn take(state_key: &str, model: &DeviceModel, size_bytes: u64) -> Option<Condition> {
    let mut devices = lock(&STORED_DEVICES);
    let index = devices.iter().position(|each| each.state_key == state_key)?;
    let stored = devices.remove(index);
    let is_same = stored.model == *model && stored.size_bytes == size_bytes;
    is_same.then_some(stored.condition)
}

/// Puts a device's condition away under `state_key`.
pub fn keep(state_key: &str, model: DeviceModel, size_bytes: u64, condition: Condition) {
    let mut devices = lock(&STORED_DEVICES);
    devices.retain(|each| each.state_key != state_key);
    if devices.len() >= STORED_DEVICES_MAX {
        devices.remove(0);
    }
    devices.push(StoredDevice { state_key: state_key.into(), model, size_bytes, condition });
}

/// Drops the device stored under `state_key`: the next sample has a fresh one.
pub fn forget(state_key: &str) {
    lock(&STORED_DEVICES).retain(|each| each.state_key != state_key);
}
