//! The devices that a model's layers can be on.

use crate::error::LoadError;
use crate::ops::{MemoryUse, memory};
use crate::placement::Place;
#[cfg(feature = "gpu")]
use burn::backend::DispatchDevice;
use burn::tensor::{Device, Tensor};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

/// The device of a place; a GPU is opened on first use.
///
/// # Errors
/// If there is no such GPU, or it cannot be opened.
pub fn open(place: Place) -> Result<Device, LoadError> {
    match place {
        Place::Cpu => Ok(Device::flex()),
        Place::Gpu(number) => open_gpu(number),
    }
}

/// Opens the GPU of this number in this build's list.
fn open_by_number(number: usize) -> Result<Device, String> {
    #[cfg(feature = "wgpu")]
    return crate::gpus::open(number);
    #[cfg(all(feature = "cuda", not(feature = "wgpu")))]
    return crate::cuda::open(number);
    #[cfg(not(any(feature = "wgpu", feature = "cuda")))]
    Err(format!(
        "this build of Hearth does not support GPUs, so there is no GPU {number}"
    ))
}

/// The open GPUs, by number.
static OPEN: Mutex<Vec<(usize, Device)>> = Mutex::new(Vec::new());

fn opened() -> MutexGuard<'static, Vec<(usize, Device)>> {
    OPEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Registers a device under a GPU number: one that the caller opened, or a second one on the same
/// card.
pub fn register(number: usize, device: Device) {
    let mut opened = opened();
    opened.retain(|(other, _)| *other != number);
    opened.push((number, device));
}

/// Bytes of this process on a GPU: in use, and reserved by the allocator, including those in use.
/// `None` if it is not open.
pub fn memory_use(number: usize) -> Option<(u64, u64)> {
    let device = opened().iter().find(|(other, _)| *other == number)?.1.clone();
    let found = Arc::<MemoryUse>::default();
    memory(Tensor::zeros([1], &device), found.clone());
    Some((
        found.used.load(Ordering::Relaxed),
        found.reserved.load(Ordering::Relaxed),
    ))
}

/// Returns whether GEMMs in bf16 precision run on matrix units on this device.
///
/// # Errors
/// As [`open`].
pub fn has_matrix_units(place: Place) -> Result<bool, LoadError> {
    let device = open(place)?;
    #[cfg(feature = "gpu")]
    if let DispatchDevice::Cube(device) = device.as_dispatch() {
        use hearth_kernels::{MatmulPrecision, Quant, gpu::linear_uses_matrix_units};
        const MANY: usize = 512;
        return Ok(linear_uses_matrix_units(
            &device.client(),
            Quant::Q8_0,
            MANY,
            MatmulPrecision::Bf16,
        ));
    }
    drop(device);
    Ok(false)
}

/// Drops a GPU that has failed; it is opened again on next use.
pub fn close(number: usize) {
    opened().retain(|(other, _)| *other != number);
    #[cfg(feature = "wgpu")]
    crate::gpus::close(number);
}

fn open_gpu(number: usize) -> Result<Device, LoadError> {
    let mut opened = opened();
    if let Some((_, device)) = opened.iter().find(|(other, _)| *other == number) {
        return Ok(device.clone());
    }
    let device = open_by_number(number).map_err(|why| cannot(number, why))?;
    opened.push((number, device.clone()));
    Ok(device)
}

fn cannot(number: usize, why: String) -> LoadError {
    LoadError::Device {
        device: format!("gpu{number}"),
        why,
    }
}
