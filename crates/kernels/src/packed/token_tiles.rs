//! Order of quantized activations for products with packed weights.

use super::TOKEN_TILE;
use crate::gemv::{ActivationChunk, Activations};
use crate::shape::{self, ShapeError};
use std::borrow::Cow;
use std::ops::Range;

/// Quantized rows of activations in tiles of [`TOKEN_TILE`] tokens; the last tile may have fewer. A
/// tile contains the first [`ActivationChunk`] of each of its tokens, then the second of each, and
/// so on, so that the activations that a kernel needs at once are adjacent.
#[derive(Clone, Copy, Debug)]
pub struct TokenTiles<'a> {
    chunks: &'a [ActivationChunk],
    tokens: usize,
    /// Activation chunks of each token.
    per_token: usize,
}

impl<'a> TokenTiles<'a> {
    /// `chunks` as the quantized rows of `tokens` tokens of `cols` activations, in the order of
    /// [`TokenTiles::index`].
    ///
    /// # Errors
    /// If there are more or fewer chunks.
    pub fn new(chunks: &'a [ActivationChunk], tokens: usize, cols: usize) -> Result<Self, ShapeError> {
        let per_token = Activations::chunks_for(cols);
        shape::length("quantized activations", chunks.len(), per_token.checked_mul(tokens))?;
        Ok(Self {
            chunks,
            tokens,
            per_token,
        })
    }

    /// Index of chunk `chunk` of token `token`, for `tokens` tokens with `per_token` chunks each.
    pub fn index(tokens: usize, per_token: usize, token: usize, chunk: usize) -> usize {
        let tile = tile_of(tokens, token);
        tile.start * per_token + chunk * tile.len() + token - tile.start
    }

    /// The first of these tokens, up to the end of their tile.
    pub(super) fn tile(&self, tokens: Range<usize>) -> TokenTile<'a> {
        let tile = tile_of(self.tokens, tokens.start);
        TokenTile {
            // Without columns, tokens have no chunks.
            chunks: self.chunks[tile.start * self.per_token..tile.end * self.per_token]
                .get(tokens.start - tile.start..)
                .unwrap_or_default(),
            stride: tile.len(),
            tokens: tokens.end.min(tile.end) - tokens.start,
        }
    }

    /// The activation chunks of one token.
    pub(crate) fn row(&self, token: usize) -> Cow<'a, [ActivationChunk]> {
        let tile = self.tile(token..token + 1);
        match tile.stride {
            1 => Cow::Borrowed(tile.chunks),
            stride => Cow::Owned(tile.chunks.iter().step_by(stride).copied().collect()),
        }
    }

    /// Number of tokens.
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Number of activation chunks of each token.
    pub(super) fn per_token(&self) -> usize {
        self.per_token
    }
}

/// The tokens of the tile that includes `token`.
fn tile_of(tokens: usize, token: usize) -> Range<usize> {
    let first = token / TOKEN_TILE * TOKEN_TILE;
    first..tokens.min(first + TOKEN_TILE)
}

/// Consecutive tokens of a tile.
#[derive(Clone, Copy)]
pub(crate) struct TokenTile<'a> {
    /// Begins with the first chunk of the first token.
    chunks: &'a [ActivationChunk],
    /// Distance from a chunk of a token to the next chunk of the same token.
    stride: usize,
    pub tokens: usize,
}

impl<'a> TokenTile<'a> {
    /// Chunk `chunk` of `N` tokens from `first` on.
    #[inline(always)]
    pub fn chunks<const N: usize>(&self, first: usize, chunk: usize) -> &'a [ActivationChunk; N] {
        &self.chunks[chunk * self.stride + first..].as_chunks().0[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_of_each_token_has_its_place() {
        for (tokens, per_token) in [(5, 0), (1, 3), (5, 2), (12, 3), (31, 4)] {
            let mut chunks = vec![ActivationChunk::ZERO; tokens * per_token];
            for (token, chunk) in (0..tokens).flat_map(|token| (0..per_token).map(move |chunk| (token, chunk))) {
                let slot = &mut chunks[TokenTiles::index(tokens, per_token, token, chunk)];
                assert_eq!(slot.scales[0], 0.0, "the place is free");
                slot.scales[0] = (1 + token * per_token + chunk) as f32;
            }
            let tiles = TokenTiles::new(&chunks, tokens, per_token * 256).expect("it fits");
            for token in 0..tokens {
                let tile = tiles.tile(token..tokens);
                let row = tiles.row(token);
                assert_eq!(row.len(), per_token);
                for chunk in 0..per_token {
                    let expected = (1 + token * per_token + chunk) as f32;
                    assert_eq!(row[chunk].scales[0], expected);
                    assert_eq!(tile.chunks::<1>(0, chunk)[0].scales[0], expected);
                }
            }
        }
    }
}
