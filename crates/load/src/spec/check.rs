//! The checks of a cell's specification, each with its error message.

use seatrial_gauge::Operation;
use seatrial_gauge::clock::monotonic_ns;

use super::{
    AccessSpec, AddressSpec, ArrivalSpec, BurstSpec, CellSpec, DataSpec, LimitSpec, SpecError,
    TargetKind,
};
use crate::address::Grid;
use crate::bounds::{
    BLOCK_BYTES_MAX, DEPTH_MAX, DURATION_S_MAX, OFFSET_BYTES_MAX,
    ONE_PASS_OVER_PROVISIONING_SHARE_MAX, RATE_PER_S_MAX, RATE_PER_S_MIN, SLICE_MS_MAX,
    STALL_THRESHOLD_MS_MAX, START_AHEAD_NS_MAX, THETA_MAX, THREADS_MAX,
};
use crate::verify::SECTOR_BYTES;

type Checked = Result<(), SpecError>;

/// Finds the first thing in `spec` that makes no sense.
pub(super) fn check(spec: &CellSpec) -> Checked {
    check_counts(spec)?;
    check_limit(&spec.limit)?;
    check_start(spec.start_at_ns)?;
    check_arrival("arrival", &spec.arrival)?;
    check_random("arrival", &spec.arrival, spec.threads, spec)?;
    check_streams(spec)?;
    check_target(spec)?;
    check_range(spec)?;
    for (number, access) in spec.accesses.iter().enumerate() {
        let key = format!("accesses[{number}]");
        check_access(&key, access)?;
        check_fits(&key, access, spec)?;
    }
    check_one_pass(spec)?;
    check_data(spec)?;
    check_verifiable(spec)?;
    check_list(spec)?;
    Grid::of(spec).map(drop)
}

fn check_counts(spec: &CellSpec) -> Checked {
    for (key, value, max) in [
        ("threads", u64::from(spec.threads), u64::from(THREADS_MAX)),
        ("depth", u64::from(spec.depth), u64::from(DEPTH_MAX)),
        ("slice_ms", spec.slice_ms, SLICE_MS_MAX),
        ("stall_threshold_ms", spec.stall_threshold_ms, STALL_THRESHOLD_MS_MAX),
    ] {
        ensure((1..=max).contains(&value), key, || format!("is {value}; it must be 1 to {max}"))?;
    }
    ensure(!spec.accesses.is_empty(), "accesses", || {
        "is empty, so nothing would be requested; give at least one".into()
    })
}

fn check_limit(limit: &LimitSpec) -> Checked {
    let duration_s = limit.duration_s;
    ensure(duration_s > 0.0 && duration_s <= DURATION_S_MAX, "limit.duration_s", || {
        format!("is {duration_s}; it must be above 0 s and at most a day ({DURATION_S_MAX} s)")
    })?;
    for (key, value) in [("limit.bytes", limit.bytes), ("limit.operations", limit.operations)] {
        ensure(value != Some(0), key, || {
            "is 0, so the cell would end before it began; give more or leave it out".into()
        })?;
    }
    Ok(())
}

fn check_start(start_at_ns: Option<u64>) -> Checked {
    let ahead_ns = start_at_ns.map_or(0, |at_ns| at_ns.saturating_sub(monotonic_ns()));
    ensure(ahead_ns <= START_AHEAD_NS_MAX, "start_at_ns", || {
        format!("is {} s ahead; it may be 600 s ahead", ahead_ns / 1_000_000_000)
    })
}

