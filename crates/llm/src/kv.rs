//! The KV cache: a pool of cells, written by index.
//!
//! A cell holds the key and the value of one token in one layer, in f16 or in q8_0. Which cells
//! belong to which sequence, and in what order, is the sequence's own business; an operation gets
//! the pool as a handle and the cells as a list. A layer's cells are made where the layer first
//! asks for them: with the processor or on a GPU.

#[cfg(feature = "gpu")]
use burn::backend::{Cube, tensor::FloatTensor};
#[cfg(feature = "gpu")]
use cubecl::server::Handle;
use hearth_kernels::attention::{KvFormat, KvLayer};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Cells for every layer of a model.
#[derive(Debug)]
pub struct KvPool {
    layers: Vec<Cells>,
    format: KvFormat,
    cells: usize,
    kv_heads: usize,
    head_dim: usize,
    /// The numbers of all cells, on the GPUs.
    #[cfg(feature = "gpu")]
    in_order: crate::ops::PerDevice<Handle>,
}

/// The cells of a layer.
#[derive(Debug, Default)]
struct Cells {
    cpu: OnceLock<Mutex<KvLayer>>,
    #[cfg(feature = "gpu")]
    gpu: OnceLock<GpuCells>,
}

/// Cells on a GPU, in words: see [`KvFormat::gpu_words`].
#[cfg(feature = "gpu")]
#[derive(Debug)]
pub(crate) struct GpuCells {
    pub keys: Handle,
    pub values: Handle,
}

impl KvPool {
    /// Room for `cells` cells of `layers` layers of `kv_heads` heads of width `head_dim`.
    pub fn new(format: KvFormat, layers: usize, cells: usize, kv_heads: usize, head_dim: usize) -> Self {
        Self {
            layers: (0..layers).map(|_| Cells::default()).collect(),
            format,
            cells,
            kv_heads,
            head_dim,
            #[cfg(feature = "gpu")]
            in_order: crate::ops::PerDevice::default(),
        }
    }

    /// How many tokens it holds.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// How many layers it has cells for.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Key heads of a cell, and their width.
    pub fn shape(&self) -> [usize; 2] {
        [self.kv_heads, self.head_dim]
    }

    /// How its numbers are kept.
    pub fn format(&self) -> KvFormat {
        self.format
    }

    /// Bytes that a layer's cells take with the processor. The system gives them as cells are first
    /// used.
    pub fn bytes_a_layer(format: KvFormat, cells: usize, kv_heads: usize, head_dim: usize) -> usize {
        KvLayer::bytes_for(format, cells, kv_heads, head_dim)
    }

    /// Bytes that a layer's cells take on a GPU.
    pub fn bytes_a_gpu_layer(format: KvFormat, cells: usize, kv_heads: usize, head_dim: usize) -> usize {
        2 * format.gpu_words(cells, kv_heads, head_dim) * size_of::<u32>()
    }

    /// Bytes of the cells that were made.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.bytes(self)).sum()
    }

    pub(crate) fn layer(&self, layer: usize) -> MutexGuard<'_, KvLayer> {
        let make = || Mutex::new(KvLayer::new(self.format, self.cells, self.kv_heads, self.head_dim));
        // A panic in the middle of a write leaves a cell half written, never the pool unusable: the
        // sequence is dropped with its session.
        let cells = self.layers[layer].cpu.get_or_init(make);
        cells.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A layer's cells on the GPU of `like`.
    #[cfg(feature = "gpu")]
    pub(crate) fn gpu_layer(&self, layer: usize, like: &FloatTensor<Cube>) -> &GpuCells {
        let half = Self::bytes_a_gpu_layer(self.format, self.cells, self.kv_heads, self.head_dim) / 2;
        self.layers[layer].gpu.get_or_init(|| {
            let (keys, values) = like
                .client
                .memory_persistent_allocation((), |()| (like.client.empty(half), like.client.empty(half)));
            GpuCells { keys, values }
        })
    }

    /// The numbers of all cells, on the GPU of `like`.
    #[cfg(feature = "gpu")]
    pub(crate) fn in_order(&self, like: &FloatTensor<Cube>) -> Handle {
        let make = || {
            let numbers: Vec<u32> = (0..self.cells as u32).collect();
            crate::ops::cube::lasting(like, bytemuck::cast_slice(&numbers))
        };
        self.in_order.get(&like.device, |_| true, make)
    }
}

impl Cells {
    fn bytes(&self, pool: &KvPool) -> usize {
        let cpu = self.cpu.get().map_or(0, |_| {
            KvPool::bytes_a_layer(pool.format, pool.cells, pool.kv_heads, pool.head_dim)
        });
        #[cfg(feature = "gpu")]
        let gpu = self.gpu.get().map_or(0, |_| {
            KvPool::bytes_a_gpu_layer(pool.format, pool.cells, pool.kv_heads, pool.head_dim)
        });
        #[cfg(not(feature = "gpu"))]
        let gpu = 0;
        cpu + gpu
    }
}
