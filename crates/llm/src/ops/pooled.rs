//! Output tensors in pooled memory. Each step allocates tensors of the same sizes, and the first
//! use of newly allocated memory is slow.

use burn::backend::{AllocationProperty, Bytes};
use burn::tensor::{DType, TensorData};
use burn_flex::FlexTensor;
use burn_std::{AccessError, AccessPolicy, AllocationController};
use hearth_kernels::scratch::Scratch;
use std::mem::MaybeUninit;

/// The buffer of a tensor, which returns to the pool when the tensor is dropped.
struct PooledBuffer(Scratch<f32>);

impl AllocationController for PooledBuffer {
    fn alloc_align(&self) -> usize {
        align_of::<f32>()
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Native
    }

    unsafe fn memory_mut(&mut self, _: AccessPolicy) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.0);
        // SAFETY: `u8` and `MaybeUninit<u8>` have the same layout, and the caller writes only
        // initialized bytes.
        Ok(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) })
    }

    fn memory(&self, _: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        let bytes: &[u8] = bytemuck::cast_slice(&self.0);
        // SAFETY: `u8` and `MaybeUninit<u8>` have the same layout.
        Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) })
    }
}

/// A tensor backed by a pooled buffer.
pub(super) fn tensor<const D: usize>(values: Scratch<f32>, shape: [usize; D]) -> FlexTensor {
    let length = size_of_val(&values[..]);
    // SAFETY: all `length` bytes of the buffer are initialized.
    let bytes = unsafe { Bytes::from_controller(Box::new(PooledBuffer(values)), length) };
    FlexTensor::from_data(TensorData::from_bytes(bytes, shape, DType::F32))
}
