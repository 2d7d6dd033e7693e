//! Random numbers of a run, and the order of its examples.
//!
//! Each purpose has a stream that depends on the seed only, so a resumed run draws the same numbers
//! as an uninterrupted one.

/// SplitMix64. <https://prng.di.unimi.it/splitmix64.c>
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream of a purpose: one of the constants below, and indices.
    pub fn new(seed: u64, purpose: &[u64]) -> Self {
        let mut random = Self(seed);
        for number in purpose {
            random.0 = random.next().wrapping_add(*number);
        }
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Uniform from -1 to 1, excluding 1.
    pub fn signed(&mut self) -> f32 {
        const STEPS: f32 = (1u32 << 24) as f32;
        (self.next() >> 40) as f32 / STEPS * 2.0 - 1.0
    }

    /// Uniform from 0 to `bound - 1`. `bound` must not be 0. The bias of the remainder is 1 in
    /// 2^64 / bound.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Purpose of the order of the examples, with the epoch.
pub(crate) const ORDER: u64 = 1;
/// Purpose of the initial weights, with the layer and the adapter's index.
pub(crate) const WEIGHTS: u64 = 2;
/// Purpose of dropout, with the pass and the adapter's index.
pub(crate) const DROPOUT: u64 = 3;

/// The order of `count` examples in an epoch: a Fisher-Yates shuffle if `shuffle`.
pub(crate) fn epoch_order(count: usize, epoch: usize, seed: u64, shuffle: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    if shuffle {
        let mut random = Random::new(seed, &[ORDER, epoch as u64]);
        for last in (1..count).rev() {
            order.swap(last, random.below(last + 1));
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_comes_once_an_epoch() {
        let (first, second) = (epoch_order(100, 0, 7, true), epoch_order(100, 1, 7, true));
        assert_ne!(first, second);
        assert_eq!(first, epoch_order(100, 0, 7, true));
        for mut order in [first, second] {
            order.sort_unstable();
            assert_eq!(order, epoch_order(100, 0, 7, false));
        }
    }
}