fn check_arrival(key: &str, arrival: &ArrivalSpec) -> Checked {
    let (rate_per_s, burst) = match *arrival {
        ArrivalSpec::Closed {} | ArrivalSpec::Listed {} | ArrivalSpec::Streams {} => return Ok(()),
        ArrivalSpec::Think { pause_s, burst, .. } => {
            check_length(format!("{key}.pause_s"), "a pause", pause_s)?;
            return check_burst(key, burst);
        }
        ArrivalSpec::PoissonBursts { rate_per_s, ref bursts } => {
            check_bursts(&format!("{key}.bursts"), bursts)?;
            (rate_per_s, 1)
        }
        ArrivalSpec::Fixed { rate_per_s } | ArrivalSpec::Poisson { rate_per_s } => (rate_per_s, 1),
        ArrivalSpec::Bursts { rate_per_s, burst } | ArrivalSpec::Batches { rate_per_s, burst } => {
            (rate_per_s, burst)
        }
    };
    let is_rate = (RATE_PER_S_MIN..=RATE_PER_S_MAX).contains(&rate_per_s);
    ensure(is_rate, format!("{key}.rate_per_s"), || {
        format!(
            "is {rate_per_s}; a rate must be {RATE_PER_S_MIN} to {RATE_PER_S_MAX} requests per \
             second"
        )
    })?;
    check_burst(key, burst)
}

/// Requests at random times that one thread may have to skip at the end of its sample: each time is
/// drawn, in 10 ns or so, and the sample is closed 10 s after its end.
const RANDOM_REQUESTS_MAX: f64 = 1e8;

/// A thread draws each time of a random schedule, even of the requests that it must skip.
fn check_random(key: &str, arrival: &ArrivalSpec, threads: u32, spec: &CellSpec) -> Checked {
    let (ArrivalSpec::Poisson { rate_per_s }
    | ArrivalSpec::Batches { rate_per_s, .. }
    | ArrivalSpec::PoissonBursts { rate_per_s, .. }) = *arrival
    else {
        return Ok(());
    };
    let is_simulated = spec.target.kind == TargetKind::Simulated;
    let workers = if is_simulated { 1.0 } else { f64::from(threads) };
    let requests = rate_per_s * spec.limit.duration_s / workers;
    ensure(requests <= RANDOM_REQUESTS_MAX, format!("{key}.rate_per_s"), || {
        format!(
            "is {rate_per_s}: {requests:.2e} requests of one thread, but at most \
             {RANDOM_REQUESTS_MAX:.0e} are drawn; give a lower rate, a shorter duration or more \
             threads"
        )
    })
}

fn check_bursts(key: &str, bursts: &[BurstSpec]) -> Checked {
    ensure(!bursts.is_empty(), key, || "is empty, so nothing would come".into())?;
    for (number, burst) in bursts.iter().enumerate() {
        let key = format!("{key}[{number}]");
        ensure(burst.share > 0.0 && burst.share.is_finite(), format!("{key}.share"), || {
            format!("is {}; it must be above 0", burst.share)
        })?;
        ensure(!burst.groups.is_empty(), format!("{key}.groups"), || {
            "is empty, so nothing would come".into()
        })?;
        for group in &burst.groups {
            check_burst(&format!("{key}.groups"), group.requests)?;
            check_length(format!("{key}.groups.spacing_s"), "a spacing", group.spacing_s)?;
            check_length(format!("{key}.groups.pause_s"), "a pause", group.pause_s)?;
        }
    }
    Ok(())
}

fn check_burst(key: &str, burst: u64) -> Checked {
    ensure(burst > 0, format!("{key}.burst"), || "is 0; a burst has at least 1 request".into())
}

fn check_length(key: String, what: &str, length_s: f64) -> Checked {
    ensure((0.0..=DURATION_S_MAX).contains(&length_s), key, || {
        format!("is {length_s}; {what} must be 0 to {DURATION_S_MAX} s")
    })
}

