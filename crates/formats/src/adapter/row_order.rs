//! The row order of Q and K, which differs between GGUF files and transformers.

/// Row order of Q and K in a GGUF, relative to transformers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// The same order.
    Same,
    /// In each head the two halves are interleaved, since RoPE rotates adjacent pairs in the GGUF
    /// and halves in transformers.
    Interleaved,
}

/// Maps row `row` of a head of `head_dim` rows in transformers to its row in the GGUF.
fn interleaved(row: usize, head_dim: usize) -> usize {
    let half = head_dim / 2;
    row % half * 2 + row / half
}

impl RowOrder {
    /// Reorders rows of `len` values from transformers order to GGUF order. The row count is a
    /// multiple of `head_dim`.
    pub(super) fn import(self, rows: Vec<f32>, len: usize, head_dim: usize) -> Vec<f32> {
        self.permute(rows, len, head_dim, |transformers, gguf| (transformers, gguf))
    }

    /// Reorders rows from GGUF order to transformers order: the inverse of `import`.
    pub(super) fn export(self, rows: Vec<f32>, len: usize, head_dim: usize) -> Vec<f32> {
        self.permute(rows, len, head_dim, |transformers, gguf| (gguf, transformers))
    }

    fn permute(
        self,
        rows: Vec<f32>,
        len: usize,
        head_dim: usize,
        from_to: fn(usize, usize) -> (usize, usize),
    ) -> Vec<f32> {
        if self == Self::Same {
            return rows;
        }
        let mut out = vec![0.0; rows.len()];
        let heads = rows
            .chunks_exact(head_dim * len)
            .zip(out.chunks_exact_mut(head_dim * len));
        for (head, out) in heads {
            for row in 0..head_dim {
                let (from, to) = from_to(row, interleaved(row, head_dim));
                out[to * len..][..len].copy_from_slice(&head[from * len..][..len]);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaving_round_trips() {
        // Two heads of four rows of one value.
        let transformers: Vec<f32> = (0..8u8).map(f32::from).collect();
        let gguf = RowOrder::Interleaved.import(transformers.clone(), 1, 4);
        assert_eq!(gguf, [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
        assert_eq!(RowOrder::Interleaved.export(gguf, 1, 4), transformers);
        assert_eq!(RowOrder::Same.import(transformers.clone(), 1, 4), transformers);
    }
}
