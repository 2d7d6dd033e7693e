//! Compares operations, layers and models on a GPU with the CPU and PyTorch, forward and backward,
//! in every block format.
//!
//! On Linux the driver is a software one unless the environment selects another.

#![cfg(any(feature = "wgpu", feature = "cuda"))]

mod fixture;
#[path = "../shared/lora.rs"]
mod lora;
mod offload;
#[path = "../shared/reference.rs"]
mod reference;
mod reference_logits;
mod sequences;
mod table;

use burn::backend::Cube;
use burn::tensor::{Device, Tensor};
use burn_std::{Metadata, strides};
use fixture::{Fixture, Layer, blocks, quantize, relative_error};
use hearth_kernels::attention::{Heads, KvFormat, QkNormWidth};
use hearth_kernels::rope::{Pairing, Rope};
use hearth_kernels::{Layout, Quant};
use hearth_llm::ops::{
    Activation, Adapter, AttentionSpec, Bias, Gated, Linear, Linears, MatmulPrecision, MatrixSpec, OptionalNorm,
    attend, dequantize, embed, feed_forward, linear_add, norm_linears,
};
use hearth_llm::{Batch, Cache, CacheSize, LayerGroup, Place, Sequence};
use hearth_test_parts::Parts;
use hearth_tests::driver;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

const LAYERS: [&str; 2] = ["llama", "gemma"];

/// Tolerance between CPU and GPU after a layer in f32, relative to the maximum value.
const TOLERANCE: f32 = 1e-4;

/// The GPU that all tests share; `None` if `HEARTH_NO_GPU_TESTS` is 1.
///
/// Panics if there is no GPU, so that a missing driver is noticed.
fn gpu() -> Option<Device> {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    if driver::is_disabled() {
        return None;
    }
    let device = DEVICE.get_or_init(|| {
        driver::select();
        hearth_llm::device::open(Place::Gpu(0)).unwrap_or_else(|error| {
            panic!(
                "no GPU driver answers: {error}. Install one that is software (Debian: apt install chromium \
                 libvulkan1) or set HEARTH_NO_GPU_TESTS=1 to leave these tests out."
            )
        })
    });
    Some(device.clone())
}

/// CubeCL's client of a device.
fn client(device: &Device) -> cubecl::prelude::Client {
    let tensor = Tensor::<1>::zeros([1], device).try_into_primitive::<Cube>();
    // SwiftShader crashes if the process exits while a kernel runs, and some tests run no other.
    device.sync().expect("a GPU that answers");
    tensor.expect("a tensor on a GPU").client
}

/// CubeCL's name of the runtime that this build tests.
const RUNTIME: &str = if cfg!(feature = "vulkan") {
    "wgpu<spirv>"
} else if cfg!(feature = "wgpu") {
    "wgpu"
} else {
    "cuda"
};

/// CubeCL silently falls back to WGSL on a driver without the features that SPIR-V needs. The tests
/// would then run other kernels than the ones they are built for.
#[test]
fn kernels_run_on_the_runtime_of_the_build() {
    let Some(device) = gpu() else { return };
    let client = client(&device);
    let actual = client.name();
    assert!(
        actual.starts_with(RUNTIME),
        "kernels run in {actual}, and these tests are built for {RUNTIME}: choose another driver, or build them \
         without the feature"
    );
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("floats")
}

/// Pseudo-random bytes, the same on every machine.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        // Knuth's linear congruential generator for MMIX, of which the top byte is used.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn plain_spec(quant: Quant, rows: usize, cols: usize) -> MatrixSpec {
    MatrixSpec {
        quant,
        layout: Layout::Plain,
        rows,
        cols,
        scale: 1.0,
    }
}

/// Random blocks in an odd number of rows. Values may differ by one rounding of the block's
/// maximum, since a GPU may fuse multiply and add, and by 12 times the smallest normal number,
/// since a GPU may flush a subnormal scale, which is multiplied by up to 12. The same values are
/// not finite.
#[test]
fn every_format_dequantizes_as_on_the_cpu() {
    let Some(device) = gpu() else { return };
    let (rows, cols) = (7, 768);
    for quant in Quant::ALL {
        let bytes = noise(quant.row_bytes(rows * cols).expect("whole blocks"), quant as u64 + 1);
        let mut expected = vec![0.0; rows * cols];
        quant.dequantize_row(&bytes, &mut expected).expect("whole blocks");
        let actual = floats(dequantize(blocks(&bytes, &device), plain_spec(quant, rows, cols)));
        let block_elements = quant.block_elements();
        let blocks = actual.chunks(block_elements).zip(expected.chunks(block_elements));
        for (block, (actual, expected)) in blocks.enumerate() {
            let max = expected
                .iter()
                .filter(|x| x.is_finite())
                .fold(0.0_f32, |max, x| max.max(x.abs()));
            for (index, (actual, expected)) in actual.iter().zip(expected).enumerate() {
                let is_equal = if expected.is_finite() {
                    (actual - expected).abs() <= f32::EPSILON * max + 12.0 * f32::MIN_POSITIVE
                } else {
                    !actual.is_finite()
                };
                assert!(
                    is_equal,
                    "{quant}, block {block}, weight {index}: {actual} on the GPU, {expected} on the CPU"
                );
            }
        }
    }
}