/// Every worker and every access belongs to a stream, and no stream is without them.
fn check_streams(spec: &CellSpec) -> Checked {
    ensure(!matches!(spec.arrival, ArrivalSpec::Think { .. }), "arrival", || {
        "is think, which is the arrival of a stream; give streams".into()
    })?;
    if spec.streams.is_empty() {
        ensure(spec.arrival != ArrivalSpec::Streams {}, "arrival", || {
            "is streams, but the cell has none; give some, or another arrival".into()
        })?;
        return ensure(spec.accesses.iter().all(|access| access.stream == 0), "accesses", || {
            "name a stream, but the cell has none; give streams, or leave it out".into()
        });
    }
    ensure(spec.arrival == ArrivalSpec::Streams {} && spec.sync_every == 0, "streams", || {
        "have their own arrivals and syncs; set arrival to streams, and leave out sync_every".into()
    })?;
    ensure(spec.target.kind != TargetKind::Simulated, "streams", || {
        "cannot be played on a simulated device; choose a file, a device or null".into()
    })?;
    let threads: u64 = spec.streams.iter().map(|stream| u64::from(stream.threads)).sum();
    ensure(threads == u64::from(spec.threads), "streams", || {
        format!("have {threads} threads together, but the cell has {}", spec.threads)
    })?;
    for (number, access) in spec.accesses.iter().enumerate() {
        ensure(access.stream < spec.streams.len(), format!("accesses[{number}].stream"), || {
            format!("is {}; the cell has {} streams, from 0", access.stream, spec.streams.len())
        })?;
    }
    for (number, stream) in spec.streams.iter().enumerate() {
        let key = format!("streams[{number}]");
        check_arrival(&format!("{key}.arrival"), &stream.arrival)?;
        ensure(stream.threads > 0, format!("{key}.threads"), || "is 0; give at least 1".into())?;
        check_random(&format!("{key}.arrival"), &stream.arrival, stream.threads, spec)?;
        ensure((1..=spec.depth).contains(&stream.depth), format!("{key}.depth"), || {
            format!("is {}; it must be 1 to the depth of the cell, {}", stream.depth, spec.depth)
        })?;
        let is_own = !matches!(stream.arrival, ArrivalSpec::Listed {} | ArrivalSpec::Streams {});
        ensure(is_own, format!("{key}.arrival"), || {
            "must be one of a stream alone, such as batches or think".into()
        })?;
        if let ArrivalSpec::Think { burst, .. } = stream.arrival {
            ensure(u64::from(stream.depth) <= burst, format!("{key}.depth"), || {
                format!("is {}; at most {burst} are in flight before each pause", stream.depth)
            })?;
        }
        ensure(spec.accesses.iter().any(|access| access.stream == number), key, || {
            "has no access, so nothing would be requested; give one, or leave it out".into()
        })?;
    }
    Ok(())
}

fn check_target(spec: &CellSpec) -> Checked {
    let target = &spec.target;
    let is_file = target.kind == TargetKind::File;
    ensure(!is_file || target.path.is_some(), "target.path", || {
        "is missing; a file target needs the path of a file or of a block device".into()
    })?;
    let is_modelled = target.kind == TargetKind::Simulated;
    ensure(!is_modelled || target.model.is_some(), "target.model", || {
        "is missing; a simulated target needs the model of its device".into()
    })?;
    ensure(target.idle_s >= 0.0 && target.idle_s.is_finite(), "target.idle_s", || {
        format!("is {}; a device is left alone for 0 s or longer", target.idle_s)
    })?;
    let copies = spec.accesses.iter().any(|access| access.operation == Operation::Copy);
    ensure(!(is_file && copies) || target.copy_to.is_some(), "target.copy_to", || {
        "is missing, but an access copies; give the path of the file to copy to".into()
    })
}

fn check_range(spec: &CellSpec) -> Checked {
    let (range, size_bytes) = (spec.range, spec.target.size_bytes);
    let end_bytes = range.start_bytes.checked_add(range.length_bytes);
    let is_offset = end_bytes.is_some_and(|end| end <= OFFSET_BYTES_MAX);
    ensure(is_offset, "range", || {
        let (start, length) = (range.start_bytes, range.length_bytes);
        format!("starts at byte {start} and is {length} bytes long, which is past any target")
    })?;
    let fits = end_bytes.is_some_and(|end| end <= size_bytes);
    ensure(fits || spec.target.kind == TargetKind::Null, "range", || {
        let end_bytes = end_bytes.unwrap_or(u64::MAX);
        format!(
            "ends at byte {end_bytes}, but the target has {size_bytes} bytes; \
             shorten the range or enlarge the target"
        )
    })
}

