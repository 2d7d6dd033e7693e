//! The GPU that all tests share, and transfers to it and back.

use cubecl::prelude::*;
use cubecl::server::Handle;
use hearth_kernels::Quant;
use hearth_kernels::gpu::{Floats, Weight, words};
use hearth_kernels::reference::{noise, relative_error};

use hearth_tests::driver;
use std::sync::OnceLock;

/// The GPU; `None` if tests that need one are skipped.
///
/// A test without a GPU fails, so that a machine which has lost its driver is noticed.
pub fn gpu() -> Option<Client> {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    if driver::is_disabled() {
        return None;
    }
    let client = CLIENT.get_or_init(|| {
        driver::select();
        open()
    });
    Some(client.clone())
}

/// CubeCL's name of the backend of this build.
const RUNTIME: &str = if cfg!(feature = "cuda") {
    "cuda"
} else if cfg!(feature = "vulkan") {
    "wgpu<spirv>"
} else {
    "wgpu"
};

#[cfg(feature = "cuda")]
fn open() -> Client {
    cubecl::Device::Cuda(Default::default()).client()
}

#[cfg(not(feature = "cuda"))]
fn open() -> Client {
    cubecl::Device::Wgpu(Default::default()).client()
}

/// CubeCL silently falls back to WGSL on a driver without SPIR-V's requirements; the tests would
/// then not cover their build.
#[test]
fn kernels_run_in_the_language_of_the_build() {
    let Some(client) = gpu() else { return };
    assert!(
        client.name().starts_with(RUNTIME),
        "kernels run in {}, and these tests are built for {RUNTIME}: choose another driver, or build them without the \
         feature",
        client.name()
    );
}

/// Elements of each buffer after the last, which no kernel may use: CUDA's are rounded up.
const PADDING: usize = 70;

/// A matrix on the device.
pub fn floats(client: &Client, values: &[f32], rows: usize, cols: usize) -> Floats {
    let padded: Vec<f32> = values.iter().copied().chain([f32::NAN; PADDING]).collect();
    Floats::new(client.create_from_slice(f32::as_bytes(&padded)), rows, cols)
        .expect("the buffer is as large as the matrix")
}

/// The same buffer without [`PADDING`], for tests that refuse short ones.
pub fn unpadded(buffer: Handle) -> Handle {
    buffer.offset_end((PADDING * 4) as u64)
}

/// Integers on the device.
pub fn numbers(client: &Client, values: &[u32]) -> Handle {
    let padded: Vec<u32> = values.iter().copied().chain([u32::MAX; PADDING]).collect();
    client.create_from_slice(u32::as_bytes(&padded))
}

/// A weight `[rows, cols]` of quantized noise: on the device, and dequantized.
pub fn weight(client: &Client, quant: Quant, rows: usize, cols: usize) -> (Weight, Vec<f32>) {
    weight_of(client, quant, &noise(rows as u64, rows * cols), cols)
}

/// A quantized weight with rows of `cols`: on the device, and dequantized.
pub fn weight_of(client: &Client, quant: Quant, numbers: &[f32], cols: usize) -> (Weight, Vec<f32>) {
    let rows = numbers.len() / cols;
    let mut bytes = vec![0; quant.row_bytes(cols).expect("whole blocks") * rows];
    quant.quantize_row(numbers, &mut bytes).expect("numbers can be stored");
    let mut values = vec![0.0; rows * cols];
    quant.dequantize_row(&bytes, &mut values).expect("whole blocks");
    let words = self::numbers(client, &words(&bytes));
    (
        Weight {
            words,
            quant,
            rows,
            cols,
        },
        values,
    )
}

/// Reads a matrix from the device.
pub fn read(client: &Client, values: &Floats) -> Vec<f32> {
    let bytes = client.read_one(values.handle.clone()).expect("the kernels before ran");
    f32::from_bytes(&bytes)[..values.rows * values.cols].to_vec()
}

/// Panics if a matrix on the device is not close to `expected`.
#[track_caller]
pub fn assert_near(what: &str, client: &Client, actual: &Floats, expected: &[f64], tolerance: f64) {
    let actual = read(client, actual);
    let error = relative_error(&actual, expected);
    assert!(
        error <= tolerance,
        "{what}: off by {error:.3e} of its length, {tolerance:.1e} allowed\nfound    {:?}\nexpected {:?}",
        &actual[..actual.len().min(8)],
        &expected[..expected.len().min(8)],
    );
}
