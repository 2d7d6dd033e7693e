//! Measures the fastest [`Prefetch`] for each format of a model, with the weights of the model.
//!
//! A *pass* multiplies one token with a sample of a format's matrices. Passes alternate between the
//! formats, so that a sample has left the caches when it is read again, as in decode.

use super::{Prefetch, Target};
use crate::blocks::Quant;
use crate::fused::norm_linears;
use crate::linear::{Linear, MatmulPrecision, takes_bf16};
use crate::matrix::{Layout, Matrix};
use crate::shape::ShapeError;
use crate::team;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum bytes of the samples of all formats. With fewer, nothing is measured: they may stay in
/// the caches.
const MIN_BYTES: usize = 48 << 20;
/// Maximum bytes of the samples of all formats: more than the caches of desktop CPUs. On a server
/// with a larger cache, the choice is made for weights in the cache.
const SAMPLE_BYTES: usize = 96 << 20;
/// Minimum bytes of the sample of a format. Formats with less are not measured: they hardly affect
/// the speed of the model.
const MIN_SAMPLE_BYTES: usize = 4 << 20;
/// Minimum bytes of a row. Matrices with shorter rows are not measured: most of their time is not
/// spent on weights.
const MIN_ROW_BYTES: usize = 256;
/// Choices that are measured, including the defaults of all CPUs.
const CANDIDATES: [Prefetch; 8] = [
    Prefetch::NONE,
    Prefetch::new(Target::T1, 512),
    Prefetch::new(Target::T1, 1024),
    Prefetch::new(Target::T1, 2048),
    Prefetch::new(Target::T1, 4096),
    Prefetch::new(Target::T0, 1024),
    Prefetch::new(Target::T0, 4096),
    Prefetch::new(Target::Nta, 4096),
];
/// Number of candidates in each round: the fastest so far, always including the CPU's default.
const ROUNDS: [usize; 8] = [CANDIDATES.len(), 4, 3, 2, 2, 2, 2, 2];
/// Minimum speedup over the CPU's default, in both the median and the fastest pass, because single
/// passes are noisy.
const MIN_GAIN: f64 = 1.03;
/// Minimum passes of both candidates of a comparison.
const MIN_PASSES: usize = 3;

/// The choice for a format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibrated {
    /// The format.
    pub quant: Quant,
    /// The choice.
    pub choice: Prefetch,
    /// Bytes of weights multiplied per second with this choice.
    pub bytes_per_second: f64,
}

/// Measures the fastest [`Prefetch`] for the formats of these weights that have no choice yet, and
/// chooses it. Takes about `budget`, on all threads of the team, after reading the samples once.
/// Does nothing if the weights may stay in the caches, if `HEARTH_PREFETCH` is set, or on CPUs
/// other than x86-64.
///
/// # Errors
/// If a weight cannot be multiplied.
pub fn calibrate(weights: &[Matrix], budget: Duration) -> Result<Vec<Calibrated>, ShapeError> {
    // Concurrent measurements would disturb each other.
    static MEASURING: Mutex<()> = Mutex::new(());
    let _guard = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let is_fixed = !cfg!(target_arch = "x86_64") || !matches!(Prefetch::requested(), Ok(None));
    let mut samples = if is_fixed { Vec::new() } else { samples(weights) };
    if samples.iter().map(Sample::byte_len).sum::<usize>() < MIN_BYTES {
        return Ok(Vec::new());
    }
    let _awake = team::enter();
    // Causes the page faults, which may read from a disk.
    for sample in &mut samples {
        sample.pass(Prefetch::NONE)?;
    }
    let start = Instant::now();
    for count in ROUNDS {
        for candidate in 0..count {
            for sample in &mut samples {
                sample.time_candidate(candidate)?;
            }
        }
        samples.iter_mut().for_each(Sample::rank);
        if start.elapsed() > budget {
            break;
        }
    }
    Ok(samples.iter().map(Sample::choose).collect())
}

impl Calibrated {
    /// Version of the measurement. Incremented when the measurement or a kernel changes, so that
    /// earlier results are ignored.
    pub const VERSION: u32 = 1;
}

/// Matrices of a format, all of one shape, and the times of its candidates.
struct Sample<'a> {
    quant: Quant,
    matrices: Vec<Matrix<'a>>,
    x: Vec<f32>,
    y: Vec<f32>,
    /// The fastest first, after each round.
    candidates: Vec<Candidate>,
}

/// A choice, and the seconds of its passes in ascending order.
struct Candidate {
    choice: Prefetch,
    seconds: Vec<f64>,
}

impl Candidate {
    /// The median seconds of a pass; infinite without passes.
    fn median(&self) -> f64 {
        self.seconds
            .get(self.seconds.len() / 2)
            .copied()
            .unwrap_or(f64::INFINITY)
    }

    /// Returns `true` if it is faster than `other` by [`MIN_GAIN`]; `false` with fewer than
    /// [`MIN_PASSES`] passes, for which a slow machine may have no time.
    fn beats(&self, other: &Self) -> bool {
        if self.seconds.len().min(other.seconds.len()) < MIN_PASSES {
            return false;
        }
        let fastest = |candidate: &Self| candidate.seconds.first().copied().unwrap_or(f64::INFINITY);
        self.median() * MIN_GAIN < other.median() && fastest(self) * MIN_GAIN < fastest(other)
    }
}

/// Returns `true` if decode with this matrix uses [`Prefetch::for_format`] and its rows are long
/// enough to measure.
fn is_measurable(matrix: &Matrix) -> bool {
    let prefetches = match matrix.layout() {
        Layout::Rows16 => !matrix.quant().is_float(),
        Layout::Plain => takes_bf16(matrix.quant()),
    };
    prefetches && matrix.row_bytes() >= MIN_ROW_BYTES
}