fn check_access(key: &str, access: &AccessSpec) -> Checked {
    check_weight(&format!("{key}.weight"), access.weight)?;
    let align_bytes = access.align_bytes;
    ensure(align_bytes > 0, format!("{key}.align_bytes"), || {
        "is 0; give 512, or whatever every offset shall be a multiple of".into()
    })?;
    ensure(!access.sizes.is_empty(), format!("{key}.sizes"), || {
        "is empty; give at least one block size".into()
    })?;
    let is_sequential = access.address == AddressSpec::Sequential {};
    for (number, size) in access.sizes.iter().enumerate() {
        let (key, bytes) = (format!("{key}.sizes[{number}]"), size.bytes);
        check_weight(&format!("{key}.weight"), size.weight)?;
        ensure((1..=BLOCK_BYTES_MAX).contains(&bytes), format!("{key}.bytes"), || {
            format!("is {bytes}; a block has 1 to {BLOCK_BYTES_MAX} bytes (1 GiB)")
        })?;
        ensure(is_sequential || bytes % align_bytes == 0, format!("{key}.bytes"), || {
            format!(
                "is {bytes}, which is not a multiple of align_bytes ({align_bytes}); \
                 change one of them, or address sequentially"
            )
        })?;
    }
    check_address(&format!("{key}.address"), &access.address)
}

fn check_weight(key: &str, weight: f64) -> Checked {
    ensure(weight > 0.0 && weight.is_finite(), key, || {
        format!("is {weight}; a weight must be above 0: leave out what shall never be chosen")
    })
}

fn check_address(key: &str, address: &AddressSpec) -> Checked {
    match *address {
        // A stride is a matter of the range: see check_fits.
        AddressSpec::Random {} | AddressSpec::Sequential {} | AddressSpec::Strided { .. } => Ok(()),
        AddressSpec::Zipf { theta } => {
            ensure((0.0..=THETA_MAX).contains(&theta), format!("{key}.theta"), || {
                format!("is {theta}; it must be 0 (uniform) to {THETA_MAX}; 0.99 is customary")
            })
        }
        AddressSpec::HotCold { hot_share, hot_access_share } => {
            ensure(hot_share > 0.0 && hot_share <= 1.0, format!("{key}.hot_share"), || {
                format!("is {hot_share}; the hot share of the range must be above 0 and at most 1")
            })?;
            let is_share = (0.0..=1.0).contains(&hot_access_share);
            ensure(is_share, format!("{key}.hot_access_share"), || {
                format!("is {hot_access_share}; a share of the requests must be 0 to 1")
            })
        }
        AddressSpec::OnePass { over_provisioning_share: share } => {
            let is_share = share > 0.0 && share <= ONE_PASS_OVER_PROVISIONING_SHARE_MAX;
            ensure(is_share, format!("{key}.over_provisioning_share"), || {
                let max = ONE_PASS_OVER_PROVISIONING_SHARE_MAX;
                format!("is {share}; it must be above 0 and at most {max}")
            })
        }
    }
}

/// At least one block of every size fits, behind the first offset that is a multiple of the
/// access's alignment; and so does the stride.
fn check_fits(key: &str, access: &AccessSpec, spec: &CellSpec) -> Checked {
    let (align_bytes, size_bytes) = (access.align_bytes, access.size_bytes_max());
    let start_bytes = spec.range.start_bytes.checked_next_multiple_of(align_bytes);
    let end_bytes = start_bytes.and_then(|start| start.checked_add(size_bytes));
    let range_end_bytes = spec.range.start_bytes.saturating_add(spec.range.length_bytes);
    let fits = end_bytes.is_some_and(|end| end <= range_end_bytes);
    ensure(fits, format!("{key}.sizes"), || {
        let length_bytes = spec.range.length_bytes;
        format!(
            "has a block of {size_bytes} bytes, which does not fit into the range of \
             {length_bytes} bytes at a multiple of {align_bytes}; enlarge the range"
        )
    })?;
    let AddressSpec::Strided { stride_bytes } = access.address else { return Ok(()) };
    let strides = stride_bytes > 0
        && stride_bytes % align_bytes == 0
        && stride_bytes <= spec.range.length_bytes;
    ensure(strides, format!("{key}.address.stride_bytes"), || {
        format!(
            "is {stride_bytes}; a stride must be a multiple of align_bytes ({align_bytes}) and \
             not longer than the range"
        )
    })
}

