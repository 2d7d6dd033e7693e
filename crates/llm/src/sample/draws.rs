//! Random numbers for draws.

/// Random numbers in 0..1: SplitMix64 (Steele, Lea and Flood, 2014), which gives the same result on
/// every platform.
#[derive(Debug, Clone)]
pub(super) struct Draws {
    state: u64,
}

impl Draws {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number.
    pub fn unit(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // The 53 bits that an f64 holds exactly.
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The generator's published first outputs, so that a seed always gives the same draws.
    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut draws = Draws::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317_u64,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        for bits in expected {
            assert_eq!(draws.unit(), (bits >> 11) as f64 / (1_u64 << 53) as f64);
        }
    }
}
