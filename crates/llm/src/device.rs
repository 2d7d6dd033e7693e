//! The devices that a model's layers can lie on.

use crate::error::LoadError;
use crate::placement::Place;
use burn::tensor::Device;

/// The device of a place; a GPU is opened when it is first asked for.
///
/// # Errors
/// There is no such GPU, or it cannot be opened.
pub fn open(place: Place) -> Result<Device, LoadError> {
    match place {
        Place::Cpu => Ok(Device::flex()),
        Place::Gpu(number) => open_gpu(number),
    }
}

#[cfg(not(feature = "wgpu"))]
fn open_gpu(number: usize) -> Result<Device, LoadError> {
    Err(cannot(number, "this build of Hearth has no support for GPUs".to_owned()))
}

#[cfg(feature = "wgpu")]
fn open_gpu(number: usize) -> Result<Device, LoadError> {
    use std::sync::Mutex;
    static OPEN: Mutex<Vec<(usize, Device)>> = Mutex::new(Vec::new());

    let mut open = OPEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some((_, device)) = open.iter().find(|(other, _)| *other == number) {
        return Ok(device.clone());
    }
    let device = crate::gpus::open(number).map_err(|why| cannot(number, why))?;
    open.push((number, device.clone()));
    Ok(device)
}

fn cannot(number: usize, why: String) -> LoadError {
    LoadError::Device {
        device: format!("gpu{number}"),
        why,
    }
}
