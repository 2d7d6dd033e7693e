//! The cells of one layer, on the device that runs it.

use crate::error::CacheError;
use hearth_kernels::attention::{KvFormat, KvLayer, PAGE};
use std::sync::{Mutex, MutexGuard, OnceLock};
#[cfg(feature = "gpu")]
use {
    burn::backend::{Cube, tensor::FloatTensor},
    cubecl::{prelude::Client, server::Handle},
};

/// The cells of a layer: pages of keys and values in f16 or q8_0. The first use on a device
/// allocates them there.
#[derive(Debug)]
pub struct LayerCells {
    format: KvFormat,
    pages: usize,
    kv_heads: usize,
    head_dim: usize,
    cpu: OnceLock<Mutex<KvLayer>>,
    #[cfg(feature = "gpu")]
    gpu: OnceLock<GpuCells>,
}

/// Cells on a GPU, in 32-bit words; see [`KvFormat::gpu_words`].
#[cfg(feature = "gpu")]
pub(crate) struct GpuCells {
    client: Client,
    pub keys: Handle,
    pub values: Handle,
}

#[cfg(feature = "gpu")]
impl std::fmt::Debug for GpuCells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GpuCells")
    }
}

impl LayerCells {
    /// Cells of `pages` pages, not allocated yet.
    pub fn new(format: KvFormat, pages: usize, [kv_heads, head_dim]: [usize; 2]) -> Self {
        Self {
            format,
            pages,
            kv_heads,
            head_dim,
            cpu: OnceLock::new(),
            #[cfg(feature = "gpu")]
            gpu: OnceLock::new(),
        }
    }

    /// The number of cells.
    pub fn cells(&self) -> usize {
        self.pages * PAGE
    }

    /// KV heads, and their width.
    pub fn shape(&self) -> [usize; 2] {
        [self.kv_heads, self.head_dim]
    }

    /// The format of keys and values.
    pub fn format(&self) -> KvFormat {
        self.format
    }

    /// Bytes on the CPU. The system commits them on first use.
    pub fn cpu_bytes(format: KvFormat, pages: usize, [kv_heads, head_dim]: [usize; 2]) -> usize {
        KvLayer::bytes_for(format, pages.saturating_mul(PAGE), kv_heads, head_dim)
    }

    /// Bytes on a GPU, half of them keys and half values.
    pub fn gpu_bytes(format: KvFormat, pages: usize, [kv_heads, head_dim]: [usize; 2]) -> usize {
        let words = format.gpu_words(pages.saturating_mul(PAGE), kv_heads, head_dim);
        words.saturating_mul(2 * size_of::<u32>())
    }

    /// Allocated bytes on all devices.
    pub fn bytes(&self) -> usize {
        let (format, pages, shape) = (self.format, self.pages, self.shape());
        let cpu = self.cpu.get().map_or(0, |_| Self::cpu_bytes(format, pages, shape));
        #[cfg(feature = "gpu")]
        let gpu = self.gpu.get().map_or(0, |_| Self::gpu_bytes(format, pages, shape));
        #[cfg(not(feature = "gpu"))]
        let gpu = 0;
        cpu + gpu
    }

    /// The cells on the CPU.
    pub(crate) fn cpu(&self) -> MutexGuard<'_, KvLayer> {
        let allocate = || Mutex::new(KvLayer::new(self.format, self.cells(), self.kv_heads, self.head_dim));
        // A panic during a write leaves a partly written cell of one sequence, which is dropped
        // with its session. All other cells remain valid.
        let cells = self.cpu.get_or_init(allocate);
        cells.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The cells on the GPU that has the tensor `like`.
    #[cfg(feature = "gpu")]
    pub(crate) fn gpu(&self, like: &FloatTensor<Cube>) -> &GpuCells {
        let half = Self::gpu_bytes(self.format, self.pages, self.shape()) / 2;
        self.gpu.get_or_init(|| {
            let client = like.client.clone();
            let (keys, values) = client.memory_persistent_allocation((), |()| (client.empty(half), client.empty(half)));
            GpuCells { client, keys, values }
        })
    }

    /// Copies page `from` to page `to`, on each device that has cells.
    pub(crate) fn copy_page(&self, [from, to]: [u32; 2]) -> Result<(), CacheError> {
        let missing = CacheError::NoSuchPage {
            page: from.max(to),
            pages: self.pages,
        };
        if self.cpu.get().is_some() {
            self.cpu().copy_page(from, to).map_err(|_| missing)?;
        }
        #[cfg(feature = "gpu")]
        if let Some(GpuCells { client, keys, values }) = self.gpu.get() {
            for buffer in [keys, values] {
                let (shape, cells) = (self.shape(), self.cells());
                hearth_kernels::gpu::copy_page(client, buffer, shape, cells, self.format, [from, to])
                    .map_err(|_| missing)?;
            }
        }
        Ok(())
    }
}
