//! `CacheAccesses`: simulated caches for recorded accesses.

use std::sync::{Arc, Mutex};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use seatrial_gauge::lock;
use seatrial_model::Kind;
use seatrial_model::accesses::Accesses;
use seatrial_model::curve::{self, Curve};
use seatrial_model::page_cache::PageCache;
use seatrial_model::second_tier::{Admission, DEVICES, SecondTier};
use seatrial_model::streams::{self, Request};
use seatrial_model::timed::{Arrivals, SimulatedLoad, Slice, Station, Stations, simulate};
use seatrial_model::traced;

use crate::histogram::PyHistogram;

/// Accesses to blocks, in order.
#[pyclass(frozen, name = "CacheAccesses")]
pub struct PyCacheAccesses(Arc<Accesses>);

#[pymethods]
impl PyCacheAccesses {
    /// Take blocks by any numbers, in the order of access: a buffer of unsigned 64-bit numbers.
    ///
    /// ``writes`` and ``scans`` say of each access whether it is a write, which is no hit and no
    /// miss, and whether it is part of a scan: buffers of bytes, 0 or 1. ``streams_bytes`` says how
    /// long the sequential stream of each is (``stream_bytes``): unsigned 32-bit numbers.
    ///
    /// Raises ValueError when there are too many different blocks, or not as many of the others.
    #[new]
    #[pyo3(signature = (blocks, *, writes=None, scans=None, streams_bytes=None))]
    fn new(
        py: Python<'_>,
        blocks: PyBuffer<u64>,
        writes: Option<PyBuffer<u8>>,
        scans: Option<PyBuffer<u8>>,
        streams_bytes: Option<PyBuffer<u32>>,
    ) -> PyResult<PyCacheAccesses> {
        let blocks = blocks.to_vec(py)?;
        let (writes, scans) = (marks(py, writes)?, marks(py, scans)?);
        let streams_bytes = streams_bytes.map_or_else(|| Ok(Vec::new()), |each| each.to_vec(py))?;
        let fits = |count: usize| count == 0 || count == blocks.len();
        if ![writes.len(), scans.len(), streams_bytes.len()].into_iter().all(fits) {
            return Err(PyValueError::new_err("not as many writes, scans or streams as blocks"));
        }
        let accesses = py.detach(|| Accesses::new(&blocks));
        let accesses = accesses.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(PyCacheAccesses(Arc::new(Accesses { writes, scans, streams_bytes, ..accesses })))
    }

    /// How many accesses there are.
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// How many different blocks there are.
    #[getter]
    fn different(&self) -> u32 {
        self.0.different
    }

    /// How many of them are reads.
    #[getter]
    fn reads(&self) -> u64 {
        self.0.reads()
    }

    /// Return how many reads a cache of each capacity serves, in blocks.
    ///
    /// ``block_bytes`` matters to ``linux`` alone, whose lists depend on the size of memory.
    ///
    /// Raises ValueError of an unknown policy or a capacity of 0.
    fn hits(
        &self,
        py: Python<'_>,
        policy: &str,
        capacities_blocks: Vec<usize>,
        block_bytes: u32,
    ) -> PyResult<Vec<u64>> {
        let kind = kind_of(policy)?;
        if capacities_blocks.contains(&0) {
            return Err(PyValueError::new_err("a cache of no block has no policy"));
        }
        let accesses = &self.0;
        Ok(py.detach(|| {
            let hits =
                |&blocks: &usize| kind.cache(blocks, accesses, block_bytes).hits_of(accesses);
            capacities_blocks.iter().map(hits).collect()
        }))
    }

