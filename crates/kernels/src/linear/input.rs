//! The input of linear layers, prepared once for all of them.

use super::bf16_dot::Bf16Rows;
use super::float_groups::TokenPanels;
use super::{FEW_TOKENS, MatmulPrecision, Norm};
use crate::blocks::QK_K;
use crate::gemv::{ActivationChunk, Activations};
use crate::isa::Isa;
use crate::norm;
use crate::packed::TokenTiles;
use crate::scratch::Scratch;
use crate::shape::{self, Outcome, ShapeError};
use crate::team;
use std::ops::Deref;
use std::sync::OnceLock;

/// Rows of activations: borrowed from the caller, or normalized.
pub(crate) enum Floats<'a> {
    Borrowed(&'a [f32]),
    Normalized(Scratch<f32>),
}

impl Deref for Floats<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match self {
            Floats::Borrowed(x) => x,
            Floats::Normalized(x) => x,
        }
    }
}

/// Prepared input of linear layers: rows of activations, normalized if there is a norm, and
/// quantized to int8 for [`MatmulPrecision::Int8Activations`].
pub(crate) struct Input<'a> {
    pub floats: Floats<'a>,
    /// Quantized rows, in the order of [`TokenTiles`].
    chunks: Scratch<ActivationChunk>,
    /// Created on first use.
    bf16_rows: OnceLock<Bf16Rows>,
    /// Created on first use.
    panels: OnceLock<TokenPanels>,
    pub tokens: usize,
    pub cols: usize,
}

impl<'a> Input<'a> {
    /// Prepares rows of `x [T, cols]`.
    pub fn new(x: &'a [f32], cols: usize, norm: Option<Norm>, precision: MatmulPrecision) -> Result<Self, ShapeError> {
        let tokens = shape::rows("a linear's input", x.len(), cols)?;
        if let Some(norm) = norm {
            shape::length("a norm's weight", norm.weight.len(), Some(cols))?;
        }
        let per_token = match precision {
            MatmulPrecision::Int8Activations => Activations::chunks_for(cols),
            MatmulPrecision::F32 | MatmulPrecision::Bf16 => 0,
        };
        let mut normalized = Scratch::new(if norm.is_some() { x.len() } else { 0 });
        let mut chunks = Scratch::<ActivationChunk>::new(tokens * per_token);
        let isa = Isa::best();
        let outcome = Outcome::default();
        {
            let (normalized, chunks) = (team::Scattered::new(&mut normalized), team::Scattered::new(&mut chunks));
            let prepare_token = |token: usize| {
                let x = &x[token * cols..][..cols];
                let row = match norm {
                    // SAFETY: each token is processed once.
                    Some(norm) => unsafe {
                        let row = normalized.slice(token * cols, cols);
                        norm::row(isa, x, norm.weight, norm.eps, row);
                        row
                    },
                    None => x,
                };
                for chunk in 0..per_token {
                    let x = &row[chunk * QK_K..cols.min((chunk + 1) * QK_K)];
                    // SAFETY: each activation chunk has a different index.
                    let quantized = unsafe { chunks.slice(TokenTiles::index(tokens, per_token, token, chunk), 1) };
                    outcome.note(
                        Activations::quantize_on(isa, x, quantized)
                            .map(|_| ())
                            .map_err(ShapeError::from),
                    );
                }
            };
            let chunk_tokens = if tokens <= FEW_TOKENS {
                FEW_TOKENS
            } else {
                norm::rows_per_work_chunk(cols)
            };
            team::run(tokens.div_ceil(chunk_tokens), &|work_chunk| {
                let tokens = work_chunk * chunk_tokens..((work_chunk + 1) * chunk_tokens).min(tokens);
                tokens.for_each(prepare_token);
            });
        }
        outcome.into_result()?;
        let floats = if norm.is_some() {
            Floats::Normalized(normalized)
        } else {
            Floats::Borrowed(x)
        };
        Ok(Self {
            floats,
            chunks,
            bf16_rows: OnceLock::new(),
            panels: OnceLock::new(),
            tokens,
            cols,
        })
    }

    /// All rows rounded to bf16.
    pub(super) fn bf16_rows(&self) -> &Bf16Rows {
        self.bf16_rows
            .get_or_init(|| Bf16Rows::from_f32(&self.floats, self.cols))
    }

    /// All rows packed for [`super::float_groups`].
    pub(super) fn panels(&self) -> &TokenPanels {
        self.panels
            .get_or_init(|| TokenPanels::new(Isa::best(), &self.floats, self.cols))
    }

    /// All rows quantized.
    pub(super) fn quantized(&self) -> Result<TokenTiles<'_>, ShapeError> {
        TokenTiles::new(&self.chunks, self.tokens, self.cols)
    }

    /// One row in f32.
    pub(super) fn row(&self, token: usize) -> &[f32] {
        &self.floats[token * self.cols..][..self.cols]
    }
}
