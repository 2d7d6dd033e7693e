//! Memory layouts of inputs.

use burn::backend::Cube;
use burn::tensor::{Device, Tensor, TensorData};
use burn_std::{Metadata, strides};

/// The memory layout of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The only owner of its buffer, which the operation may overwrite.
    Sole,
    /// A shared buffer that is read afterwards.
    Held,
    /// In the middle of a larger buffer.
    Sliced,
    /// Padded rows, as CUDA's and ROCm's allocators make them; the padding is NaN.
    Pitched,
}

/// Rows before a slice: buffers are cut at multiples of 256 bytes.
const BEFORE: usize = 64;

/// An input, and its second owner, if any.
pub struct Input<const D: usize> {
    pub tensor: Tensor<D>,
    holder: Option<(Tensor<D>, Vec<f32>)>,
}

impl<const D: usize> Input<D> {
    /// The input if it has a second owner, otherwise `None`, so that the operation is the only
    /// owner.
    pub fn if_shared(self) -> Option<Self> {
        self.holder.is_some().then_some(self)
    }

    /// Panics if an operation overwrote a shared input.
    pub fn check_unchanged(&self) {
        if let Some((tensor, values)) = &self.holder {
            let actual = tensor.clone().into_data().try_into_vec::<f32>().expect("floats");
            assert!(actual == *values, "an operation overwrote a shared input");
        }
    }
}

/// A tensor with NaN padding after each row (each element of a vector).
fn pitched<const D: usize>(values: &[f32], shape: [usize; D], device: &Device) -> Tensor<D> {
    let (rows, cols) = rows_of(shape);
    let pitch = (cols + 1).next_multiple_of(if D == 1 { 2 } else { 64 });
    let mut apart = vec![f32::NAN; rows * pitch];
    for (into, from) in apart.chunks_mut(pitch).zip(values.chunks(cols)) {
        into[..cols].copy_from_slice(from);
    }
    // 1-D: CUDA and ROCm pad the rows of 2-D tensors.
    let whole = Tensor::<1>::from_data(TensorData::new(apart, [rows * pitch]), device);
    if *device == Device::flex() {
        return whole.reshape([rows, pitch]).narrow(1, 0, cols).reshape(shape);
    }
    // By hand, so that no device copies it.
    let mut tensor = whole.try_into_primitive::<Cube>().expect("a tensor on a GPU");
    tensor.meta = Box::new(match D {
        1 => Metadata::new([rows], strides![pitch]),
        _ => Metadata::new([rows, cols], strides![pitch, 1]),
    });
    Tensor::from_primitive::<Cube>(tensor)
}

/// Rows and columns; a vector's elements are rows of one column.
fn rows_of<const D: usize>(shape: [usize; D]) -> (usize, usize) {
    (shape[0], if D == 1 { 1 } else { shape[1] })
}

impl Layout {
    /// A tensor of these values in this layout.
    pub fn tensor<const D: usize>(self, values: &[f32], shape: [usize; D], device: &Device) -> Tensor<D> {
        let plain = |values: Vec<f32>, shape: [usize; D]| Tensor::from_data(TensorData::new(values, shape), device);
        match self {
            Self::Sole | Self::Held => plain(values.to_vec(), shape),
            Self::Sliced => {
                let (rows, cols) = rows_of(shape);
                let mut all = vec![f32::NAN; (rows + 2 * BEFORE) * cols];
                all[BEFORE * cols..][..rows * cols].copy_from_slice(values);
                let mut whole = shape;
                whole[0] = rows + 2 * BEFORE;
                plain(all, whole).narrow(0, BEFORE, rows)
            }
            Self::Pitched => pitched(values, shape, device),
        }
    }

    /// The same with its second owner, if the layout has one.
    pub fn input<const D: usize>(self, values: &[f32], shape: [usize; D], device: &Device) -> Input<D> {
        let tensor = self.tensor(values, shape, device);
        let holder = (self == Self::Held).then(|| (tensor.clone(), values.to_vec()));
        Input { tensor, holder }
    }
}
