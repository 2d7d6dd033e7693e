//! Measures which [`Prefetch`] is fastest for each format of a model, with the model's own weights.
//!
//! A *pass* multiplies one token with a sample of a format's matrices. Passes of all formats take
//! turns, so that a sample has left the caches when it is read again, as in decode.

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

/// With smaller samples nothing is measured: they may stay in the caches.
const MIN_BYTES: usize = 48 << 20;
/// Bytes of the samples of all formats: more than the caches of desktops. On a server with a larger
/// one, the choice is that for weights in the cache.
const SAMPLE_BYTES: usize = 96 << 20;
/// A format with a smaller sample is not measured: it hardly counts, and neither does its time.
const MIN_SAMPLE: usize = 4 << 20;
/// Matrices with shorter rows are not measured: most of their time is not spent on weights.
const MIN_ROW: usize = 256;
/// Choices that are tried, the defaults of all CPUs among them.
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
/// Number of the fastest candidates that take part in each round; the CPU's default always does.
const ROUNDS: [usize; 8] = [CANDIDATES.len(), 4, 3, 2, 2, 2, 2, 2];
/// Minimum speedup over the CPU's default, in both the median and the fastest pass: single passes
/// are noisy.
const MIN_GAIN: f64 = 1.03;
/// Passes that a comparison needs.
const MIN_PASSES: usize = 3;

/// The choice for a format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibrated {
    /// The format.
    pub quant: Quant,
    /// The choice.
    pub choice: Prefetch,
    /// Bytes of weights per second with it.
    pub bytes_per_second: f64,
}

/// Measures the fastest [`Prefetch`] for the formats of these weights that have none chosen yet,
/// and chooses it. Takes about `budget`, on all threads of the team, after the samples were read
/// once. Does nothing for weights that may stay in the caches, where `HEARTH_PREFETCH` is set, or
/// on CPUs other than x86-64.
///
/// # Errors
/// If a weight cannot be multiplied.
pub fn calibrate(weights: &[Matrix], budget: Duration) -> Result<Vec<Calibrated>, ShapeError> {
    // Others would time the choices that are tried here.
    static MEASURING: Mutex<()> = Mutex::new(());
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let is_fixed = !cfg!(target_arch = "x86_64") || !matches!(Prefetch::requested(), Ok(None));
    let mut samples = if is_fixed { Vec::new() } else { samples(weights) };
    if samples.iter().map(Sample::byte_len).sum::<usize>() < MIN_BYTES {
        return Ok(Vec::new());
    }
    let _awake = team::enter();
    // Page faults, perhaps reading from a disk.
    for sample in &mut samples {
        sample.pass(Prefetch::NONE)?;
    }
    let began = Instant::now();
    for round in ROUNDS {
        for at in 0..round {
            for sample in &mut samples {
                sample.time_candidate(at)?;
            }
        }
        samples.iter_mut().for_each(Sample::rank);
        if began.elapsed() > budget {
            break;
        }
    }
    Ok(samples.iter().map(Sample::choose).collect())
}

impl Calibrated {
    /// Version of the measurement, raised when it or a kernel changes, so that earlier results are
    /// ignored.
    pub const VERSION: u32 = 1;
}

/// Matrices of a format, all of one shape, and the times of its candidates.
struct Sample<'a> {
    quant: Quant,
    matrices: Vec<Matrix<'a>>,
    x: Vec<f32>,
    y: Vec<f32>,
    /// After each round the fastest first.
    candidates: Vec<Candidate>,
}

/// A choice, and the seconds of its passes in ascending order.
struct Candidate {
    choice: Prefetch,
    seconds: Vec<f64>,
}

impl Candidate {
    fn median(&self) -> f64 {
        self.seconds
            .get(self.seconds.len() / 2)
            .copied()
            .unwrap_or(f64::INFINITY)
    }

    /// Whether it is clearly faster than another. A slow machine has no time for enough passes.
    fn beats(&self, other: &Self) -> bool {
        if self.seconds.len().min(other.seconds.len()) < MIN_PASSES {
            return false;
        }
        let fastest = |of: &Self| of.seconds.first().copied().unwrap_or(f64::INFINITY);
        self.median() * MIN_GAIN < other.median() && fastest(self) * MIN_GAIN < fastest(other)
    }
}

/// Whether decode with this matrix uses [`Prefetch::for_format`], and its rows are long enough to
/// measure.
fn prefetches(matrix: &Matrix) -> bool {
    let of_layout = match matrix.layout() {
        Layout::Rows16 => !matrix.quant().is_float(),
        Layout::Plain => takes_bf16(matrix.quant()),
    };
    of_layout && matrix.row_bytes() >= MIN_ROW
}