    /// Return the outcome of each access in a cache of a capacity in blocks: one byte each.
    ///
    /// 1 is a miss. 2 is added where a block left for it that was changed and has to be written;
    /// ``changes`` has for each access whether it dirties its block: a buffer of bytes, 0 or 1.
    ///
    /// Raises ValueError of an unknown policy, a capacity of 0, or not as many changes as accesses.
    #[pyo3(signature = (policy, capacity_blocks, block_bytes, *, changes=None))]
    fn outcomes<'py>(
        &self,
        py: Python<'py>,
        policy: &str,
        capacity_blocks: usize,
        block_bytes: u32,
        changes: Option<PyBuffer<u8>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let kind = kind_of(policy)?;
        let changes = marks(py, changes)?;
        if capacity_blocks == 0 {
            return Err(PyValueError::new_err("a cache of no block has no policy"));
        }
        if !changes.is_empty() && changes.len() != self.0.len() {
            return Err(PyValueError::new_err("not as many changes as accesses"));
        }
        let accesses = &self.0;
        let found = py.detach(|| {
            let mut cache = kind.cache(capacity_blocks, accesses, block_bytes);
            traced::outcomes(cache.as_mut(), accesses, &changes)
        });
        Ok(PyBytes::new(py, &found))
    }

    /// Return the hit ratios of LRU caches of the given number of blocks, all from one pass.
    ///
    /// Of a sample of the blocks, ``share`` is theirs and ``all_reads`` counts the reads of all
    /// blocks; ``sizes_blocks`` are those of the whole.
    #[pyo3(signature = (sizes_blocks, *, share=1.0, all_reads=None))]
    fn lru_hit_ratios(
        &self,
        py: Python<'_>,
        sizes_blocks: Vec<u64>,
        share: f64,
        all_reads: Option<u64>,
    ) -> Vec<f64> {
        let all_reads = all_reads.unwrap_or_else(|| self.0.reads());
        py.detach(|| Curve::sampled(&self.0, share, all_reads).hit_ratios(&sizes_blocks))
    }

    /// Simulate memory and a cache device under this load, on a virtual clock.
    ///
    /// Raises ValueError when there are not as many times as accesses, or the device is fed from
    /// memory and there is none, or its policy has no order of eviction.
    fn simulate(&self, py: Python<'_>, setting: &PyCacheSetting) -> PyResult<Vec<PyCacheSlice>> {
        let (accesses, setting) = (&self.0, &setting.0);
        if let Arrivals::Recorded { at_ns } = &setting.load.arrivals
            && at_ns.len() != accesses.len()
        {
            return Err(PyValueError::new_err("times and accesses are not equally many"));
        }
        let has_feed = matches!(setting.admission, Some(Admission::Feed(_)));
        if has_feed && (setting.memory_blocks == 0 || !setting.policy.has_order()) {
            let why = "a feed copies from memory whose policy knows what leaves next";
            return Err(PyValueError::new_err(why));
        }
        let slices = py.detach(|| {
            let memory = (setting.memory_blocks > 0).then(|| {
                setting.policy.cache(setting.memory_blocks, accesses, setting.block_bytes)
            });
            let device = setting.admission.filter(|_| setting.device_blocks > 0).map(|admission| {
                let bytes_per_s = setting.device_write_bytes_per_s;
                let (blocks, bytes) = (accesses.different, setting.block_bytes);
                let found =
                    SecondTier::new(setting.device_blocks, blocks, bytes, admission, bytes_per_s);
                let last = accesses.block_addresses.iter().max().map_or(0, |last| last + 1);
                found.on_storage(&accesses.block_addresses, setting.storage_blocks.max(last))
            });
            simulate(accesses, memory, device, setting.stations.clone(), &setting.load)
        });
        slices.into_iter().map(|slice| cache_slice(py, slice)).collect()
    }
}

struct Setting {
    policy: Kind,
    memory_blocks: usize,
    block_bytes: u32,
    admission: Option<Admission>,
    device_blocks: usize,
    device_write_bytes_per_s: f64,
    storage_blocks: u64,
    stations: Stations,
    load: SimulatedLoad,
}

/// Caches, service stations and arrivals of a simulation.
#[pyclass(frozen, name = "CacheSetting")]
pub struct PyCacheSetting(Setting);

