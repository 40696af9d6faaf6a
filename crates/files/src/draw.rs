//! Amounts: fixed numbers, or random ones from a distribution.

use rand_distr::{Distribution, Exp, Gamma, LogNormal, Normal, Triangular, Uniform, Weibull};
use rand_xoshiro::Xoshiro256PlusPlus;
use seatrial_load::rng::below;
use serde::Deserialize;

use crate::spec::SpecError;

/// A number as written, or a random one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum NumberSpec {
    /// Always the same.
    Fixed(f64),
    /// Drawn anew each time.
    Random(Box<RandomSpec>),
}

/// A random number: its distribution, then its limits, then its rounding.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomSpec {
    /// The distribution.
    pub law: DistributionSpec,
    /// Smallest value.
    #[serde(default)]
    pub min: Option<f64>,
    /// Largest value.
    #[serde(default)]
    pub max: Option<f64>,
    /// Values are multiples of this; 0 for any.
    #[serde(default)]
    pub round: f64,
}

/// A distribution by its parameters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
#[expect(missing_docs, reason = "the parameters are named as in textbooks")]
pub enum DistributionSpec {
    Uniform {
        lower: f64,
        upper: f64,
    },
    /// Gamma with the given mean above `floor`.
    Gamma {
        mean: f64,
        shape: f64,
        #[serde(default)]
        floor: f64,
    },
    Exponential {
        mean: f64,
    },
    Normal {
        mean: f64,
        sigma: f64,
    },
    /// `scale` times e to the power of a normal number with deviation `shape`.
    Lognormal {
        shape: f64,
        scale: f64,
    },
    Weibull {
        shape: f64,
        scale: f64,
    },
    Triangular {
        lower: f64,
        upper: f64,
        mode: f64,
    },
    /// Rows of share, lower and upper end: a row by its share, then evenly within it.
    Table {
        rows: Vec<(f64, f64, f64)>,
    },
}

impl NumberSpec {
    /// Draws a number; at least 0.
    pub fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> f64 {
        match self {
            NumberSpec::Fixed(number) => number.max(0.0),
            NumberSpec::Random(random) => random.draw(rng),
        }
    }

    /// Draws a whole number.
    pub fn draw_whole(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        self.draw(rng).round() as u64
    }

    /// What it hardly exceeds: buffers are as large.
    pub fn largest(&self) -> f64 {
        match self {
            NumberSpec::Fixed(number) => *number,
            NumberSpec::Random(random) => random.max.unwrap_or_else(|| random.law.largest()),
        }
    }

    /// # Errors
    ///
    /// [`SpecError::Number`] when a number is not finite or a parameter is out of its range.
    pub fn check(&self) -> Result<(), SpecError> {
        match self {
            NumberSpec::Fixed(number) if number.is_finite() => Ok(()),
            NumberSpec::Fixed(number) => {
                Err(SpecError::Number(format!("{number} is not a number")))
            }
            NumberSpec::Random(random) => random.law.check(),
        }
    }
}

impl RandomSpec {
    fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> f64 {
        let mut value = self.law.draw(rng);
        if self.round > 0.0 {
            value = (value / self.round).round() * self.round;
        }
        let max = self.max.unwrap_or(f64::MAX);
        let value = value.max(self.min.unwrap_or(0.0)).min(max).max(0.0);
        if value.is_finite() { value } else { 0.0 }
    }
}

impl DistributionSpec {
    /// The source of the forms: Filebench's custom variables (cvar-*) and randvar.
    fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> f64 {
        let value = match *self {
            DistributionSpec::Uniform { lower, upper } if lower < upper => {
                Uniform::new(lower, upper).ok().map(|law| law.sample(rng))
            }
            DistributionSpec::Uniform { lower, .. } => Some(lower),
            DistributionSpec::Gamma { mean, shape, floor } => {
                let law = Gamma::new(shape, (mean - floor) / shape).ok();
                law.map(|law| law.sample(rng) + floor)
            }
            DistributionSpec::Exponential { mean } => {
                Exp::new(1.0 / mean).ok().map(|law| law.sample(rng))
            }
            DistributionSpec::Normal { mean, sigma } => {
                Normal::new(mean, sigma).ok().map(|law| law.sample(rng))
            }
            DistributionSpec::Lognormal { shape, scale } => {
                LogNormal::new(scale.ln(), shape).ok().map(|law| law.sample(rng))
            }
            DistributionSpec::Weibull { shape, scale } => {
                Weibull::new(scale, shape).ok().map(|law| law.sample(rng))
            }
            DistributionSpec::Triangular { lower, upper, mode } => {
                Triangular::new(lower, upper, mode).ok().map(|law| law.sample(rng))
            }
            DistributionSpec::Table { ref rows } => Some(from_table(rows, rng)),
        };
        value.unwrap_or(0.0)
    }

    fn largest(&self) -> f64 {
        match self {
            DistributionSpec::Uniform { upper, .. }
            | DistributionSpec::Triangular { upper, .. } => *upper,
            DistributionSpec::Table { rows } => rows.iter().map(|row| row.2).fold(0.0, f64::max),
            // Buffers grow where a draw is larger still.
            DistributionSpec::Gamma { mean, .. } | DistributionSpec::Exponential { mean } => {
                8.0 * mean
            }
            DistributionSpec::Normal { mean, sigma } => mean + 6.0 * sigma,
            DistributionSpec::Lognormal { scale, .. } | DistributionSpec::Weibull { scale, .. } => {
                8.0 * scale
            }
        }
    }

