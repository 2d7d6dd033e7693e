//! Memory layouts of input tensors.

use burn::backend::Cube;
use burn::tensor::{Device, Tensor, TensorData};
use burn_std::{Metadata, strides};

/// The memory layout of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The only owner of its buffer, which the operation may overwrite.
    Sole,
    /// A shared buffer, which must not be overwritten.
    Held,
    /// A slice in the middle of a larger buffer.
    Sliced,
    /// Rows padded with NaN, as CubeCL pads them on CUDA and ROCm.
    Pitched,
}

/// Rows before and after a slice. With this number, the slice begins at a multiple of 256 bytes, as
/// GPUs require.
const PADDING_ROWS: usize = 64;

/// An input tensor.
pub struct Input<const D: usize> {
    pub tensor: Tensor<D>,
    /// A second owner of the buffer, and the expected values.
    second_owner: Option<(Tensor<D>, Vec<f32>)>,
}

impl<const D: usize> Input<D> {
    /// The input if it has a second owner, otherwise `None`, so that the operation is the only
    /// owner.
    pub fn if_shared(self) -> Option<Self> {
        self.second_owner.is_some().then_some(self)
    }

    /// Panics if an operation overwrote a shared input.
    pub fn check_unchanged(&self) {
        if let Some((tensor, values)) = &self.second_owner {
            let actual = tensor.clone().into_data().try_into_vec::<f32>().expect("floats");
            assert!(actual == *values, "an operation overwrote a shared input");
        }
    }
}

/// A matrix with NaN padding after each row, or a vector with it after each element.
fn pitched<const D: usize>(values: &[f32], shape: [usize; D], device: &Device) -> Tensor<D> {
    let (rows, cols) = rows_and_cols(shape);
    let pitch = (cols + 1).next_multiple_of(if D == 1 { 2 } else { 64 });
    let mut padded = vec![f32::NAN; rows * pitch];
    for (padded_row, row) in padded.chunks_mut(pitch).zip(values.chunks(cols)) {
        padded_row[..cols].copy_from_slice(row);
    }
    // A vector, because CUDA and ROCm would pad the rows of a matrix.
    let buffer = Tensor::<1>::from_data(TensorData::new(padded, [rows * pitch]), device);
    if *device == Device::flex() {
        return buffer.reshape([rows, pitch]).narrow(1, 0, cols).reshape(shape);
    }
    // Sets the strides directly, since operations of Burn may copy the tensor.
    let mut tensor = buffer.try_into_primitive::<Cube>().expect("a tensor on a GPU");
    tensor.meta = Box::new(match D {
        1 => Metadata::new([rows], strides![pitch]),
        _ => Metadata::new([rows, cols], strides![pitch, 1]),
    });
    Tensor::from_primitive::<Cube>(tensor)
}

/// Rows and columns of a matrix. The elements of a vector count as rows.
fn rows_and_cols<const D: usize>(shape: [usize; D]) -> (usize, usize) {
    (shape[0], if D == 1 { 1 } else { shape[1] })
}

impl Layout {
    /// A tensor of these values in this layout.
    pub fn tensor<const D: usize>(self, values: &[f32], shape: [usize; D], device: &Device) -> Tensor<D> {
        let upload = |values: Vec<f32>, shape: [usize; D]| Tensor::from_data(TensorData::new(values, shape), device);
        match self {
            Self::Sole | Self::Held => upload(values.to_vec(), shape),
            Self::Sliced => {
                let (rows, cols) = rows_and_cols(shape);
                let mut buffer = vec![f32::NAN; (rows + 2 * PADDING_ROWS) * cols];
                buffer[PADDING_ROWS * cols..][..rows * cols].copy_from_slice(values);
                let mut buffer_shape = shape;
                buffer_shape[0] = rows + 2 * PADDING_ROWS;
                upload(buffer, buffer_shape).narrow(0, PADDING_ROWS, rows)
            }
            Self::Pitched => pitched(values, shape, device),
        }
    }

    /// An input of these values in this layout, with a second owner if the layout has one.
    pub fn input<const D: usize>(self, values: &[f32], shape: [usize; D], device: &Device) -> Input<D> {
        let tensor = self.tensor(values, shape, device);
        let second_owner = (self == Self::Held).then(|| (tensor.clone(), values.to_vec()));
        Input { tensor, second_owner }
    }
}