#[pymethods]
impl PyCacheSetting {
    /// Describe a simulation.
    ///
    /// A station is ``(servers, service times in ns of which each is as likely, whether each block
    /// has a server of its own)``. Requests come from ``clients`` that each wait for one before
    /// they send the next, over and over, or at ``at_ns``, once.
    ///
    /// A block that the device holds and memory does not takes ``header_bytes`` of memory. The
    /// storage has ``storage_blocks``, or as many as are accessed at least.
    ///
    /// Raises ValueError of an unknown policy or admission, or of a length of 0.
    #[new]
    #[pyo3(signature = (
        *, policy, memory_blocks, block_bytes, path, device, disk, end_ns, slice_ns, seed,
        clients=None, at_ns=None, admission=None, device_blocks=0,
        device_write_bytes_per_s=0.0, device_at_ns=0, header_bytes=0.0, storage_blocks=0
    ))]
    #[expect(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        policy: &str,
        memory_blocks: usize,
        block_bytes: u32,
        path: (usize, Vec<u64>, bool),
        device: (usize, Vec<u64>, bool),
        disk: (usize, Vec<u64>, bool),
        end_ns: u64,
        slice_ns: u64,
        seed: u64,
        clients: Option<usize>,
        at_ns: Option<PyBuffer<u64>>,
        admission: Option<&str>,
        device_blocks: usize,
        device_write_bytes_per_s: f64,
        device_at_ns: u64,
        header_bytes: f64,
        storage_blocks: u64,
    ) -> PyResult<PyCacheSetting> {
        let arrivals = match (clients, at_ns) {
            (Some(clients), None) => Arrivals::Closed { clients },
            (None, Some(at_ns)) => Arrivals::Recorded { at_ns: at_ns.to_vec(py)? },
            _ => return Err(PyValueError::new_err("either clients or times are needed")),
        };
        if end_ns == 0 || slice_ns == 0 {
            return Err(PyValueError::new_err("a simulation of no length"));
        }
        let admission = match admission {
            None => None,
            Some(name) => Some(Admission::of_name(name).ok_or_else(|| {
                PyValueError::new_err(format!("there is no cache device of kind {name:?}"))
            })?),
        };
        let load = SimulatedLoad {
            arrivals,
            device_at_ns,
            end_ns,
            slice_ns,
            seed,
            header_share: header_bytes / f64::from(block_bytes),
            memory_blocks,
        };
        Ok(PyCacheSetting(Setting {
            policy: kind_of(policy)?,
            memory_blocks,
            block_bytes,
            admission,
            device_blocks,
            device_write_bytes_per_s,
            storage_blocks,
            stations: Stations {
                path: station(path),
                device: station(device),
                disk: station(disk),
            },
            load,
        }))
    }
}

fn station((servers, service_ns, is_striped): (usize, Vec<u64>, bool)) -> Station {
    Station { servers, service_ns, is_striped }
}

/// The requests that ended in a slice of time.
#[pyclass(frozen, get_all, name = "CacheSlice")]
pub struct PyCacheSlice {
    /// Reads that memory served.
    memory_hits: u64,
    /// Reads that the cache device served.
    device_hits: u64,
    /// Reads that the disk served.
    disk_reads: u64,
    /// Writes.
    writes: u64,
    /// Blocks on the cache device at its end.
    device_blocks: u64,
    /// Blocks written to the cache device until its end.
    device_written_blocks: u64,
    /// Blocks that memory has no room for at its end, for the headers of the device's blocks.
    header_blocks: u64,
    /// Response times of its reads.
    latency: Py<PyHistogram>,
}

fn cache_slice(py: Python<'_>, slice: Slice) -> PyResult<PyCacheSlice> {
    Ok(PyCacheSlice {
        memory_hits: slice.memory_hits,
        device_hits: slice.device_hits,
        disk_reads: slice.disk_reads,
        writes: slice.writes,
        device_blocks: slice.device_blocks,
        device_written_blocks: slice.device_written_blocks,
        header_blocks: slice.header_blocks,
        latency: Py::new(py, PyHistogram::from(slice.latency))?,
    })
}

/// Linux's page cache of a capacity in pages of 4 KiB, with its readahead.
#[pyclass(frozen, name = "PageCache")]
pub struct PyPageCache(Mutex<PageCache>);

#[pymethods]
impl PyPageCache {
    /// Make an empty cache; ``window_pages`` are read ahead at most, 0 for none.
    ///
    /// Raises ValueError of a capacity of 0.
    #[new]
    fn new(capacity_pages: usize, window_pages: u64) -> PyResult<PyPageCache> {
        if capacity_pages == 0 {
            return Err(PyValueError::new_err("a cache of no page has no policy"));
        }
        Ok(PyPageCache(Mutex::new(PageCache::new(capacity_pages, window_pages))))
    }

    /// Make reads of several pages; return for each whether a page was absent: bytes, 0 or 1.
    ///
    /// ``first_pages`` is a buffer of unsigned 64-bit numbers; ``files`` says by which open file
    /// each is read: a buffer of unsigned 32-bit numbers.
    ///
    /// Raises ValueError when there are not as many files as reads, or too many pages.
    fn read<'py>(
        &self,
        py: Python<'py>,
        first_pages: PyBuffer<u64>,
        files: PyBuffer<u32>,
        pages: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (first_pages, files) = (first_pages.to_vec(py)?, files.to_vec(py)?);
        if files.len() != first_pages.len() {
            return Err(PyValueError::new_err("not as many files as reads"));
        }
        let found: Result<Vec<u8>, _> = py.detach(|| {
            let mut cache = lock(&self.0);
            let read = |(&file, &page)| cache.read(file, page, pages).map(u8::from);
            files.iter().zip(&first_pages).map(read).collect()
        });
        let found = found.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(PyBytes::new(py, &found))
    }

    /// Return whether a page is in the cache.
    fn __contains__(&self, page: u64) -> bool {
        lock(&self.0).holds(page)
    }

    /// Pages read from the disk, including readahead.
    #[getter]
    fn fetched_pages(&self) -> u64 {
        lock(&self.0).fetched_pages()
    }
}

