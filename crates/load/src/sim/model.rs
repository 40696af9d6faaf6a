//! The model of a simulated device, as written in a study or a specification.

use serde::Deserialize;

use crate::bounds::{
    CHANNELS_MAX, ERRNO_MAX, FLASH_BLOCK_PAGES_MAX, FLASH_BLOCK_PAGES_MIN,
    FLASH_OVER_PROVISIONING_SHARE_MAX, FLASH_PAGE_BYTES_MAX, FLASH_PAGE_BYTES_MIN,
    MODEL_AMOUNT_MAX,
};

/// The model of a simulated device. All times are virtual.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceModel {
    /// Requests that it serves at the same time.
    #[serde(default = "one")]
    pub channels: u32,
    /// Service time of a read.
    #[serde(default)]
    pub read: ServiceTime,
    /// Service time of a write.
    #[serde(default)]
    pub write: ServiceTime,
    /// Service time of a sync.
    #[serde(default = "sync_us")]
    pub sync_us: f64,
    /// Scatter of each service time: it is multiplied by 1 plus an exponential of this mean.
    #[serde(default)]
    pub noise_share: f64,
    /// A cache that takes writes fast until it is full.
    #[serde(default)]
    pub write_cache: Option<WriteCache>,
    /// A rate above which the device goes only while its credit lasts.
    #[serde(default)]
    pub burst: Option<BurstCredit>,
    /// Times in which nothing completes.
    #[serde(default)]
    pub freezes: Vec<Span>,
    /// Times in which the generator, not the device, is paused.
    #[serde(default)]
    pub generator_pauses: Vec<Span>,
    /// Block sizes that are served slower than the rest.
    #[serde(default)]
    pub gaps: Vec<Gap>,
    /// Share of the requests that fail, 0 to 1.
    #[serde(default)]
    pub error_share: f64,
    /// Error number of those.
    #[serde(default = "eio")]
    pub errno: i32,
    /// From then on every request fails with ENODEV.
    #[serde(default)]
    pub vanishes_at_s: Option<f64>,
    /// Whether the next sample under the same `target.state_key` finds the cache, the credit and
    /// the flash as this one left them.
    #[serde(default)]
    pub lasting: bool,
    /// The flash below, whose collection of garbage slows writes.
    #[serde(default)]
    pub ftl: Option<FtlModel>,
}

/// A service time: a fixed part and one for each KiB.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceTime {
    /// The fixed part.
    pub base_us: f64,
    /// For each KiB.
    #[serde(default)]
    pub per_kib_us: f64,
}

impl Default for ServiceTime {
    fn default() -> ServiceTime {
        ServiceTime { base_us: 100.0, per_kib_us: 0.5 }
    }
}

/// A write cache.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteCache {
    /// Its capacity.
    pub size_bytes: u64,
    /// Service time of a write into it.
    pub hit_us: f64,
    /// How fast it empties.
    pub drain_bytes_per_s: f64,
}

/// A token bucket: one token a request.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstCredit {
    /// Tokens at the start, and at most.
    pub credit_operations: f64,
    /// Tokens that come back.
    pub refill_per_s: f64,
}

/// A flash translation layer: pages written out of place, blocks erased as a whole, and the garbage
/// in between collected from the block that holds the fewest pages still valid (greedy).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FtlModel {
    /// Flash beyond the target's size, as a share of that size.
    #[serde(default = "over_provisioning_share")]
    pub over_provisioning_share: f64,
    /// The unit of the map.
    #[serde(default = "page_bytes")]
    pub page_bytes: u64,
    /// Pages that are erased together.
    #[serde(default = "pages_per_block")]
    pub pages_per_block: u32,
    /// Time to read a page, in addition to the read's own time.
    #[serde(default = "page_read_us")]
    pub read_us: f64,
    /// Time to program a page, in addition to the write's own time.
    #[serde(default = "page_program_us")]
    pub program_us: f64,
    /// Time to erase a block.
    #[serde(default = "block_erase_us")]
    pub erase_us: f64,
}

/// A span of virtual time from the sample's start.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// When it begins.
    pub start_s: f64,
    /// How long it lasts.
    pub length_s: f64,
}

/// Block sizes that are served slower.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// Smallest of them.
    pub from_bytes: u64,
    /// Largest of them.
    pub to_bytes: u64,
    /// How many times slower.
    pub slowdown_factor: f64,
}

fn one() -> u32 {
    1
}

