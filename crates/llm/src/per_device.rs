//! Index lists and tables on GPUs that all layers share, cached per GPU.

use burn::backend::Cube;
use burn::backend::tensor::{Device, FloatTensor};
use cubecl::server::Handle;
use std::sync::Mutex;

/// A RoPE table on a GPU, which vLLM calls `cos_sin_cache`: cosines and sines,
/// `[positions, dims / 2, 2]`.
#[derive(Clone)]
pub(crate) struct RopeTable {
    pub angles: Handle,
    /// The number of positions.
    pub positions: usize,
}

/// Indices of a batch on a GPU, like `inp_pos` in llama.cpp and `cu_seqlens` in FlashAttention.
#[derive(Clone)]
pub(crate) struct BatchIndices {
    /// The position of each row in its sequence.
    pub positions: Handle,
    /// The first row of each row's sequence. With a bidirectional mask, the row after the last one
    /// follows for each row. Unused with a KV cache.
    pub starts: Handle,
}

/// Indices of a batch in the KV cache of a group of layers, on a GPU.
#[derive(Clone)]
pub(crate) struct CacheIndices {
    /// The cell of each row, which vLLM calls `slot_mapping`.
    pub cells: Handle,
    /// The pages of each sequence, which vLLM calls its block table.
    pub pages: Vec<Handle>,
}

/// Uploads bytes to the GPU of `like`, to a persistent allocation of exactly their size.
pub(crate) fn persistent(like: &FloatTensor<Cube>, bytes: &[u8]) -> Handle {
    let client = &like.client;
    client.memory_persistent_allocation(bytes, |bytes| client.create_from_slice(bytes))
}

/// A cache with one copy of a value per GPU. A clone is empty, and all caches compare equal.
pub(crate) struct PerDevice<T>(Mutex<Vec<(Device<Cube>, T)>>);

impl<T: Clone> PerDevice<T> {
    /// Returns the copy on a device, and creates it if there is no usable one.
    pub fn get(&self, device: &Device<Cube>, is_usable: impl Fn(&T) -> bool, create: impl FnOnce() -> T) -> T {
        let mut copies = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let usable = copies
            .iter()
            .find(|(copy_device, copy)| copy_device == device && is_usable(copy));
        if let Some((_, copy)) = usable {
            return copy.clone();
        }
        copies.retain(|(copy_device, _)| copy_device != device);
        let copy = create();
        copies.push((device.clone(), copy.clone()));
        copy
    }
}

impl<T> Default for PerDevice<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Clone for PerDevice<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<T> PartialEq for PerDevice<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for PerDevice<T> {}

impl<T> std::fmt::Debug for PerDevice<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PerDevice")
    }
}
