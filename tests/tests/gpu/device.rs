//! The GPU that all tests here share, and what is carried to it and back.

use cubecl::prelude::*;
use hearth_kernels::Quant;
use hearth_kernels::gpu::{Floats, Weight, words};
use hearth_kernels::reference::{noise, relative_error};

use hearth_tests::driver;
use std::sync::OnceLock;

/// The GPU; none where the tests that need one are left out.
///
/// A test without a GPU fails, so that a machine which has lost its driver is noticed.
pub fn gpu() -> Option<Client> {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    if driver::left_out() {
        return None;
    }
    let client = CLIENT.get_or_init(|| {
        driver::choose();
        opened()
    });
    Some(client.clone())
}

/// How CubeCL calls what this build of the tests is for.
const RUNTIME: &str = if cfg!(feature = "cuda") {
    "cuda"
} else if cfg!(feature = "vulkan") {
    "wgpu<spirv>"
} else {
    "wgpu"
};

#[cfg(feature = "cuda")]
fn opened() -> Client {
    cubecl::Device::Cuda(Default::default()).client()
}

#[cfg(not(feature = "cuda"))]
fn opened() -> Client {
    cubecl::Device::Wgpu(Default::default()).client()
}

/// A driver without what SPIR-V wants is handed WGSL, silently: then these tests say nothing about the build that they are for.
#[test]
fn kernels_run_in_the_language_that_the_build_is_for() {
    let Some(client) = gpu() else { return };
    assert!(
        client.name().starts_with(RUNTIME),
        "kernels run in {}, and these tests are built for {RUNTIME}: choose another driver, or build them without the feature",
        client.name()
    );
}

/// A matrix on the device.
pub fn floats(client: &Client, values: &[f32], rows: usize, cols: usize) -> Floats {
    Floats::new(client.create_from_slice(f32::as_bytes(values)), rows, cols)
        .expect("the buffer is as large as the matrix")
}

/// Whole numbers on the device.
pub fn numbers(client: &Client, values: &[u32]) -> cubecl::server::Handle {
    client.create_from_slice(u32::as_bytes(values))
}

/// A weight `[rows, cols]` of quantised noise: on the device, and what it stands for.
pub fn weight(client: &Client, quant: Quant, rows: usize, cols: usize) -> (Weight, Vec<f32>) {
    weight_of(client, quant, &noise(rows as u64, rows * cols), cols)
}

/// A weight of quantised numbers, rows of `cols`: on the device, and what it stands for.
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

/// What the device has.
pub fn read(client: &Client, values: &Floats) -> Vec<f32> {
    let bytes = client.read_one(values.handle.clone()).expect("the kernels before ran");
    f32::from_bytes(&bytes)[..values.rows * values.cols].to_vec()
}

/// Fails where what the device has is not near what it should have.
#[track_caller]
pub fn assert_near(what: &str, client: &Client, found: &Floats, expected: &[f64], tolerance: f64) {
    let found = read(client, found);
    let error = relative_error(&found, expected);
    assert!(
        error <= tolerance,
        "{what}: off by {error:.3e} of its length, {tolerance:.1e} allowed\nfound    {:?}\nexpected {:?}",
        &found[..found.len().min(8)],
        &expected[..expected.len().min(8)],
    );
}
