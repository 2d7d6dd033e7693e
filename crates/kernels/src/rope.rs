//! Rotary position embedding. <https://arxiv.org/abs/2104.09864>
//!
//! Pair `i` of a head is rotated by `position / scale * base^(-2 i / dims) / factor[i]`. Which two
//! elements are a pair depends on the architecture; elements from `dims` on are unchanged.

use std::sync::{Arc, OnceLock};

/// The two elements of a head that form a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// `2 i` and `2 i + 1` (`NORM` in ggml): llama.
    Interleaved,
    /// `i` and `i + dims / 2` (`NEOX` in ggml): qwen, gemma.
    Halves,
}

/// Positions of a page, whose angles are computed on first use of the page.
const PAGE: usize = 256;
/// Maximum cached pages: a context of a million tokens. Angles beyond are recomputed each time.
const PAGES: usize = 4096;

/// RoPE parameters: pairing and frequencies. Clones share the cached angles.
#[derive(Clone)]
pub struct Rope {
    pairing: Pairing,
    /// Radians per position of each pair.
    frequencies: Arc<[f64]>,
    /// Cosines of the pairs, then sines, for each position of a page.
    pages: Arc<[OnceLock<Box<[f32]>>]>,
}

impl std::fmt::Debug for Rope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rope({:?}, {} pairs)", self.pairing, self.frequencies.len())
    }
}

impl Rope {
    /// A rotation of the first `dims` elements of a head. `scale` divides positions (linear
    /// scaling; usually 1); `factors` divide the frequencies, one per pair; missing ones are 1.
    pub fn new(pairing: Pairing, dims: usize, base: f32, scale: f32, factors: Option<&[f32]>) -> Self {
        let frequency = |pair: usize| {
            let factor = factors
                .and_then(|factors| factors.get(pair))
                .map_or(1.0, |factor| f64::from(*factor));
            f64::from(base).powf(-2.0 * pair as f64 / dims as f64) / (factor * f64::from(scale))
        };
        Self {
            pairing,
            frequencies: (0..dims / 2).map(frequency).collect(),
            pages: (0..PAGES).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Rotated elements of a head.
    pub fn dims(&self) -> usize {
        2 * self.frequencies.len()
    }

    /// The pairing.
    pub fn pairing(&self) -> Pairing {
        self.pairing
    }

    /// The rotation angle of each pair at `position`, in radians.
    pub fn angles(&self, position: u32) -> impl Iterator<Item = f64> {
        self.frequencies
            .iter()
            .map(move |frequency| frequency * f64::from(position))
    }

    /// Calls `then` with the cosines and the sines of a position's pairs.
    pub(crate) fn with_angles<R>(&self, position: u32, then: impl FnOnce(&[f32], &[f32]) -> R) -> R {
        let (page, within) = (position as usize / PAGE, position as usize % PAGE);
        let pairs = self.frequencies.len();
        match self.pages.get(page) {
            Some(slot) => {
                let page = slot.get_or_init(|| {
                    let first = page * PAGE;
                    (first..first + PAGE)
                        .flat_map(|position| self.cosines_and_sines(position as u32))
                        .collect()
                });
                let (cosines, sines) = page[2 * pairs * within..][..2 * pairs].split_at(pairs);
                then(cosines, sines)
            }
            None => {
                let angles: Vec<f32> = self.cosines_and_sines(position).collect();
                let (cosines, sines) = angles.split_at(pairs);
                then(cosines, sines)
            }
        }
    }

    fn cosines_and_sines(&self, position: u32) -> impl Iterator<Item = f32> {
        let cosines = self.angles(position).map(|angle| angle.cos() as f32);
        cosines.chain(self.angles(position).map(|angle| angle.sin() as f32))
    }

    /// Rotates heads of width `head_dim` at `position`, in place. In heads narrower than
    /// [`Rope::dims`] only the pairs that exist are rotated.
    pub fn rotate_in_place(&self, heads: &mut [f32], head_dim: usize, position: u32) {
        self.with_angles(position, |cosines, sines| {
            self.apply(heads, head_dim, cosines, sines, 1.0)
        });
    }

    /// The gradient of [`Rope::rotate_in_place`], the inverse rotation.
    pub fn rotate_backward_in_place(&self, heads: &mut [f32], head_dim: usize, position: u32) {
        self.with_angles(position, |cosines, sines| {
            self.apply(heads, head_dim, cosines, sines, -1.0)
        });
    }

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

#[inline(always)]
fn rotate_pair([a, b]: [f32; 2], cos: f32, sin: f32) -> [f32; 2] {
    [a * cos - b * sin, a * sin + b * cos]
}