/// A sample for each format without a choice, with a share of [`SAMPLE_BYTES`] in proportion to the
/// bytes of the format.
fn samples<'a>(weights: &[Matrix<'a>]) -> Vec<Sample<'a>> {
    let needs_choice = |matrix: &&Matrix| is_measurable(matrix) && Prefetch::chosen(matrix.quant()).is_none();
    let weights: Vec<Matrix> = weights.iter().filter(needs_choice).copied().collect();
    let bytes_of = |weights: &[Matrix]| weights.iter().map(Matrix::byte_len).sum::<usize>() as f64;
    let sample = |quant: Quant| {
        let of_format: Vec<Matrix> = weights
            .iter()
            .filter(|matrix| matrix.quant() == quant)
            .copied()
            .collect();
        let share = SAMPLE_BYTES as f64 * bytes_of(&of_format) / bytes_of(&weights);
        Sample::new(quant, &of_format, share as usize)
    };
    Quant::ALL.into_iter().filter_map(sample).collect()
}

impl<'a> Sample<'a> {
    /// At most `bytes` of these weights, all of the shape that has the most bytes.
    fn new(quant: Quant, weights: &[Matrix<'a>], bytes: usize) -> Option<Self> {
        let mut bytes_by_shape = HashMap::new();
        for matrix in weights {
            *bytes_by_shape.entry((matrix.rows(), matrix.cols())).or_insert(0) += matrix.byte_len();
        }
        let (shape, _) = bytes_by_shape
            .into_iter()
            .max_by_key(|(shape, bytes)| (*bytes, *shape))?;
        let (mut matrices, mut remaining) = (Vec::new(), bytes);
        for matrix in weights.iter().filter(|matrix| (matrix.rows(), matrix.cols()) == shape) {
            let part = matrix.first_rows(remaining / matrix.row_bytes());
            if part.rows() == 0 {
                break;
            }
            remaining -= part.byte_len();
            matrices.push(part);
        }
        let candidate = |choice| Candidate {
            choice,
            seconds: Vec::new(),
        };
        let rows = matrices.iter().map(Matrix::rows).max()?;
        (bytes - remaining >= MIN_SAMPLE_BYTES).then(|| Self {
            quant,
            matrices,
            x: (0..shape.1).map(|column| (column % 17) as f32 - 8.0).collect(),
            y: vec![0.0; rows],
            candidates: CANDIDATES.into_iter().map(candidate).collect(),
        })
    }

    /// Bytes of the matrices.
    fn byte_len(&self) -> usize {
        self.matrices.iter().map(Matrix::byte_len).sum()
    }

    /// Runs a pass and returns its seconds.
    fn pass(&mut self, choice: Prefetch) -> Result<f64, ShapeError> {
        Prefetch::choose(self.quant, Some(choice));
        let start = Instant::now();
        let precision = MatmulPrecision::Int8Activations;
        let result = self.matrices.iter().try_for_each(|matrix| {
            let out = &mut self.y[..matrix.rows()];
            norm_linears(&self.x, None, &[Linear::plain(*matrix)], precision, out)
        });
        Prefetch::choose(self.quant, None);
        result.map(|()| start.elapsed().as_secs_f64())
    }

    /// Runs a pass of a candidate and records its time.
    fn time_candidate(&mut self, index: usize) -> Result<(), ShapeError> {
        let seconds = self.pass(self.candidates[index].choice)?;
        let times = &mut self.candidates[index].seconds;
        times.push(seconds);
        times.sort_by(f64::total_cmp);
        Ok(())
    }

    /// Sorts the candidates by speed, with the CPU's default at least in second place.
    fn rank(&mut self) {
        self.candidates.sort_by(|a, b| a.median().total_cmp(&b.median()));
        let default = Prefetch::of_cpu();
        let position = self.candidates.iter().position(|candidate| candidate.choice == default);
        if let Some(position) = position.filter(|position| *position > 1) {
            self.candidates[1..=position].rotate_right(1);
        }
    }

    /// Chooses the fastest candidate, or the CPU's default unless the fastest beats it.
    fn choose(&self) -> Calibrated {
        let default = Prefetch::of_cpu();
        let default = self.candidates.iter().find(|candidate| candidate.choice == default);
        let fastest = &self.candidates[0];
        let best = default.filter(|default| !fastest.beats(default)).unwrap_or(fastest);
        Prefetch::choose(self.quant, Some(best.choice));
        Calibrated {
            quant: self.quant,
            choice: best.choice,
            bytes_per_second: self.byte_len() as f64 / best.median(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_replaces_another_only_if_it_is_clearly_faster() {
        let candidate = |seconds: &[f64]| Candidate {
            choice: Prefetch::NONE,
            seconds: seconds.to_vec(),
        };
        let other = candidate(&[1.0, 1.1, 1.2]);
        assert!(candidate(&[0.9, 1.0, 1.1]).beats(&other));
        assert!(!candidate(&[0.98, 1.08, 1.1]).beats(&other), "noise");
        assert!(!candidate(&[0.5, 1.1, 1.2]).beats(&other), "one lucky pass");
        assert!(!candidate(&[1.0, 1.0, 1.0]).beats(&other), "the other was disturbed");
        assert!(!candidate(&[0.5, 0.5]).beats(&other), "two passes");
    }

    #[test]
    fn the_default_is_among_the_candidates() {
        assert!(CANDIDATES.contains(&Prefetch::of_cpu()));
        assert!(CANDIDATES.contains(&Prefetch::NONE) && CANDIDATES.contains(&Prefetch::new(Target::T1, 4096)));
    }
}
