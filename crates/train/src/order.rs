//! Random numbers of a run, which depend on the seed and their purpose, never on earlier draws.

/// A stream of random numbers. <https://prng.di.unimi.it/splitmix64.c>
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream for one purpose, identified by numbers.
    pub fn new(seed: u64, purpose: &[u64]) -> Self {
        let mut random = Self(seed);
        for part in purpose {
            random.0 = random.next().wrapping_add(*part);
        }
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A value from -1 to 1.
    pub fn signed(&mut self) -> f32 {
        const STEPS: f32 = (1u32 << 24) as f32;
        (self.next() >> 40) as f32 / STEPS * 2.0 - 1.0
    }

    /// Below `bound`, which is not 0. The bias of the remainder is one in 2^64 / bound.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Purposes of streams; each number is used once.
pub(crate) const ORDER: u64 = 1;
pub(crate) const WEIGHTS: u64 = 2;
pub(crate) const DROPOUT: u64 = 3;

/// The order of `count` examples in an epoch.
pub(crate) fn of_epoch(count: usize, epoch: usize, seed: u64, shuffle: bool) -> Vec<usize> {
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
        let (first, second) = (of_epoch(100, 0, 7, true), of_epoch(100, 1, 7, true));
        assert_ne!(first, second);
        assert_eq!(first, of_epoch(100, 0, 7, true));
        for mut order in [first, second] {
            order.sort_unstable();
            assert_eq!(order, of_epoch(100, 0, 7, false));
        }
    }
}