/// A sample for each format without a choice, in proportion to its bytes.
fn samples<'a>(weights: &[Matrix<'a>]) -> Vec<Sample<'a>> {
    let is_new = |matrix: &&Matrix| prefetches(matrix) && Prefetch::chosen(matrix.quant()).is_none();
    let weights: Vec<Matrix> = weights.iter().filter(is_new).copied().collect();
    let bytes_of = |weights: &[Matrix]| weights.iter().map(Matrix::byte_len).sum::<usize>() as f64;
    let of_format = |quant: Quant| {
        let all: Vec<Matrix> = weights
            .iter()
            .filter(|matrix| matrix.quant() == quant)
            .copied()
            .collect();
        let share = SAMPLE_BYTES as f64 * bytes_of(&all) / bytes_of(&weights);
        Sample::new(quant, &all, share as usize)
    };
    Quant::ALL.into_iter().filter_map(of_format).collect()
}

impl<'a> Sample<'a> {
    /// At most `bytes` of these weights, of the shape that most of them have.
    fn new(quant: Quant, weights: &[Matrix<'a>], bytes: usize) -> Option<Self> {
        let mut bytes_of = HashMap::new();
        for matrix in weights {
            *bytes_of.entry((matrix.rows(), matrix.cols())).or_insert(0) += matrix.byte_len();
        }
        let (shape, _) = bytes_of.into_iter().max_by_key(|(shape, bytes)| (*bytes, *shape))?;
        let (mut matrices, mut left) = (Vec::new(), bytes);
        for matrix in weights.iter().filter(|matrix| (matrix.rows(), matrix.cols()) == shape) {
            let part = matrix.first_rows(left / matrix.row_bytes());
            if part.rows() == 0 {
                break;
            }
            left -= part.byte_len();
            matrices.push(part);
        }
        let candidate = |choice| Candidate {
            choice,
            seconds: Vec::new(),
        };
        let rows = matrices.iter().map(Matrix::rows).max()?;
        (bytes - left >= MIN_SAMPLE).then(|| Self {
            quant,
            matrices,
            x: (0..shape.1).map(|at| (at % 17) as f32 - 8.0).collect(),
            y: vec![0.0; rows],
            candidates: CANDIDATES.into_iter().map(candidate).collect(),
        })
    }

    fn byte_len(&self) -> usize {
        self.matrices.iter().map(Matrix::byte_len).sum()
    }

    /// Seconds of a pass.
    fn pass(&mut self, choice: Prefetch) -> Result<f64, ShapeError> {
        Prefetch::choose(self.quant, Some(choice));
        let began = Instant::now();
        let precision = MatmulPrecision::Int8Activations;
        let outcome = self.matrices.iter().try_for_each(|matrix| {
            let out = &mut self.y[..matrix.rows()];
            norm_linears(&self.x, None, &[Linear::plain(*matrix)], precision, out)
        });
        Prefetch::choose(self.quant, None);
        outcome.map(|()| began.elapsed().as_secs_f64())
    }

    fn time_candidate(&mut self, at: usize) -> Result<(), ShapeError> {
        let seconds = self.pass(self.candidates[at].choice)?;
        let all = &mut self.candidates[at].seconds;
        all.push(seconds);
        all.sort_by(f64::total_cmp);
        Ok(())
    }

    /// Sorts the candidates. The CPU's default is the second one if it is slower.
    fn rank(&mut self) {
        self.candidates.sort_by(|a, b| a.median().total_cmp(&b.median()));
        let default = Prefetch::of_cpu();
        let at = self.candidates.iter().position(|candidate| candidate.choice == default);
        if let Some(at) = at.filter(|at| *at > 1) {
            self.candidates[1..=at].rotate_right(1);
        }
    }

    /// The fastest candidate, or the CPU's default if that is about as fast.
    fn choose(&self) -> Calibrated {
        let default = Prefetch::of_cpu();
        let default = self.candidates.iter().find(|candidate| candidate.choice == default);
        let fastest = &self.candidates[0];
        let chosen = default.filter(|default| !fastest.beats(default)).unwrap_or(fastest);
        Prefetch::choose(self.quant, Some(chosen.choice));
        Calibrated {
            quant: self.quant,
            choice: chosen.choice,
            bytes_per_second: self.byte_len() as f64 / chosen.median(),
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
