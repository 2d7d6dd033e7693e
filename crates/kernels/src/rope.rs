//! Rotary position embedding. <https://arxiv.org/abs/2104.09864>
//!
//! Pair `i` of a head is rotated by `position * frequencies[i]` radians and multiplied by the
//! magnitude. The architecture determines the two elements of a pair and the frequencies. Elements
//! from `dims` on are unchanged, also by the magnitude.

use std::sync::{Arc, OnceLock};

/// The two elements of a head that form a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// `2 i` and `2 i + 1` (`NORM` in ggml): llama.
    Interleaved,
    /// `i` and `i + dims / 2` (`NEOX` in ggml): qwen, gemma.
    Halves,
}

/// Positions of a block of the cache, whose sines and cosines are computed on first use.
const CACHE_BLOCK: usize = 256;
/// Maximum cached blocks: a context of a million tokens. Angles of later positions are recomputed
/// each time.
const CACHE_BLOCKS: usize = 4096;

/// RoPE parameters: pairing, frequencies and magnitude. Clones share the cached angles.
#[derive(Clone)]
pub struct Rope {
    pairing: Pairing,
    /// Radians per position of each pair.
    frequencies: Arc<[f64]>,
    /// Factor of the cosines and sines.
    magnitude: f32,
    /// For each position of a block, the cosines of the pairs, then the sines, times the magnitude.
    cache: Arc<[OnceLock<Box<[f32]>>]>,
}

impl std::fmt::Debug for Rope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rope({:?}, {} pairs)", self.pairing, self.frequencies.len())
    }
}

impl Rope {
    /// A rotation of the first `2 * frequencies.len()` elements of a head. `frequencies` are the
    /// radians per position of each pair. `magnitude` multiplies rotated elements; usually 1.
    pub fn new(pairing: Pairing, frequencies: &[f64], magnitude: f32) -> Self {
        Self {
            pairing,
            frequencies: frequencies.into(),
            magnitude,
            cache: (0..CACHE_BLOCKS).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The original RoPE: pair `i` of the first `dims` elements is rotated by `base^(-2 i / dims)`
    /// radians per position.
    pub fn plain(pairing: Pairing, dims: usize, base: f32) -> Self {
        let frequency = |pair: usize| f64::from(base).powf(-2.0 * pair as f64 / dims as f64);
        let frequencies: Vec<f64> = (0..dims / 2).map(frequency).collect();
        Self::new(pairing, &frequencies, 1.0)
    }

    /// Rotated elements of a head.
    pub fn dims(&self) -> usize {
        2 * self.frequencies.len()
    }

    /// The pairing of elements.
    pub fn pairing(&self) -> Pairing {
        self.pairing
    }

    /// The factor of the cosines and sines.
    pub fn magnitude(&self) -> f32 {
        self.magnitude
    }

    /// The rotation angle of each pair at `position`, in radians.
    pub fn angles(&self, position: u32) -> impl Iterator<Item = f64> {
        self.frequencies
            .iter()
            .map(move |frequency| frequency * f64::from(position))
    }

    /// Calls `f` with the cosines and the sines of the pairs at a position, times the magnitude.
    pub(crate) fn with_angles<R>(&self, position: u32, f: impl FnOnce(&[f32], &[f32]) -> R) -> R {
        let (block, position_in_block) = (position as usize / CACHE_BLOCK, position as usize % CACHE_BLOCK);
        let pairs = self.frequencies.len();
        match self.cache.get(block) {
            Some(angles) => {
                let angles = angles.get_or_init(|| {
                    let first = block * CACHE_BLOCK;
                    (first..first + CACHE_BLOCK)
                        .flat_map(|position| self.cosines_and_sines(position as u32))
                        .collect()
                });
                let (cosines, sines) = angles[2 * pairs * position_in_block..][..2 * pairs].split_at(pairs);
                f(cosines, sines)
            }
            None => {
                let angles: Vec<f32> = self.cosines_and_sines(position).collect();
                let (cosines, sines) = angles.split_at(pairs);
                f(cosines, sines)
            }
        }
    }

    /// The cosines of the pairs at a position, then the sines, times the magnitude.
    fn cosines_and_sines(&self, position: u32) -> impl Iterator<Item = f32> {
        // In f64, where a factor of 1 is exact.
        let magnitude = f64::from(self.magnitude);
        let cosines = self.angles(position).map(move |angle| (angle.cos() * magnitude) as f32);
        cosines.chain(self.angles(position).map(move |angle| (angle.sin() * magnitude) as f32))
    }

    /// Rotates heads of width `head_dim` at `position`, in place, as `ggml_rope_ext`. In heads
    /// narrower than [`Rope::dims`] only the pairs that exist are rotated.
    pub fn rotate_in_place(&self, heads: &mut [f32], head_dim: usize, position: u32) {
        self.with_angles(position, |cosines, sines| {
            self.apply(heads, head_dim, cosines, sines, 1.0)
        });
    }

    /// The gradient of [`Rope::rotate_in_place`], as `ggml_rope_ext_back`: the inverse rotation
    /// times the magnitude.
    pub fn rotate_backward_in_place(&self, heads: &mut [f32], head_dim: usize, position: u32) {
        self.with_angles(position, |cosines, sines| {
            self.apply(heads, head_dim, cosines, sines, -1.0)
        });
    }

    /// Rotates heads by the angles with these cosines and with these sines times `sign`.
    fn apply(&self, heads: &mut [f32], head_dim: usize, cosines: &[f32], sines: &[f32], sign: f32) {
        let dims = self.dims().min(head_dim - head_dim % 2);
        for head in heads.chunks_exact_mut(head_dim.max(1)) {
            let head = &mut head[..dims];
            match self.pairing {
                Pairing::Interleaved => {
                    for ((pair, cos), sin) in head.as_chunks_mut::<2>().0.iter_mut().zip(cosines).zip(sines) {
                        *pair = rotate_pair(*pair, *cos, sign * sin);
                    }
                }
                Pairing::Halves => {
                    let (low, high) = head.split_at_mut(dims / 2);
                    for (((a, b), cos), sin) in low.iter_mut().zip(high).zip(cosines).zip(sines) {
                        [*a, *b] = rotate_pair([*a, *b], *cos, sign * sin);
                    }
                }
            }
        }
    }
}

/// Rotates the vector `[a, b]` by the angle with this cosine and sine. If both are multiplied by a
/// magnitude, so is the result.
#[inline(always)]
fn rotate_pair([a, b]: [f32; 2], cos: f32, sin: f32) -> [f32; 2] {
    [a * cos - b * sin, a * sin + b * cos]
}
