//! The GPUs that CUDA can open, asked of NVIDIA's driver itself: a machine without one is no error.
//!
//! <https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html>

pub mod libdevice;

use burn::tensor::Device;
use libloading::{Library, Symbol};
use std::ffi::{CStr, c_char, c_int};

/// The driver's library, by the names under which systems have it.
const LIBRARIES: &[&str] = if cfg!(windows) {
    &["nvcuda.dll"]
} else {
    &["libcuda.so.1", "libcuda.so"]
};

/// `CU_DEVICE_ATTRIBUTE_…` of where a card sits.
const PCI_BUS: c_int = 33;
const PCI_DEVICE: c_int = 34;
const PCI_DOMAIN: c_int = 50;

/// One card, in CUDA's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// The maker's name for it.
    pub name: String,
    /// Domain, bus and device of its slot; none where the driver does not tell.
    pub slot: Option<[u32; 3]>,
    /// Bytes of its memory.
    pub memory: Option<u64>,
}

/// Every card; none where there is no driver, or it does not work.
pub fn cards() -> Vec<Card> {
    // SAFETY: the driver's library is loaded, and its functions are called as its documentation
    // declares them.
    unsafe { ask() }.unwrap_or_default()
}

/// Opens the card of this number in [`cards`].
///
/// # Errors
/// There is no such card; the text is a sentence without its full stop. Where the driver fails
/// later, Burn panics.
pub fn open(number: usize) -> Result<Device, String> {
    match number < cards().len() {
        true => Ok(Device::cuda(number)),
        false => Err("CUDA knows no such GPU on this machine, or its driver does not answer".to_owned()),
    }
}

/// # Safety
///
/// A library of one of the names is NVIDIA's.
unsafe fn ask() -> Option<Vec<Card>> {
    type Ordinals = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
    // SAFETY: NVIDIA's library may be loaded by anybody.
    let library = LIBRARIES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
    // SAFETY: each function is declared as in `cuda.h`, and gets pointers to what outlives the
    // call.
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
                // A number stands for a place in the list, so a hole ends it.
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
                name: match named {
                    true => CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned(),
                    false => "NVIDIA graphics card".to_owned(),
                },
                slot: place(PCI_DOMAIN)
                    .zip(place(PCI_BUS))
                    .zip(place(PCI_DEVICE))
                    .map(|((domain, bus), device)| [domain, bus, device]),
                memory: (memory_of(&mut memory, card) == 0).then_some(memory as u64),
            });
        }
        // The driver stays: Burn loads it again, and does not like it to go.
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
