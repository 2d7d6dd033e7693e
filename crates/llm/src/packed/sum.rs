//! A sum by which damage shows, as quick as memory.

/// Bytes that have a sum of their own.
pub const CHUNK: usize = 1 << 20;

/// Words that are taken at once, each by a sum of its own.
const LANES: usize = 8;

/// Odd, so that a product with it can be undone; its bits are those of the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The sum of bytes. Each step can be undone, so a single word that changes always changes it, and any other accident all but
/// always. It protects from accidents only.
pub fn sum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, word: u64| (sum ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let mut sums: [u64; LANES] = std::array::from_fn(|lane| lane as u64);
    let (blocks, rest) = bytes.as_chunks::<{ LANES * size_of::<u64>() }>();
    let mut take = |block: &[u8; LANES * size_of::<u64>()]| {
        let (words, _) = block.as_chunks::<{ size_of::<u64>() }>();
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = step(*sum, u64::from_le_bytes(*word));
        }
    };
    blocks.iter().for_each(&mut take);
    let mut last = [0; LANES * size_of::<u64>()];
    last[..rest.len()].copy_from_slice(rest);
    take(&last);
    sums.into_iter().fold(bytes.len() as u64, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_length_count() {
        let bytes: Vec<u8> = (0..200).map(|i| (i * 7) as u8).collect();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x80;
            assert_ne!(sum(&changed), sum(&bytes), "{at}");
        }
        assert_ne!(sum(&[]), sum(&[0]));
        assert_ne!(sum(&bytes[..128]), sum(&bytes[..127]));
    }
}
