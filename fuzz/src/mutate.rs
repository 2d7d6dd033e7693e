//! Deterministic mutations from a seeded generator.

/// xorshift64*.
pub struct Random(u64);

impl Random {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end.max(1)
    }
}

/// Boundary values of sizes and counts.
const BOUNDARY_INTEGERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x1_0000_0000,
    1 << 40,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// Text fragments that parsers tend to mishandle.
const TRICKY_TEXTS: [&str; 12] = [
    "\"", "\\", "{", "[[[[[[[[", "null", "1e999", "-1", "\0", "\u{feff}", "{%", "\u{2581}", "\r\n",
];

/// Returns `bytes` with one to four random changes.
pub fn mutated(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    // The start of a long file matters most.
    let max_start = if random.below(2) == 0 {
        bytes.len()
    } else {
        bytes.len().min(2048)
    };
    for _ in 0..1 + random.below(4) {
        let start = random.below(max_start).min(bytes.len());
        let end = (start + 1 + random.below(16)).min(bytes.len());
        match random.below(8) {
            0 if start < bytes.len() => bytes[start] ^= 1 << random.below(8),
            1 if start < bytes.len() => bytes[start] = random.next() as u8,
            2 => drop(bytes.drain(start..end)),
            3 => bytes.truncate(start),
            4 => {
                let slice = bytes[start..end].to_vec();
                drop(bytes.splice(start..start, slice));
            }
            5 => {
                let number = BOUNDARY_INTEGERS[random.below(BOUNDARY_INTEGERS.len())].to_le_bytes();
                let length = [1, 2, 4, 8][random.below(4)].min(bytes.len() - start);
                bytes[start..start + length].copy_from_slice(&number[..length]);
            }
            6 => drop(bytes.splice(start..start, TRICKY_TEXTS[random.below(TRICKY_TEXTS.len())].bytes())),
            _ => {
                let number = BOUNDARY_INTEGERS[random.below(BOUNDARY_INTEGERS.len())].to_string();
                drop(bytes.splice(start..end, number.into_bytes()));
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::{Random, mutated};

    #[test]
    fn mutations_are_distinct_and_deterministic() {
        let mutations = || {
            let mut random = Random::new(7);
            (0..200)
                .map(|_| mutated(b"{\"a\": [1, 2, 3]}", &mut random))
                .collect::<Vec<_>>()
        };
        let (first, second) = (mutations(), mutations());
        assert_eq!(first, second);
        let different: std::collections::BTreeSet<_> = first.iter().collect();
        assert!(different.len() > 100, "{}", different.len());
    }
}
