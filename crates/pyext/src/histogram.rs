//! `Histogram`: the log-linear histogram for Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use seatrial_gauge::Histogram;
use seatrial_gauge::histogram::{bucket_low_ns, bucket_width_ns};

/// Log-linear histogram of ns, buckets at most 0.8 % wide.
#[pyclass(frozen, name = "Histogram")]
pub struct PyHistogram(Histogram);

impl From<Histogram> for PyHistogram {
    fn from(histogram: Histogram) -> PyHistogram {
        PyHistogram(histogram)
    }
}

#[pymethods]
impl PyHistogram {
    /// Read an encoded histogram; raises ValueError when the bytes are not one.
    #[staticmethod]
    fn decode(blob: &[u8]) -> PyResult<PyHistogram> {
        Histogram::decode(blob)
            .map(PyHistogram)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Build a histogram of values in ns.
    #[staticmethod]
    fn of(values_ns: Vec<u64>) -> PyHistogram {
        let mut histogram = Histogram::new();
        values_ns.into_iter().for_each(|value_ns| histogram.record(value_ns));
        PyHistogram(histogram)
    }

    /// Build a histogram of values in ns and how often each occurred.
    ///
    /// Raises ValueError when there are not as many counts as values, when one of either is
    /// negative or beyond 64 bits, or when the counts add up to more than 64 bits hold.
    #[staticmethod]
    fn from_counts(
        values_ns: &Bound<'_, PyAny>,
        counts: &Bound<'_, PyAny>,
    ) -> PyResult<PyHistogram> {
        let (values_ns, counts) = (natural(values_ns)?, natural(counts)?);
        Histogram::from_counts(&values_ns, &counts)
            .map(PyHistogram)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Return the canonical bytes: equal contents give equal bytes.
    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.encode())
    }

    /// Return the sum of both; exact, order does not matter.
    fn merged(&self, other: &PyHistogram) -> PyHistogram {
        let mut sum = self.0.clone();
        sum.merge(&other.0);
        PyHistogram(sum)
    }

    /// Return the value (ns) that ``percent`` of the entries do not exceed; 0 when empty.
    fn percentile_ns(&self, percent: f64) -> u64 {
        self.0.percentile_ns(percent)
    }

    /// Return lower bounds (ns, inclusive), upper bounds (ns, exclusive) and counts > 0.
    fn buckets(&self) -> (Vec<u64>, Vec<u64>, Vec<u64>) {
        let (mut lows, mut highs, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for (bucket, count) in self.0.buckets() {
            lows.push(bucket_low_ns(bucket));
            highs.push(bucket_low_ns(bucket).saturating_add(bucket_width_ns(bucket)));
            counts.push(count);
        }
        (lows, highs, counts)
    }

    /// Entries.
    #[getter]
    fn count(&self) -> u64 {
        self.0.entries()
    }

    /// Exact mean; 0 when empty.
    #[getter]
    fn mean_ns(&self) -> f64 {
        self.0.mean_ns()
    }

    /// Exact minimum; 0 when empty.
    #[getter]
    fn min_ns(&self) -> u64 {
        self.0.min_ns()
    }

    /// Exact maximum; 0 when empty.
    #[getter]
    fn max_ns(&self) -> u64 {
        self.0.max_ns()
    }

    fn __len__(&self) -> usize {
        self.0.entries() as usize
    }

    fn __eq__(&self, other: &PyHistogram) -> bool {
        self.0 == other.0
    }

    fn __repr__(&self) -> String {
        format!(
            "Histogram({} entries, {} to {} ns)",
            self.0.entries(),
            self.0.min_ns(),
            self.0.max_ns()
        )
    }
}

/// Return whole numbers of 64 bits; ValueError, not OverflowError, for a number beyond them.
fn natural(numbers: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    numbers.extract().map_err(|error: PyErr| PyValueError::new_err(error.to_string()))
}