/// Return which accesses are to blocks of a sample: bytes, 0 or 1, one an access.
#[pyfunction]
pub fn sampled_accesses(
    py: Python<'_>,
    blocks: PyBuffer<u64>,
    share: f64,
    salt: u64,
) -> PyResult<Bound<'_, PyBytes>> {
    let blocks = blocks.to_vec(py)?;
    let is_sampled = |&block: &u64| u8::from(curve::is_sampled(block, share, salt));
    let found: Vec<u8> = py.detach(|| blocks.iter().map(is_sampled).collect());
    Ok(PyBytes::new(py, &found))
}

/// Return how long the sequential stream of each request is with it, or how long those of its
/// process are in the mean if that is more: unsigned 32-bit numbers of bytes, one a request.
///
/// Requests begin at bytes that no two devices have in common, and are in the order of their times
/// (ns). A process below 0 is unknown.
///
/// Raises ValueError when there are not as many of each.
#[pyfunction]
pub fn stream_bytes(
    py: Python<'_>,
    begins_bytes: PyBuffer<u64>,
    lengths_bytes: PyBuffer<u64>,
    arrived_ns: PyBuffer<u64>,
    processes: PyBuffer<i64>,
) -> PyResult<Bound<'_, PyBytes>> {
    let (begins, lengths) = (begins_bytes.to_vec(py)?, lengths_bytes.to_vec(py)?);
    let (times, processes) = (arrived_ns.to_vec(py)?, processes.to_vec(py)?);
    if [lengths.len(), times.len(), processes.len()] != [begins.len(); 3] {
        return Err(PyValueError::new_err("not as many lengths, times or processes as requests"));
    }
    let request = |index: usize| Request {
        begin_bytes: begins[index],
        length_bytes: lengths[index],
        at_ns: times[index],
        process: processes[index],
    };
    let found = py.detach(|| streams::stream_bytes((0..begins.len()).map(request)));
    let bytes: Vec<u8> = found.into_iter().flat_map(u32::to_ne_bytes).collect();
    Ok(PyBytes::new(py, &bytes))
}

/// Return of each policy its name, a description, and whether a feed can copy from it.
#[pyfunction]
pub fn cache_policies() -> Vec<(&'static str, &'static str, bool)> {
    Kind::ALL.iter().map(|kind| (kind.name(), kind.text(), kind.has_order())).collect()
}

/// A kind of cache device.
#[pyclass(frozen, get_all, name = "CacheDeviceKind")]
pub struct PyCacheDeviceKind {
    /// As a user types it.
    name: &'static str,
    /// Its description, a sentence.
    text: &'static str,
    /// Memory that a block on it takes.
    header_bytes: u32,
    /// Whether it is fed from memory.
    is_fed: bool,
    /// How long sequential streams are that it leaves to the disks; None for no limit.
    stream_bytes_max: Option<u32>,
}

/// Return the kinds of cache devices.
#[pyfunction]
pub fn cache_devices() -> Vec<PyCacheDeviceKind> {
    let described = |&(name, text, admission): &(_, _, Admission)| PyCacheDeviceKind {
        name,
        text,
        header_bytes: admission.header_bytes(),
        is_fed: matches!(admission, Admission::Feed(_)),
        stream_bytes_max: admission.stream_bytes_max(),
    };
    DEVICES.iter().map(described).collect()
}

fn kind_of(policy: &str) -> PyResult<Kind> {
    let unknown = || PyValueError::new_err(format!("there is no policy {policy:?}"));
    Kind::of_name(policy).ok_or_else(unknown)
}

fn marks(py: Python<'_>, buffer: Option<PyBuffer<u8>>) -> PyResult<Vec<bool>> {
    let Some(buffer) = buffer else { return Ok(Vec::new()) };
    Ok(buffer.to_vec(py)?.into_iter().map(|each| each != 0).collect())
}
