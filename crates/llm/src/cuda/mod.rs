//! The GPUs that CUDA can open, listed by NVIDIA's driver. A missing driver is not an error.
//!
//! <https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html>

pub mod libdevice;

use burn::tensor::Device;
use libloading::{Library, Symbol};
use std::ffi::{CStr, c_char, c_int};

/// File names of the driver library.
const LIBRARIES: &[&str] = if cfg!(windows) {
    &["nvcuda.dll"]
} else {
    &["libcuda.so.1", "libcuda.so"]
};

/// `CU_DEVICE_ATTRIBUTE_PCI_BUS_ID`.
const PCI_BUS_ID: c_int = 33;
/// `CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID`.
const PCI_DEVICE_ID: c_int = 34;
/// `CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID`.
const PCI_DOMAIN_ID: c_int = 50;

/// A GPU that CUDA lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// The product name.
    pub name: String,
    /// PCI domain, bus and device; `None` if the driver does not report them.
    pub slot: Option<[u32; 3]>,
    /// Total memory in bytes; `None` if the driver does not report it.
    pub memory: Option<u64>,
}

/// All cards in CUDA's order. Empty if there is no working driver.
pub fn cards() -> Vec<Card> {
    // SAFETY: libraries with these names are NVIDIA's driver.
    unsafe { query() }.unwrap_or_default()
}

/// Opens the card at this index in [`cards`].
///
/// # Errors
/// If there is no such card; the text is a sentence without its full stop. If the driver fails
/// later, Burn panics.
pub fn open(number: usize) -> Result<Device, String> {
    if number < cards().len() {
        Ok(Device::cuda(number))
    } else {
        Err("CUDA finds no such GPU on this machine, or its driver does not respond".to_owned())
    }
}

/// Lists the cards; `None` if there is no working driver.
///
/// # Safety
///
/// A library found under one of the names must be NVIDIA's.
unsafe fn query() -> Option<Vec<Card>> {
    // SAFETY: NVIDIA's library can be loaded without preconditions.
    let library = LIBRARIES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
    // SAFETY: each function is declared as in `cuda.h`, and its pointers outlive the call.
    unsafe {
        let init: Symbol<unsafe extern "C" fn(u32) -> c_int> = library.get(b"cuInit").ok()?;
        let get_count: Symbol<unsafe extern "C" fn(*mut c_int) -> c_int> = library.get(b"cuDeviceGetCount").ok()?;
        let get_device: Symbol<unsafe extern "C" fn(*mut c_int, c_int) -> c_int> = library.get(b"cuDeviceGet").ok()?;
        let get_name: Symbol<unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int> =
            library.get(b"cuDeviceGetName").ok()?;
        let get_attribute: Symbol<unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int> =
            library.get(b"cuDeviceGetAttribute").ok()?;
        let get_memory: Symbol<unsafe extern "C" fn(*mut usize, c_int) -> c_int> =
            library.get(b"cuDeviceTotalMem_v2").ok()?;

        let mut count = 0;
        if init(0) != 0 || get_count(&mut count) != 0 {
            return None;
        }
        let mut cards = Vec::new();
        for ordinal in 0..count {
            let mut device = 0;
            if get_device(&mut device, ordinal) != 0 {
                // Callers address a card by its index in this list, so the list ends at a gap.
                break;
            }
            let mut name = [0 as c_char; 256];
            let has_name = get_name(name.as_mut_ptr(), name.len() as c_int - 1, device) == 0;
            let attribute = |id| {
                let mut value = 0;
                (get_attribute(&mut value, id, device) == 0).then_some(value as u32)
            };
            let mut memory = 0;
            cards.push(Card {
                name: if has_name {
                    CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
                } else {
                    "NVIDIA graphics card".to_owned()
                },
                slot: attribute(PCI_DOMAIN_ID)
                    .zip(attribute(PCI_BUS_ID))
                    .zip(attribute(PCI_DEVICE_ID))
                    .map(|((domain, bus), device)| [domain, bus, device]),
                memory: (get_memory(&mut memory, device) == 0).then_some(memory as u64),
            });
        }
        // Burn loads the driver again, and fails if it was unloaded in between.
        std::mem::forget(library);
        Some(cards)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_driver_has_no_card_and_no_panic() {
        let cards = cards();
        assert!(cards.iter().all(|card| !card.name.is_empty()), "{cards:?}");
        assert!(open(cards.len()).is_err());
    }
}
