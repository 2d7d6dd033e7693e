//! Converts between Burn's tensors and the buffers of kernels.
//!
//! Kernels take shapes and no strides, so only contiguous tensors are converted. Burn's own
//! operations (`copy`, `add`, `cat`, `from_data`, …) allocate in CubeCL's `Optimized` layout, in
//! which CUDA and ROCm pad the rows of a matrix to a multiple of bytes, as `cudaMallocPitch`
//! does: rows of 576 floats have a stride of 640. `into_contiguous` allocates without padding, as
//! [`Floats::empty`] does.

use super::Tensor;
use crate::ops::inputs::checked;
use burn::backend::Cube;
use burn::backend::tensor::IntTensor;
use burn::backend::{DType, Shape, TensorMetadata};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::{ElemType, FloatKind};
use cubecl::server::Handle;
use hearth_kernels::gpu::Floats;

/// A tensor that no kernel can read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum LayoutError {
    #[error(
        "a tensor of shape {shape:?} with strides {strides:?} is not contiguous, and kernels read contiguous ones only"
    )]
    Strided { shape: Vec<usize>, strides: Vec<usize> },
    #[error("a tensor holds {found:?}, and its kernel reads {expected:?}")]
    Type { found: DType, expected: DType },
    #[error("a tensor has {found} dimensions, and its kernel reads {expected}")]
    Rank { found: usize, expected: usize },
}

/// Returns the buffer of a contiguous tensor with this type and number of dimensions.
fn buffer(tensor: &CubeTensor, expected: DType, rank: usize) -> Result<Handle, LayoutError> {
    let found = tensor.dtype;
    if found != expected {
        return Err(LayoutError::Type { found, expected });
    }
    if tensor.meta.is_tiled() || !tensor.is_contiguous() {
        return Err(LayoutError::Strided {
            shape: tensor.meta.shape().to_vec(),
            strides: tensor.meta.strides().to_vec(),
        });
    }
    match tensor.rank() {
        found if found != rank => Err(LayoutError::Rank { found, expected: rank }),
        _ => Ok(tensor.handle.clone()),
    }
}

fn try_floats(tensor: &Tensor) -> Result<Floats, String> {
    let handle = buffer(tensor, DType::F32, 2).map_err(|error| error.to_string())?;
    let shape = tensor.shape();
    Floats::new(handle, shape[0], shape[1]).map_err(|error| error.to_string())
}

/// A contiguous matrix as an operand of a kernel.
pub(super) fn floats(tensor: &Tensor) -> Floats {
    checked(try_floats(tensor))
}

/// The buffer of a vector, or of a contiguous copy if the vector is strided.
pub(super) fn vector(tensor: Tensor) -> Handle {
    checked(buffer(&into_contiguous(tensor), DType::F32, 1))
}

/// The buffer of a weight's 32-bit words. A strided weight is refused: a copy would take longer
/// than the GEMM.
pub(super) fn words(tensor: &IntTensor<Cube>) -> Handle {
    checked(buffer(tensor, DType::U32, 1))
}

/// The result of a kernel as a tensor of Burn, on the device of `like`.
pub(super) fn tensor(like: &Tensor, floats: Floats) -> Tensor {
    let shape = Shape::from([floats.rows, floats.cols]);
    Tensor::new_contiguous(
        like.client.clone(),
        like.device.clone(),
        shape,
        floats.handle,
        DType::F32,
    )
}

/// Copies a matrix in f32 to a contiguous buffer that is not shared. Burn's `copy` may pad rows.
pub(super) fn contiguous_copy(matrix: &Tensor) -> Tensor {
    let f32_type = ElemType::Float(FloatKind::F32);
    let copy = cubecl::std::tensor::into_contiguous(&matrix.client, matrix.clone().binding(), f32_type);
    let shape = matrix.shape();
    tensor(matrix, checked(Floats::new(copy.handle, shape[0], shape[1])))
}

#[cfg(all(test, any(feature = "wgpu", feature = "cuda")))]
mod tests {
    use super::*;
    use crate::{Place, device};
    use burn::tensor::{Device, Tensor, TensorData};
    use burn_std::{Metadata, strides};
    use hearth_tests::driver;
    use std::sync::OnceLock;

    /// A matrix of ascending integers with the row stride `pitch` and NaN as padding, in the layout
    /// of CubeCL on CUDA. `None` if GPU tests are disabled.
    fn pitched(rows: usize, cols: usize, pitch: usize) -> Option<CubeTensor> {
        if driver::is_disabled() {
            return None;
        }
        // The driver must be selected once, before any is loaded.
        static GPU: OnceLock<Device> = OnceLock::new();
        let device = GPU.get_or_init(|| {
            driver::select();
            device::open(Place::Gpu(0)).expect("a GPU, or HEARTH_NO_GPU_TESTS=1")
        });
        let value = |i: usize| {
            if i % pitch < cols {
                (i / pitch * cols + i % pitch) as f32
            } else {
                f32::NAN
            }
        };
        let values: Vec<f32> = (0..rows * pitch).map(value).collect();
        // A vector, because CUDA and ROCm would pad the rows of a matrix.
        let vector = Tensor::<1>::from_data(TensorData::new(values, [rows * pitch]), device);
        let mut tensor = vector.try_into_primitive::<Cube>().expect("a tensor on a GPU");
        tensor.meta = Box::new(Metadata::new([rows, cols], strides![pitch, 1]));
        Some(tensor)
    }

    fn read(floats: &Floats, like: &CubeTensor) -> Vec<f32> {
        let bytes = like.client.read_one(floats.handle.clone()).expect("the GPU runs");
        bytemuck::cast_slice(&bytes)[..floats.rows * floats.cols].to_vec()
    }

    #[test]
    fn a_matrix_with_padded_rows_is_refused() {
        for (cols, pitch) in [(576, 640), (960, 1024)] {
            let Some(tensor) = pitched(3, cols, pitch) else { return };
            let error = try_floats(&tensor).expect_err("its rows are padded");
            assert!(error.contains("not contiguous"), "{error}");
            let contiguous = into_contiguous(tensor);
            let expected: Vec<f32> = (0..3 * cols).map(|i| i as f32).collect();
            assert_eq!(read(&floats(&contiguous), &contiguous), expected);
        }
    }

    #[test]
    fn a_single_row_is_contiguous_with_any_stride() {
        let Some(tensor) = pitched(1, 576, 640) else { return };
        let expected: Vec<f32> = (0..576).map(|i| i as f32).collect();
        assert_eq!(read(&floats(&tensor), &tensor), expected);
    }

    #[test]
    fn a_copy_is_contiguous_and_not_shared() {
        for (cols, pitch) in [(576, 576), (576, 640), (960, 1024)] {
            let Some(tensor) = pitched(3, cols, pitch) else { return };
            let copy = contiguous_copy(&tensor);
            assert!(copy.can_mut(), "the copy is shared");
            let matrix = floats(&copy);
            assert_eq!(matrix.handle.size_in_used(), 3 * cols as u64 * 4);
            let expected: Vec<f32> = (0..3 * cols).map(|i| i as f32).collect();
            assert_eq!(read(&matrix, &copy), expected);
        }
    }

    #[test]
    fn another_type_or_number_of_dimensions_is_refused() {
        let Some(mut tensor) = pitched(3, 64, 64) else { return };
        assert!(matches!(buffer(&tensor, DType::F32, 1), Err(LayoutError::Rank { .. })));
        tensor.dtype = DType::I32;
        assert!(matches!(buffer(&tensor, DType::F32, 2), Err(LayoutError::Type { .. })));
    }
}