fn sync_us() -> f64 {
    500.0
}

fn eio() -> i32 {
    libc::EIO
}

fn over_provisioning_share() -> f64 {
    0.07
}

fn page_bytes() -> u64 {
    4096
}

fn pages_per_block() -> u32 {
    256
}

fn page_read_us() -> f64 {
    10.0
}

fn page_program_us() -> f64 {
    20.0
}

fn block_erase_us() -> f64 {
    3000.0
}

impl DeviceModel {
    /// Reads a model; `None` gives the plain default device.
    ///
    /// # Errors
    ///
    /// A sentence that names the key.
    pub fn parse(value: Option<&serde_json::Value>) -> Result<DeviceModel, String> {
        let empty = serde_json::Value::Object(serde_json::Map::new());
        let model: DeviceModel = serde_json::from_value(value.unwrap_or(&empty).clone())
            .map_err(|error| error.to_string())?;
        model.check()?;
        Ok(model)
    }

    fn check(&self) -> Result<(), String> {
        let times = [
            self.read.base_us,
            self.read.per_kib_us,
            self.write.base_us,
            self.write.per_kib_us,
            self.sync_us,
            self.noise_share,
        ];
        if !times.iter().all(is_amount) {
            return Err(format!("service times and noise_share must be 0 to {MODEL_AMOUNT_MAX}"));
        }
        if !(1..=CHANNELS_MAX).contains(&self.channels) {
            return Err(format!("channels must be 1 to {CHANNELS_MAX}"));
        }
        if !(1..=ERRNO_MAX).contains(&self.errno) {
            return Err(format!("errno must be 1 to {ERRNO_MAX}"));
        }
        if !(0.0..=1.0).contains(&self.error_share) {
            return Err("error_share must be 0 to 1".into());
        }
        let spans = self.freezes.iter().chain(&self.generator_pauses);
        if spans.into_iter().any(|span| !(span.start_s >= 0.0 && span.length_s >= 0.0)) {
            return Err("freezes and generator_pauses must not be negative".into());
        }
        if !self.gaps.iter().all(|gap| is_amount(&gap.slowdown_factor)) {
            return Err(format!("slowdown_factor must be 0 to {MODEL_AMOUNT_MAX}"));
        }
        let rates = [
            self.write_cache.map(|cache| cache.drain_bytes_per_s),
            self.burst.map(|burst| burst.refill_per_s),
        ];
        if !rates.iter().flatten().all(|rate| is_amount(rate) && *rate > 0.0) {
            return Err(format!(
                "drain_bytes_per_s and refill_per_s must be above 0 and at most {MODEL_AMOUNT_MAX}"
            ));
        }
        self.ftl.map_or(Ok(()), |ftl| ftl.check())
    }
}

impl FtlModel {
    fn check(&self) -> Result<(), String> {
        let share = self.over_provisioning_share;
        if !(share > 0.0 && share <= FLASH_OVER_PROVISIONING_SHARE_MAX) {
            return Err(format!(
                "ftl.over_provisioning_share must be above 0 and at most \
                 {FLASH_OVER_PROVISIONING_SHARE_MAX}"
            ));
        }
        let page_bytes = self.page_bytes;
        if !(FLASH_PAGE_BYTES_MIN..=FLASH_PAGE_BYTES_MAX).contains(&page_bytes)
            || page_bytes % FLASH_PAGE_BYTES_MIN != 0
        {
            return Err(format!(
                "ftl.page_bytes must be a multiple of {FLASH_PAGE_BYTES_MIN}, at most \
                 {FLASH_PAGE_BYTES_MAX}"
            ));
        }
        if !(FLASH_BLOCK_PAGES_MIN..=FLASH_BLOCK_PAGES_MAX).contains(&self.pages_per_block) {
            return Err(format!(
                "ftl.pages_per_block must be {FLASH_BLOCK_PAGES_MIN} to {FLASH_BLOCK_PAGES_MAX}"
            ));
        }
        if ![self.read_us, self.program_us, self.erase_us].iter().all(is_amount) {
            return Err(format!(
                "the ftl's read_us, program_us and erase_us must be 0 to {MODEL_AMOUNT_MAX}"
            ));
        }
        Ok(())
    }
}

/// Whether it is a valid time, factor or rate.
fn is_amount(amount: &f64) -> bool {
    (0.0..=MODEL_AMOUNT_MAX).contains(amount)
}
