//! The model of a simulated device, as it stands in a study or a specification.

use serde::Deserialize;

/// What a simulated device is like. All times are virtual.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceModel {
    /// Requests that it serves at the same time.
    #[serde(default = "one")]
    pub channels: u32,
    /// What a read takes.
    #[serde(default)]
    pub read: ServiceTime,
    /// What a write takes.
    #[serde(default)]
    pub write: ServiceTime,
    /// What a sync takes.
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
    /// Times in which the generator, not the device, stands still.
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
    /// What it holds.
    pub size_bytes: u64,
    /// What a write into it takes.
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
        if times.iter().any(|time| !time.is_finite() || *time < 0.0) {
            return Err("service times and noise_share must be 0 or more".into());
        }
        if self.channels == 0 || self.channels > 65_536 {
            return Err("channels must be 1 to 65536".into());
        }
        if !(0.0..=1.0).contains(&self.error_share) {
            return Err("error_share must be 0 to 1".into());
        }
        let spans = self.freezes.iter().chain(&self.generator_pauses);
        if spans.into_iter().any(|span| !(span.start_s >= 0.0 && span.length_s >= 0.0)) {
            return Err("freezes and generator_pauses must not be negative".into());
        }
        if self.gaps.iter().any(|gap| !gap.slowdown_factor.is_finite() || gap.slowdown_factor < 0.0)
        {
            return Err("slowdown_factor must be 0 or more".into());
        }
        let rates = [
            self.write_cache.map(|cache| cache.drain_bytes_per_s),
            self.burst.map(|burst| burst.refill_per_s),
        ];
        if rates.into_iter().flatten().any(|rate| !rate.is_finite() || rate <= 0.0) {
            return Err("drain_bytes_per_s and refill_per_s must be above 0".into());
        }
        Ok(())
    }
}