/// A copy of a strided weight would take longer than its matmul, so the operation panics. The
/// engine reports the panic as a bug.
#[test]
fn a_strided_weight_is_refused() {
    let Some(device) = gpu() else { return };
    let words = blocks(&noise(2 * 64 * 4, 3), &device);
    let mut strided = words.clone().try_into_primitive::<Cube>().expect("a tensor on a GPU");
    strided.meta = Box::new(Metadata::new([64], strides![2]));
    let run = |weight| {
        catch_unwind(AssertUnwindSafe(|| {
            floats(dequantize(weight, plain_spec(Quant::F32, 2, 32)))
        }))
    };
    assert!(run(words).is_ok());
    let panic = run(Tensor::from_primitive::<Cube>(strided)).expect_err("strided words");
    let message = panic.downcast_ref::<String>().expect("a sentence");
    assert!(message.contains("not contiguous"), "{message}");
}

/// A batch of the last three of five tokens in a cache for eight.
fn cached_batch() -> Arc<Batch> {
    let group = LayerGroup {
        layers: vec![0],
        kv_heads: 1,
        head_dim: 64,
        window: None,
    };
    let size = CacheSize::chat(8, std::slice::from_ref(&group));
    let mut sequence = Sequence::new(&Cache::new(&[group], KvFormat::F16, size));
    sequence.append(&[0; 5]).expect("a context of 8");
    Arc::new(Batch::of_sequences(&[(&sequence, 3)]).expect("a batch"))
}

/// A GPU would silently read wrong values.
#[test]
fn a_batch_of_another_length_than_the_views_is_refused_on_every_device() {
    let Some(gpu) = gpu() else { return };
    let spec = Arc::new(AttentionSpec {
        heads: Heads {
            heads: 1,
            kv_heads: 1,
            head_dim: 64,
            scale: 0.125,
            softcap: None,
            window: None,
        },
        norm_width: QkNormWidth::Head,
        rope: Some(Rope::plain(Pairing::Halves, 64, 10_000.0).into()),
        temperature: None,
    });
    let none = OptionalNorm::None;
    for device in [Device::flex(), gpu] {
        for tokens in 2..=4 {
            let qkv = Tensor::<2>::ones([tokens, 3 * 64], &device);
            let attend = || floats(attend(qkv, &none, &none, &spec, &cached_batch(), 0));
            let result = catch_unwind(AssertUnwindSafe(attend));
            assert_eq!(result.is_ok(), tokens == 3, "{tokens} tokens on {device:?}");
            if let Err(panic) = result {
                let message = panic.downcast_ref::<String>().expect("a sentence");
                assert!(message.contains("positions for 3"), "{message}");
            }
        }
    }
}

#[test]
fn embedding_rows_equal_the_dequantized_table() {
    let Some(device) = gpu() else { return };
    let (rows, cols) = (11, 512);
    let values: Vec<f32> = noise(rows * cols, 1)
        .into_iter()
        .map(|byte| f32::from(byte) / 100.0 - 1.28)
        .collect();
    for quant in Quant::ALL {
        let bytes = quantize(quant, &values);
        let mut table_values = vec![0.0; rows * cols];
        quant.dequantize_row(&bytes, &mut table_values).expect("whole blocks");
        let weight = blocks(&bytes, &device).into_dispatch();
        let table = Linear {
            weight,
            spec: plain_spec(quant, rows, cols),
            adapter: Adapter::None,
            bias: Bias::None,
        };
        let ids = [10, 0, 3, 3, 7];
        let actual = floats(embed(&table, ids.into(), 2.0));
        let expected: Vec<f32> = ids
            .iter()
            .flat_map(|id| &table_values[*id as usize * cols..][..cols])
            .map(|weight| 2.0 * weight)
            .collect();
        assert!(relative_error(&actual, &expected) <= f32::EPSILON, "{quant}");
    }
}

