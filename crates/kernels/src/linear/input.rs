//! The input of linears, made ready once for all of them.

use super::gemm::Tokens;
use super::pairs::Rows;
use super::{FEW, Norm, Product};
use crate::dot::{ActivationChunk, Activations, Isa};
use crate::norm;
use crate::scratch::Scratch;
use crate::shape::{self, Outcome, ShapeError};
use crate::team;
use std::ops::Deref;
use std::sync::OnceLock;

/// Rows of activations, as they came or normalised.
pub(crate) enum Floats<'a> {
    Given(&'a [f32]),
    Normed(Scratch<f32>),
}

impl Deref for Floats<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match self {
            Floats::Given(x) => x,
            Floats::Normed(x) => x,
        }
    }
}

/// The input of linears: rows of activations, normalised, and quantised where the product asks for it.
pub(crate) struct Input<'a> {
    pub floats: Floats<'a>,
    pub(super) chunks: Vec<ActivationChunk>,
    /// Made for the first weight that asks.
    pairs: OnceLock<Rows>,
    /// As `pairs`.
    tiles: OnceLock<Tokens>,
    pub tokens: usize,
    pub cols: usize,
}

impl<'a> Input<'a> {
    /// Rows of `x [T, cols]` made ready.
    pub fn new(x: &'a [f32], cols: usize, norm: Option<Norm>, product: Product) -> Result<Self, ShapeError> {
        let tokens = shape::rows("a linear's input", x.len(), cols)?;
        if let Some(norm) = norm {
            shape::length("a norm's weight", norm.weight.len(), Some(cols))?;
        }
        let per_token = match product {
            Product::Fast => Activations::chunks_for(cols),
            Product::Exact | Product::Bf16 => 0,
        };
        let mut normed = Scratch::new(if norm.is_some() { x.len() } else { 0 });
        let mut chunks = vec![ActivationChunk::ZERO; tokens * per_token];
        let isa = Isa::best();
        let outcome = Outcome::default();
        {
            let (normed, chunks) = (team::Scattered::new(&mut normed), team::Scattered::new(&mut chunks));
            let one = |token: usize| {
                let x = &x[token * cols..][..cols];
                let row = match norm {
                    // SAFETY: each token is given out once.
                    Some(norm) => unsafe {
                        let row = normed.slice(token * cols, cols);
                        norm::row(isa, x, norm.weight, norm.eps, row);
                        row
                    },
                    None => x,
                };
                if per_token > 0 {
                    // SAFETY: as above.
                    let chunks = unsafe { chunks.slice(token * per_token, per_token) };
                    outcome.note(
                        Activations::quantize_on(isa, row, chunks)
                            .map(|_| ())
                            .map_err(ShapeError::from),
                    );
                }
            };
            let a_chunk = if tokens <= FEW { FEW } else { norm::rows_a_chunk(cols) };
            team::run(tokens.div_ceil(a_chunk), &|chunk| {
                (chunk * a_chunk..((chunk + 1) * a_chunk).min(tokens)).for_each(one);
            });
        }
        outcome.into_result()?;
        let floats = if norm.is_some() {
            Floats::Normed(normed)
        } else {
            Floats::Given(x)
        };
        Ok(Self {
            floats,
            chunks,
            pairs: OnceLock::new(),
            tiles: OnceLock::new(),
            tokens,
            cols,
        })
    }

    /// All rows in bf16.
    pub(super) fn pairs(&self) -> &Rows {
        self.pairs.get_or_init(|| Rows::of(&self.floats, self.cols))
    }

    /// All rows as the GEMM takes them.
    pub(super) fn tiles(&self) -> &Tokens {
        self.tiles.get_or_init(|| Tokens::of(&self.floats, self.cols))
    }

    pub(super) fn row(&self, token: usize) -> Result<Activations<'_>, ShapeError> {
        let per_token = Activations::chunks_for(self.cols);
        let floats = &self.floats[token * self.cols..][..self.cols];
        Ok(Activations::from_parts(
            floats,
            &self.chunks[token * per_token..][..per_token],
        )?)
    }
}