/// A one-pass fill is all that its cell does, as its end is the cell's, and every write of it must
/// be made: none may be left out because its block is in flight.
fn check_one_pass(spec: &CellSpec) -> Checked {
    let is_one_pass = |access: &AccessSpec| matches!(access.address, AddressSpec::OnePass { .. });
    let Some(number) = spec.accesses.iter().position(is_one_pass) else { return Ok(()) };
    let (key, access) = (format!("accesses[{number}]"), &spec.accesses[number]);
    ensure(spec.accesses.len() == 1, &key, || {
        "is a one-pass fill next to other accesses; give it a separate cell".into()
    })?;
    ensure(access.operation.writes(), format!("{key}.operation"), || {
        "does not write, so nothing would be filled; write with a one-pass fill".into()
    })?;
    let is_of_one_size = access.sizes.len() == 1 && access.sizes[0].bytes == access.align_bytes;
    ensure(is_of_one_size, format!("{key}.sizes"), || {
        let align_bytes = access.align_bytes;
        format!("must be one size, align_bytes ({align_bytes}), for blocks that never overlap")
    })?;
    ensure(!spec.is_verifiable(), "data", || {
        "is verifiable, which a one-pass fill cannot be; fill with random data".into()
    })
}

fn check_data(spec: &CellSpec) -> Checked {
    if let DataSpec::Compressible { share } = spec.data {
        ensure((0.0..=1.0).contains(&share), "data.share", || {
            format!("is {share}; the share that compresses away must be 0 to 1")
        })?;
    }
    ensure(!spec.verify || spec.is_verifiable(), "verify", || {
        "is true, but the data cannot be verified; set data.kind to \"verifiable\"".into()
    })
}

fn check_verifiable(spec: &CellSpec) -> Checked {
    if !spec.is_verifiable() {
        return Ok(());
    }
    for (number, access) in spec.accesses.iter().enumerate() {
        let key = format!("accesses[{number}]");
        let align_bytes = access.align_bytes;
        ensure(align_bytes % SECTOR_BYTES == 0, format!("{key}.align_bytes"), || {
            format!("is {align_bytes}; verifiable data needs multiples of {SECTOR_BYTES}")
        })?;
        for size in &access.sizes {
            let bytes = size.bytes;
            ensure(bytes % SECTOR_BYTES == 0, format!("{key}.sizes"), || {
                format!("has {bytes}; verifiable data needs multiples of {SECTOR_BYTES}")
            })?;
            ensure(bytes % align_bytes == 0, format!("{key}.sizes"), || {
                format!(
                    "has {bytes}; verifiable data needs multiples of align_bytes ({align_bytes})"
                )
            })?;
        }
    }
    Ok(())
}

/// A list is played by one worker, which keeps its order, and all of it or up to a limit.
fn check_list(spec: &CellSpec) -> Checked {
    if spec.list.is_none() {
        return ensure(spec.arrival != ArrivalSpec::Listed {}, "arrival", || {
            "is listed, but the cell has no list; give one, or another arrival".into()
        });
    }
    let is_drawn = !matches!(spec.arrival, ArrivalSpec::Closed {} | ArrivalSpec::Listed {});
    ensure(!is_drawn, "arrival", || {
        "must be listed or closed where requests are listed; their times are in the list".into()
    })?;
    ensure(spec.threads == 1, "threads", || {
        format!("is {}; one thread plays a list, in its order", spec.threads)
    })?;
    ensure(spec.target.kind != TargetKind::Simulated, "list", || {
        "cannot be played on a simulated device; choose a file, a device or null".into()
    })?;
    ensure(spec.sync_every == 0 && !spec.is_verifiable(), "list", || {
        "contains its own syncs and no verifiable data; leave out sync_every and data".into()
    })
}

/// `Ok` when `holds`, else the refusal of `key` with the message of `problem`.
fn ensure(holds: bool, key: impl Into<String>, problem: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(SpecError::Refused { key: key.into(), problem: problem() }) }
}
