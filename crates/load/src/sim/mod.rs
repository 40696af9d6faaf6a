//! The simulated device: a whole sample on a virtual clock, from a seed, in an instant.
//!
//! It runs the very worker, recorder and stall finder that measure real devices; only the clock and
//! the device are models. So it proves the measuring itself: a stall that was put in must come
//! out, at its time, and percentiles must equal what can be computed.

mod condition;
mod device;
mod ftl;
pub mod model;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use seatrial_gauge::{Evidence, InFlight, Recorder, RecorderSettings, Stall, Timeline, lock};

use self::condition::Condition;
pub use self::condition::forget;
use self::device::{Device, SpanNs};
use self::ftl::FlashCounters;
use self::model::DeviceModel;
use crate::address::AddressPlan;
use crate::arrival::Arrivals;
use crate::budget::Budget;
use crate::buffers::Buffers;
use crate::content::LedgerStore;
use crate::engine::{Completion, Engine, Request};
use crate::sample::{EngineReport, Sample, SampleFrame, WorkerSums};
use crate::sizes::AccessMix;
use crate::spec::{ArrivalSpec, CellSpec};
use crate::trial::TrialError;
use crate::worker::{Record, SampleControl, Worker, WorkerPlan};

/// Virtual time at which a sample starts; not zero, so that earlier times exist.
const ORIGIN_NS: u64 = 1_000_000_000;

/// How long after the end requests in flight are waited for, in virtual time.
const GRACE_NS: u64 = 60_000_000_000;

/// Carries requests to the model on virtual time.
struct SimEngine {
    now_ns: u64,
    device: Device,
    pauses: Vec<SpanNs>,
    under_way: BinaryHeap<Reverse<(u64, usize, i32)>>,
    buffers: Buffers,
}

impl SimEngine {
    /// The generator cannot act during its own pause; it acts at the end of it.
    fn go_to(&mut self, at_ns: u64) {
        self.now_ns = self.now_ns.max(at_ns);
        for pause in &self.pauses {
            if pause.start_ns <= self.now_ns && self.now_ns < pause.end_ns {
                self.now_ns = pause.end_ns;
            }
        }
    }
}

impl Engine for SimEngine {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn submit(&mut self, request: Request, in_flight: &InFlight) {
        in_flight.begin(request.slot, request.operation, self.now_ns);
        let (end_ns, result) = self.device.serve(&request, self.now_ns);
        self.under_way.push(Reverse((end_ns, request.slot, result)));
    }

    fn reap(
        &mut self,
        min_ended: usize,
        until_ns: u64,
        _flight: &InFlight,
        ended: &mut Vec<Completion>,
    ) -> io::Result<()> {
        while ended.len() < min_ended.max(1) {
            match self.under_way.peek() {
                Some(&Reverse((end_ns, slot, result))) if end_ns <= until_ns.max(self.now_ns) => {
                    self.go_to(end_ns);
                    self.under_way.pop();
                    ended.push(Completion { slot, at_ns: self.now_ns, result });
                }
                _ => {
                    self.go_to(until_ns);
                    break;
                }
            }
        }
        Ok(())
    }

    fn sleep_until(&mut self, until_ns: u64) {
        self.go_to(until_ns);
    }

    /// One buffer serves all: a model keeps no data.
    fn buffer(&mut self, _slot: usize) -> &mut [u8] {
        self.buffers.slot(0)
    }
}

/// Measures a cell on a simulated device.
///
/// # Errors
///
/// [`TrialError::Model`] when the model makes no sense or data are to be checked, which a model
/// does not keep.
pub fn measure(spec: &CellSpec, stop: &Arc<AtomicBool>) -> Result<Sample, TrialError> {
    let model = DeviceModel::parse(spec.target.model.as_ref()).map_err(TrialError::Model)?;
    if spec.verify || spec.is_verifiable() {
        return Err(TrialError::Model("a simulated device keeps no data to verify".into()));
    }
    let freezes = SpanNs::of(&model.freezes, ORIGIN_NS);
    let pauses = SpanNs::of(&model.generator_pauses, ORIGIN_NS);
    let depth = spec.threads as usize * spec.depth as usize;
    let end_ns = ORIGIN_NS + (spec.limit.duration_s * 1e9) as u64;
    let in_flight = Arc::new(InFlight::new(depth, ORIGIN_NS));
    let timeline = Arc::new(Mutex::new(Timeline::new(spec.slice_ms * 1_000_000)));
    let recorder = Recorder::new(settings(spec), in_flight.clone(), timeline.clone());
    let record = Arc::new(Mutex::new(Record::new(recorder)));
    let condition = condition(spec, &model)?;
    let written_before = written(&condition);
    let device = Device::new(model.clone(), condition, spec.seed, ORIGIN_NS);
    let engine = engine(spec, device, pauses.clone())?;
    let mut worker = Worker::new(engine, depth, plan(spec)?, in_flight.clone(), record.clone());
    let control = SampleControl { end_ns, grace_end_ns: end_ns + GRACE_NS, stop: stop.clone() };
    let failed = |source| TrialError::Engine { engine: "simulated", source };
    worker.run(&control).map_err(failed)?;
    let engine = worker.into_engine();
    let now_ns = engine.now_ns();
    let condition = engine.device.into_condition(now_ns);
    let counters = flash_counters(written(&condition).since(written_before));
    if let Some(state_key) = lasting_key(spec, &model) {
        condition::keep(state_key, model, spec.target.size_bytes, condition);
    }
    let view = in_flight.view();
    let measured_end_ns = view.ended_ns().unwrap_or(now_ns).max(ORIGIN_NS + 1);
    let mut sums = WorkerSums::default();
    sums.take_in(&mut lock(&record), measured_end_ns)?;
    let threshold_ns = spec.stall_threshold_ms * 1_000_000;
    let seen = |stall: &Stall| evidence(stall, &freezes, &pauses);
    let stalls = sums.stalls(measured_end_ns, threshold_ns, seen);
    drop(record);
    let rows = std::mem::replace(&mut *lock(&timeline), Timeline::new(1)).into_rows();
    Ok(sums.into_sample(SampleFrame {
        engine: EngineReport { name: "simulated", reason: "the target is a model".into() },
        start_ns: ORIGIN_NS,
        started_unix_s: 0.0,
        duration_ns: measured_end_ns - ORIGIN_NS,
        interrupted: stop.load(Ordering::Relaxed),
        slice_ns: rows.0,
        slices: rows.1,
        stalls,
        oldest_in_flight_ns: view.oldest_start_ns.map_or(0, |start_ns| now_ns - start_ns),
        counters,
        checked: false,
    }))
}

