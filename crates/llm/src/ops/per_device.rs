//! Per-GPU cache of lists and tables shared by all layers.

use burn::backend::Cube;
use burn::backend::tensor::Device;
use std::sync::Mutex;

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
