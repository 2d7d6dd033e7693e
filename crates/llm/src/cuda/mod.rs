//! The GPUs that CUDA can open, listed by NVIDIA's driver. A missing driver is not an error.
//!
//! <https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html>

pub mod libdevice;

use burn::tensor::Device;
use libloading::{Library, Symbol};
use std::ffi::{CStr, c_char, c_int};

/// File names of the driver's library.
const LIBRARIES: &[&str] = if cfg!(windows) {
    &["nvcuda.dll"]
} else {
    &["libcuda.so.1", "libcuda.so"]
};

/// `CU_DEVICE_ATTRIBUTE_…` of a card's PCI address.
const PCI_BUS: c_int = 33;
const PCI_DEVICE: c_int = 34;
const PCI_DOMAIN: c_int = 50;

/// One card, in CUDA's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// The product name.
    pub name: String,
    /// PCI domain, bus and device; `None` if the driver does not report them.
    pub slot: Option<[u32; 3]>,
    /// Total memory in bytes; `None` if the driver does not report it.
    pub memory: Option<u64>,
}

/// All cards; empty if there is no working driver.
pub fn cards() -> Vec<Card> {
    // SAFETY: the driver's library is loaded, and its functions are called as its documentation
    // declares them.
    unsafe { query() }.unwrap_or_default()
}

/// Opens the card of this number in [`cards`].
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

/// # Safety
///
/// A library found under one of the names must be NVIDIA's.
unsafe fn query() -> Option<Vec<Card>> {
    type Ordinals = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
    // SAFETY: NVIDIA's library can be loaded without preconditions.
    let library = LIBRARIES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
    // SAFETY: each function is declared as in `cuda.h`, and its pointers outlive the call.
    unsafe {
        let init: Symbol<unsafe extern "C" fn(u32) -> c_int> = library.get(b"cuInit").ok()?;
        let count_of: Symbol<unsafe extern "C" fn(*mut c_int) -> c_int> = library.get(b"cuDeviceGetCount").ok()?;
        let get: Symbol<Ordinals> = library.get(b"cuDeviceGet").ok()?;
        let name_of: Symbol<unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int> =
            library.get(b"cuDeviceGetName").ok()?;
        let attribute: Symbol<unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int> =
            library.get(b"cuDeviceGetAttribute").ok()?;
        let memory_of: Symbol<unsafe extern "C" fn(*mut usize, c_int) -> c_int> =
            library.get(b"cuDeviceTotalMem_v2").ok()?;

        let mut count = 0;
        if init(0) != 0 || count_of(&mut count) != 0 {
            return None;
        }
        let mut cards = Vec::new();
        for ordinal in 0..count {
            let mut card = 0;
            if get(&mut card, ordinal) != 0 {
                // A card's number is its index in this list, so the list ends at the first gap.
                break;
            }
            let mut name = [0 as c_char; 256];
            let named = name_of(name.as_mut_ptr(), name.len() as c_int - 1, card) == 0;
            let place = |which| {
                let mut value = 0;
                (attribute(&mut value, which, card) == 0).then_some(value as u32)
            };
            let mut memory = 0;
            cards.push(Card {
                name: if named {
                    CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
                } else {
                    "NVIDIA graphics card".to_owned()
                },
                slot: place(PCI_DOMAIN)
                    .zip(place(PCI_BUS))
                    .zip(place(PCI_DEVICE))
                    .map(|((domain, bus), device)| [domain, bus, device]),
                memory: (memory_of(&mut memory, card) == 0).then_some(memory as u64),
            });
        }
        // Never unloaded: Burn loads the driver again, and unloading it in between breaks that.
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