    fn check(&self) -> Result<(), SpecError> {
        let is_right = match *self {
            DistributionSpec::Uniform { lower, upper } => lower <= upper,
            DistributionSpec::Gamma { mean, shape, floor } => {
                Gamma::new(shape, (mean - floor) / shape).is_ok()
            }
            DistributionSpec::Exponential { mean } => mean > 0.0,
            DistributionSpec::Normal { mean, sigma } => Normal::new(mean, sigma).is_ok(),
            DistributionSpec::Lognormal { shape, scale } => {
                scale > 0.0 && LogNormal::new(scale.ln(), shape).is_ok()
            }
            DistributionSpec::Weibull { shape, scale } => Weibull::new(scale, shape).is_ok(),
            DistributionSpec::Triangular { lower, upper, mode } => {
                Triangular::new(lower, upper, mode).is_ok()
            }
            DistributionSpec::Table { ref rows } => {
                rows.iter().map(|row| row.0).sum::<f64>() > 0.0
                    && rows.iter().all(|row| row.0 >= 0.0 && row.1 <= row.2)
            }
        };
        if is_right && self.largest().is_finite() {
            return Ok(());
        }
        Err(SpecError::Number(format!("{self:?} has a parameter out of its range")))
    }
}

/// A random number in `[0, 1)`.
pub fn unit(rng: &mut Xoshiro256PlusPlus) -> f64 {
    below(rng, 1 << 53) as f64 / (1u64 << 53) as f64
}

fn from_table(rows: &[(f64, f64, f64)], rng: &mut Xoshiro256PlusPlus) -> f64 {
    let total: f64 = rows.iter().map(|row| row.0).sum();
    let mut left = unit(rng) * total;
    for &(share, lower, upper) in rows {
        if left < share {
            return lower + unit(rng) * (upper - lower);
        }
        left -= share;
    }
    rows.last().map_or(0.0, |row| row.2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seatrial_load::rng::stream;

    fn mean(law: DistributionSpec) -> f64 {
        let amount =
            NumberSpec::Random(Box::new(RandomSpec { law, min: None, max: None, round: 0.0 }));
        assert_eq!(amount.check(), Ok(()));
        let mut rng = stream(1, "test", 0);
        (0..40_000).map(|_| amount.draw(&mut rng)).sum::<f64>() / 40_000.0
    }

    /// The means that the textbooks give, within five standard errors of 40,000 draws.
    #[test]
    fn each_law_has_the_mean_of_its_parameters() {
        let close = |found: f64, expected: f64| {
            assert!((found / expected - 1.0).abs() < 0.03, "{found}, not {expected}");
        };
        close(mean(DistributionSpec::Uniform { lower: 4096.0, upper: 8192.0 }), 6144.0);
        close(mean(DistributionSpec::Gamma { mean: 16384.0, shape: 1.5, floor: 0.0 }), 16384.0);
        close(mean(DistributionSpec::Gamma { mean: 5632.0, shape: 1.5, floor: 1024.0 }), 5632.0);
        close(mean(DistributionSpec::Exponential { mean: 50.0 }), 50.0);
        close(mean(DistributionSpec::Normal { mean: 100.0, sigma: 10.0 }), 100.0);
        close(
            mean(DistributionSpec::Lognormal { shape: 0.5, scale: 100.0 }),
            100.0 * (0.125f64).exp(),
        );
        close(mean(DistributionSpec::Weibull { shape: 1.0, scale: 70.0 }), 70.0);
        close(mean(DistributionSpec::Triangular { lower: 0.0, upper: 9.0, mode: 3.0 }), 4.0);
        close(
            mean(DistributionSpec::Table { rows: vec![(80.0, 10.0, 10.0), (20.0, 100.0, 200.0)] }),
            38.0,
        );
    }

    #[test]
    fn limits_and_rounding_are_kept() {
        let law = DistributionSpec::Gamma { mean: 5000.0, shape: 1.5, floor: 0.0 };
        let random = RandomSpec { law, min: Some(1024.0), max: Some(9216.0), round: 1024.0 };
        let amount = NumberSpec::Random(Box::new(random));
        let mut rng = stream(2, "test", 0);
        for _ in 0..10_000 {
            let value = amount.draw_whole(&mut rng);
            assert!((1024..=9216).contains(&value) && value % 1024 == 0, "{value}");
        }
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        let refused = |law: DistributionSpec| {
            let random = RandomSpec { law, min: None, max: None, round: 0.0 };
            NumberSpec::Random(Box::new(random)).check().is_err()
        };
        assert!(refused(DistributionSpec::Gamma { mean: -1.0, shape: 1.5, floor: 0.0 }));
        assert!(refused(DistributionSpec::Uniform { lower: 2.0, upper: 1.0 }));
        assert!(refused(DistributionSpec::Exponential { mean: 0.0 }));
        assert!(refused(DistributionSpec::Lognormal { shape: 1.0, scale: -2.0 }));
        assert!(refused(DistributionSpec::Table { rows: vec![] }));
        assert!(NumberSpec::Fixed(f64::NAN).check().is_err());
    }
}
