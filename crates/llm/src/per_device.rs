//! Lists and tables on GPUs, shared by all layers, and their cache per GPU.

use burn::backend::Cube;
use burn::backend::tensor::{Device, FloatTensor};
use cubecl::server::Handle;
use std::sync::Mutex;

/// RoPE table: cosines and sines, `[positions, dims / 2, 2]`.
#[derive(Clone)]
pub(crate) struct RopeTable {
    pub angles: Handle,
    pub positions: usize,
}

/// Lists of a batch, one element per row.
#[derive(Clone)]
pub(crate) struct BatchLists {
    /// The position of each row in its sequence.
    pub positions: Handle,
    /// The index of its sequence's first, and for rows that see later ones that after its last;
    /// unused for rows that continue cached sequences.
    pub starts: Handle,
}

/// Lists of a batch in a group of layers.
#[derive(Clone)]
pub(crate) struct GroupLists {
    /// The cell of each row.
    pub cells: Handle,
    /// The pages of each sequence.
    pub pages: Vec<Handle>,
}

/// A persistent buffer of exactly this size on the GPU of `like`, for the lifetime of the model.
pub(crate) fn persistent(like: &FloatTensor<Cube>, bytes: &[u8]) -> Handle {
    let client = &like.client;
    client.memory_persistent_allocation(bytes, |bytes| client.create_from_slice(bytes))
}

/// Copies of a value, one per GPU. They are a cache of the value: a clone has none, and all compare
/// equal.
pub(crate) struct PerDevice<T>(Mutex<Vec<(Device<Cube>, T)>>);

impl<T: Clone> PerDevice<T> {
    /// The copy on a device; made now if there is no suitable one.
    pub fn get(&self, device: &Device<Cube>, is_usable: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> T {
        let mut copies = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((_, copy)) = copies.iter().find(|(on, copy)| on == device && is_usable(copy)) {
            return copy.clone();
        }
        copies.retain(|(on, _)| on != device);
        let copy = make();
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