/// The weight is 8, its scale 1/4, the adapter adds 3x and the bias 1. So an input of 1 gives
/// 8/4 + 3 + 1 = 6, and x gives 5x + 1. Wrong orders give 3.75, 5.25 and 3. All of it has the
/// factor of the residual stream. A norm of ones changes nothing.
#[test]
fn scale_adapter_and_bias_come_in_the_order_of_nvfp4() {
    let Some(gpu) = gpu() else { return };
    for device in [Device::flex(), gpu] {
        let float = |value: f32| Tensor::<2>::full([1, 1], value, &device).into_dispatch();
        let vector = |value: f32| Tensor::<1>::full([1], value, &device).into_dispatch();
        let linear = || Linear {
            weight: blocks(&8.0_f32.to_le_bytes(), &device).into_dispatch(),
            spec: MatrixSpec {
                scale: 0.25,
                ..plain_spec(Quant::F32, 1, 1)
            },
            adapter: Adapter::Lora {
                a: float(1.0),
                b: float(3.0),
                scale: 1.0,
                dropout: None,
            },
            bias: Bias::Add(vector(1.0)),
        };
        let norm = OptionalNorm::Norm(vector(1.0), 0.0);
        let none = OptionalNorm::None;
        for (tokens, scale, before) in [(1, 1.0, &norm), (1, 0.5, &none), (20, 1.0, &none), (20, 0.5, &norm)] {
            let ones = || Tensor::<2>::ones([tokens, 1], &device);
            let check = |operation: &str, actual: Tensor<2>, expected: f32| {
                let actual = floats(actual);
                let is_close = |value: &f32| (value - expected).abs() <= 1e-5 * expected;
                assert!(
                    actual.iter().all(is_close),
                    "{operation} of {tokens} on {device:?}: {actual:?}"
                );
            };
            let precision = MatmulPrecision::F32;
            let qkv = Linears::Three(linear(), linear(), linear());
            check("QKV", norm_linears(ones(), before, &qkv, precision), 6.0);
            let sum = linear_add(ones(), ones(), &linear(), &none, scale, precision);
            check("output projection", sum, 1.0 + scale * 6.0);
            let sum = linear_add(ones(), ones(), &linear(), &norm, scale, precision);
            check("output projection with a norm after it", sum, 1.0 + scale);
            let gated = Gated {
                norm: before.clone(),
                gate: linear(),
                up: linear(),
                activation: Activation::Silu,
            };
            let hidden = 6.0 / (1.0 + (-6.0_f32).exp()) * 6.0;
            let output = feed_forward(ones(), &gated, &linear(), &none, scale, precision);
            check("feed-forward", output, 1.0 + scale * (5.0 * hidden + 1.0));
        }
    }
}

#[test]
fn a_layer_matches_the_cpu() {
    let Some(device) = gpu() else { return };
    let parts = Parts::from_variable("gpu");
    // The offset puts the formats of the second layer into other parts.
    for (offset, name) in [0, 2].into_iter().zip(LAYERS) {
        let fixture = Fixture::read(name);
        let quants = Quant::ALL.into_iter().filter(|quant| quant.block_elements() <= 32);
        for (number, quant) in quants.enumerate() {
            let case = format!("a_layer_matches_the_cpu {name} in {quant}");
            if !parts.includes_or(quant == Quant::F32, number + offset, &case) {
                continue;
            }
            let on_cpu = floats(Layer::new(&fixture, quant, &Device::flex()).forward(MatmulPrecision::F32));
            let on_gpu = floats(Layer::new(&fixture, quant, &device).forward(MatmulPrecision::F32));
            let error = relative_error(&on_gpu, &on_cpu);
            assert!(error <= TOLERANCE, "{name} in {quant}: off by {error}");
            if quant == Quant::F32 {
                fixture.check(
                    "out",
                    Layer::new(&fixture, quant, &device).forward(MatmulPrecision::F32),
                    TOLERANCE,
                );
            }
        }
    }
}

#[test]
fn a_layers_gradients_match_pytorch() {
    let Some(device) = gpu() else { return };
    for name in LAYERS {
        let fixture = Fixture::read(name);
        let layer = Layer::new(&fixture, Quant::F32, &device.clone().autodiff());
        let gradients = layer.loss(MatmulPrecision::F32).backward();
        for (name, tensor) in layer.trainable() {
            let gradient = tensor
                .grad(&gradients)
                .unwrap_or_else(|| panic!("{name} has no gradient"));
            fixture.check(&format!("grad.{name}"), gradient, TOLERANCE);
        }
    }
}
