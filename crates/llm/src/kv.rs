//! The KV cache: a pool of cells, written by index.
//!
//! A cell holds the key and the value of one token in one layer, in f16 or in q8_0. The sequence
//! knows its cells and their order; an op receives the pool as a handle and the cells as a list. A
//! layer's cells are allocated on the device that first uses them.

#[cfg(feature = "gpu")]
use crate::per_device::{PerDevice, persistent};
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
    /// The indices of all cells, per GPU.
    #[cfg(feature = "gpu")]
    in_order: PerDevice<Handle>,
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
    /// A pool of `cells` cells for `layers` layers of `kv_heads` heads of width `head_dim`.
    pub fn new(format: KvFormat, layers: usize, cells: usize, kv_heads: usize, head_dim: usize) -> Self {
        Self {
            layers: (0..layers).map(|_| Cells::default()).collect(),
            format,
            cells,
            kv_heads,
            head_dim,
            #[cfg(feature = "gpu")]
            in_order: PerDevice::default(),
        }
    }

    /// The number of cells per layer.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// The number of layers.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// KV heads of a cell, and their width.
    pub fn shape(&self) -> [usize; 2] {
        [self.kv_heads, self.head_dim]
    }

    /// The format of keys and values.
    pub fn format(&self) -> KvFormat {
        self.format
    }

    /// Bytes of a layer's cells on the CPU. The system commits them on first use.
    pub fn bytes_a_layer(format: KvFormat, cells: usize, kv_heads: usize, head_dim: usize) -> usize {
        KvLayer::bytes_for(format, cells, kv_heads, head_dim)
    }

    /// Bytes of a layer's cells on a GPU.
    pub fn bytes_a_gpu_layer(format: KvFormat, cells: usize, kv_heads: usize, head_dim: usize) -> usize {
        2 * format.gpu_words(cells, kv_heads, head_dim) * size_of::<u32>()
    }

    /// Bytes of the allocated cells.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.bytes(self)).sum()
    }

    pub(crate) fn layer(&self, layer: usize) -> MutexGuard<'_, KvLayer> {
        let make = || Mutex::new(KvLayer::new(self.format, self.cells, self.kv_heads, self.head_dim));
        // A panic during a write leaves a cell partly written but the pool usable: the sequence is
        // dropped with its session.
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

    /// The indices of all cells, on the GPU of `like`.
    #[cfg(feature = "gpu")]
    pub(crate) fn in_order(&self, like: &FloatTensor<Cube>) -> Handle {
        let make = || {
            let numbers: Vec<u32> = (0..self.cells as u32).collect();
            persistent(like, bytemuck::cast_slice(&numbers))
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