fn settings(spec: &CellSpec) -> RecorderSettings {
    RecorderSettings {
        start_ns: ORIGIN_NS,
        slice_ns: spec.slice_ms * 1_000_000,
        stall_threshold_ns: spec.stall_threshold_ms * 1_000_000,
        scheduled: !matches!(spec.arrival, ArrivalSpec::Closed {}),
    }
}

/// The key under which the device's condition is stored; `None` if each sample has a fresh device.
fn lasting_key<'a>(spec: &'a CellSpec, model: &DeviceModel) -> Option<&'a str> {
    spec.target.state_key.as_deref().filter(|_| model.lasting)
}

/// The device as the last sample left it, or a fresh one.
fn condition(spec: &CellSpec, model: &DeviceModel) -> Result<Condition, TrialError> {
    let size_bytes = spec.target.size_bytes;
    let left = lasting_key(spec, model).and_then(|key| condition::take(key, model, size_bytes));
    match left {
        Some(mut condition) => {
            condition.rest(model, spec.target.idle_s);
            Ok(condition)
        }
        None => Condition::fresh(model, size_bytes).map_err(TrialError::Model),
    }
}

fn written(condition: &Condition) -> FlashCounters {
    condition.ftl.as_ref().map_or(FlashCounters::default(), |ftl| ftl.written())
}

/// Pages that the sample wrote to the flash; nothing without one.
fn flash_counters(written: FlashCounters) -> Vec<(&'static str, f64)> {
    let Some(amplification) = written.amplification() else { return Vec::new() };
    vec![
        ("ftl_host_pages", written.host_pages as f64),
        ("ftl_nand_pages", written.nand_pages as f64),
        ("ftl_erased_blocks", written.erased_blocks as f64),
        ("ftl_write_amplification", amplification),
    ]
}

fn engine(spec: &CellSpec, device: Device, pauses: Vec<SpanNs>) -> Result<SimEngine, TrialError> {
    let largest_bytes = spec.accesses.iter().map(|access| access.size_bytes_max()).max();
    let buffers = Buffers::map(1, largest_bytes.unwrap_or(0) as usize)
        .map_err(|source| TrialError::Engine { engine: "simulated", source })?;
    Ok(SimEngine { now_ns: ORIGIN_NS, device, pauses, under_way: BinaryHeap::new(), buffers })
}

/// One worker draws for all: the model has no threads, only requests in flight.
fn plan(spec: &CellSpec) -> Result<WorkerPlan, TrialError> {
    let single = CellSpec { threads: 1, ..spec.clone() };
    let plan = AddressPlan::new(&single)?;
    Ok(WorkerPlan {
        mix: AccessMix::new(&single, &plan, 0),
        arrivals: Arrivals::new(&spec.arrival, 0, 1, spec.seed, ORIGIN_NS),
        content: LedgerStore::new(&single)?.content(0),
        sync_every: spec.sync_every,
        budget: Arc::new(Budget::new(&spec.limit)),
    })
}

/// Returns the evidence that a watchdog would have seen, taken from the model.
fn evidence(stall: &Stall, freezes: &[SpanNs], pauses: &[SpanNs]) -> Evidence {
    let overlap_ns = |spans: &[SpanNs]| -> u64 {
        spans.iter().map(|span| span.overlap_ns(stall.start_ns, stall.end_ns)).sum()
    };
    let length_ns = stall.length_ns();
    let paused_ns = overlap_ns(pauses);
    let frozen_ns = overlap_ns(freezes);
    let waiting_ns = length_ns.saturating_sub(paused_ns);
    Evidence {
        length_ns,
        checks: length_ns.div_ceil(5_000_000),
        checks_device_busy: frozen_ns.max(waiting_ns).div_ceil(5_000_000),
        run_delay_ns: paused_ns,
        ..Evidence::default()
    }
}
