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
        cubecl::Device::default().client()
    });
    Some(client.clone())
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
