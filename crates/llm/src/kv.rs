//! The KV cache: a pool of cells, written by index.
//!
//! A cell holds the key and the value of one token in one layer, in f16. Which cells belong to which sequence, and in what
//! order, is the sequence's own business; an operation gets the pool as a handle and the cells as a list.

use hearth_kernels::attention::KvLayer;
use std::sync::{Mutex, MutexGuard};

/// Cells for every layer of a model, on the CPU.
#[derive(Debug)]
pub struct KvPool {
    layers: Vec<Mutex<KvLayer>>,
    cells: usize,
}

impl KvPool {
    /// `cells` cells for `layers` layers of `kv_heads` heads of width `head_dim`. The system gives the memory as cells are first used.
    pub fn new(layers: usize, cells: usize, kv_heads: usize, head_dim: usize) -> Self {
        let layers = (0..layers)
            .map(|_| Mutex::new(KvLayer::new(cells, kv_heads, head_dim)))
            .collect();
        Self { layers, cells }
    }

    /// How many tokens it holds.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// Bytes of all cells.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(|layer| lock(layer).bytes()).sum()
    }

    pub(crate) fn layer(&self, layer: usize) -> MutexGuard<'_, KvLayer> {
        lock(&self.layers[layer])
    }
}

/// A panic in the middle of a write leaves a cell half written, never the pool unusable: the sequence is dropped with its session.
fn lock(layer: &Mutex<KvLayer>) -> MutexGuard<'_, KvLayer> {
    layer.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
