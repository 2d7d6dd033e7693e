//! Helpers for tests of quantization formats.

use hearth_kernels::blocks::Quant;

/// A reproducible pseudorandom generator.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Approximately normal: the sum of twelve uniform values.
    pub fn normal(&mut self) -> f32 {
        (0..12)
            .map(|_| (self.next() >> 40) as f32 / (1 << 24) as f32)
            .sum::<f32>()
            - 6.0
    }
}

/// Normally distributed floats.
pub fn floats(seed: u64, count: usize) -> Vec<f32> {
    let mut numbers = Numbers::new(seed);
    (0..count).map(|_| numbers.normal()).collect()
}

/// Rows of random bytes with finite scales: every pattern of codes, scales of every magnitude.
pub fn random_blocks(quant: Quant, seed: u64, weights: usize) -> Vec<u8> {
    let mut numbers = Numbers::new(seed);
    let mut bytes = vec![0; quant.row_bytes(weights).unwrap()];
    for block in bytes.chunks_exact_mut(quant.block_bytes()) {
        loop {
            block.fill_with(|| (numbers.next() >> 56) as u8);
            if matches!(quant, Quant::F32 | Quant::BF16) {
                // Small exponents, so that products and their sums do not overflow f32.
                block[quant.block_bytes() - 1] &= 0xbf;
            }
            if quant == Quant::MXFP4 {
                // Neither large nor subnormal scales.
                block[0] = block[0] & 0x3f | 0x40;
            }
            if !quant.has_bad_scale(block) {
                break;
            }
        }
    }
    bytes
}

/// The floats of a file.
pub fn read_floats(path: &str) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect()
}

/// RMS of `actual - expected` relative to the RMS of `expected`.
pub fn relative_error(actual: &[f32], expected: &[f32]) -> f64 {
    let square = |x: f32| f64::from(x) * f64::from(x);
    let error: f64 = actual
        .iter()
        .zip(expected)
        .map(|(actual, expected)| square(actual - expected))
        .sum();
    (error / expected.iter().map(|x| square(*x)).sum::<f64>()).sqrt()
}
