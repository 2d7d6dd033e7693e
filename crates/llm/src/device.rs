//! Opens and closes the devices of a model's layers.

use crate::error::LoadError;
use crate::placement::Place;
#[cfg(feature = "gpu")]
use burn::backend::DispatchDevice;
use burn::tensor::Device;
use std::sync::{Mutex, MutexGuard};

/// Returns the device of a place. A GPU is opened on first use.
///
/// # Errors
/// If there is no such GPU, or it cannot be opened.
pub fn open(place: Place) -> Result<Device, LoadError> {
    match place {
        Place::Cpu => Ok(Device::flex()),
        Place::Gpu(number) => open_gpu(number),
    }
}

/// Opens the GPU with this number in the list of this build's backend.
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

/// The open GPUs with their numbers.
static OPEN_GPUS: Mutex<Vec<(usize, Device)>> = Mutex::new(Vec::new());

fn open_gpus() -> MutexGuard<'static, Vec<(usize, Device)>> {
    OPEN_GPUS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Registers a device under a GPU number, for a device that the caller opened, or for a second
/// number of the same card.
pub fn register(number: usize, device: Device) {
    let mut gpus = open_gpus();
    gpus.retain(|(other, _)| *other != number);
    gpus.push((number, device));
}

/// The GPU with this number. `None` if it is not open.
pub fn opened(number: usize) -> Option<Device> {
    let gpus = open_gpus();
    gpus.iter()
        .find(|(other, _)| *other == number)
        .map(|(_, device)| device.clone())
}

/// Whether GEMMs in bf16 precision run on matrix units on this device.
///
/// # Errors
/// As [`open`].
pub fn has_matrix_units(place: Place) -> Result<bool, LoadError> {
    let device = open(place)?;
    #[cfg(feature = "gpu")]
    if let DispatchDevice::Cube(device) = device.as_dispatch() {
        use hearth_kernels::{MatmulPrecision, Quant, gpu::linear_uses_matrix_units};
        const ROWS: usize = 512;
        return Ok(linear_uses_matrix_units(
            &device.client(),
            Quant::Q8_0,
            ROWS,
            MatmulPrecision::Bf16,
        ));
    }
    drop(device);
    Ok(false)
}

/// Closes a GPU that has failed. The next use opens it again.
pub fn close(number: usize) {
    open_gpus().retain(|(other, _)| *other != number);
    #[cfg(feature = "wgpu")]
    crate::gpus::close(number);
}

fn open_gpu(number: usize) -> Result<Device, LoadError> {
    let mut gpus = open_gpus();
    if let Some((_, device)) = gpus.iter().find(|(other, _)| *other == number) {
        return Ok(device.clone());
    }
    let device = open_by_number(number).map_err(|why| LoadError::Device {
        device: format!("gpu{number}"),
        why,
    })?;
    gpus.push((number, device.clone()));
    Ok(device)
}
