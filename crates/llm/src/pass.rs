//! A forward pass: its precision, and the keys and values that its tokens see.

use crate::ops::{CachedSequence, KeyValues, MatmulPrecision, Segments};
use std::sync::Arc;

/// A forward pass of some tokens.
#[derive(Debug, Clone)]
pub struct Pass {
    /// Precision of products with weights.
    pub precision: MatmulPrecision,
    /// Keys and values visible to the tokens.
    pub memory: Memory,
}

/// Keys and values visible to the tokens of a pass.
#[derive(Debug, Clone)]
pub enum Memory {
    /// The other tokens of the batch, within each segment.
    Batch(Arc<Segments>),
    /// A sequence in a KV pool, which the tokens continue.
    Pool(CachedSequence),
}

impl Pass {
    /// Keys and values of this layer's attention.
    pub fn key_values(&self, layer: usize) -> KeyValues {
        match &self.memory {
            Memory::Batch(segments) => KeyValues::Batch(segments.clone()),
            Memory::Pool(sequence) => KeyValues::Pool {
                sequence: sequence.clone(),
                layer,
            },
        }
    }
}
