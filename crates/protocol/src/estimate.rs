//! Estimated fit and speed of a model on a machine, from the size of its file alone: for models
//! that are not downloaded yet. A plan, which reads the header, is more exact.

use crate::{AutoSelection, DeviceCheck, DeviceInfo, LoadRequest, Verdict};

/// KV cache of the default context, as a fraction of the weights: models with grouped-query
/// attention in 4 bits take from an eighth (Llama 3 8B) to a third (below a billion weights).
const CACHE_FRACTION: f64 = 0.33;
/// Minimum useful context, in tokens.
const MIN_CONTEXT: u32 = 512;
/// Memory of a load besides weights and KV cache, in bytes.
const OVERHEAD_BYTES: u64 = 300 << 20;
/// Layers of a model with a few billion weights.
const LAYERS: f64 = 32.0;
/// Tokens per second below which answers are slower than the user reads: a model that decodes more
/// slowly is [`Verdict::Slow`].
pub const READING_SPEED: f64 = 5.0;

/// The estimated fit and speed of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Whether it fits in the memory that is free now.
    pub verdict: Verdict,
    /// The free memory in bytes. `None` means unknown.
    pub room: Option<u64>,
    /// Expected decode speed in tokens per second: every token reads all weights once. `None`
    /// means that it does not fit.
    pub tokens_per_second: Option<f64>,
    /// Whether the speeds of the devices were measured.
    pub is_measured: bool,
    /// Whether other programs slowed the measurement of the CPU down, which decodes a part.
    pub was_busy: bool,
}

/// Estimates a model whose files have this many bytes, on these devices; the CPU is the first.
pub fn estimate(size: u64, devices: &[DeviceInfo]) -> Estimate {
    let free_memory = |device: &DeviceInfo| device.memory_free.or(device.memory_total);
    let gpus: Vec<&DeviceInfo> = devices
        .iter()
        .skip(1)
        .filter(|gpu| gpu.selection == Some(AutoSelection::Selected))
        .collect();
    let is_discrete = |gpu: &&&DeviceInfo| gpu.kind == "discrete";
    let gpu_memory: u64 = gpus.iter().filter(is_discrete).filter_map(|gpu| free_memory(gpu)).sum();
    let available_memory = devices
        .first()
        .and_then(free_memory)
        .map(|main| (main.saturating_add(gpu_memory)).saturating_sub(OVERHEAD_BYTES));
    let has_shared_memory = gpus.iter().any(|gpu| gpu.kind != "discrete");
    let gpu_bytes = if has_shared_memory { size } else { size.min(gpu_memory) };
    let gpu = gpus.first().copied();
    let (gpu_check, is_gpu_measured) = speed(gpu, DeviceCheck::ASSUMED_GPU);
    let (cpu_check, is_cpu_measured) = speed(devices.first(), DeviceCheck::ASSUMED_CPU);
    let step_seconds = |check: &DeviceCheck, bytes: u64| match bytes {
        0 => 0.0,
        _ => {
            let layers = LAYERS * bytes as f64 / size as f64;
            check.step_seconds + check.decode_seconds(bytes as f64, layers)
        }
    };
    let seconds = step_seconds(&gpu_check, gpu_bytes) + step_seconds(&cpu_check, size - gpu_bytes);
    let speed = (seconds > 0.0).then(|| 1.0 / seconds);
    let verdict = match available_memory.map_or(Verdict::Fits, |memory| memory_verdict(size, memory)) {
        Verdict::Fits if speed.is_some_and(|speed| speed < READING_SPEED) => Verdict::Slow,
        verdict => verdict,
    };
    Estimate {
        verdict,
        room: available_memory,
        tokens_per_second: speed.filter(|_| verdict != Verdict::WontFit),
        is_measured: (gpu_bytes == 0 || is_gpu_measured) && (gpu_bytes == size || is_cpu_measured),
        was_busy: gpu_bytes < size && cpu_check.was_busy(),
    }
}

/// Whether a model of `size` bytes fits in `memory` bytes, regardless of its speed.
fn memory_verdict(size: u64, memory: u64) -> Verdict {
    let default_cache_bytes = size as f64 * CACHE_FRACTION;
    let max_cache_bytes = memory.saturating_sub(size) as f64;
    let context = (max_cache_bytes / default_cache_bytes.max(1.0) * f64::from(LoadRequest::DEFAULT_CONTEXT)) as u32;
    if context < MIN_CONTEXT {
        Verdict::WontFit
    } else if context < LoadRequest::DEFAULT_CONTEXT {
        Verdict::FitsWithLessContext {
            context: context / 256 * 256,
        }
    } else {
        Verdict::Fits
    }
}

/// The measured speed of a device, or an assumed one; and whether it was measured.
fn speed(device: Option<&DeviceInfo>, assumed: DeviceCheck) -> (DeviceCheck, bool) {
    let option = device.and_then(|device| device.backends.first());
    match option.and_then(|option| option.check.as_ref()) {
        Some(check) if check.is_sound() && check.bytes_per_second > 0.0 => (check.clone(), true),
        _ => (assumed, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackendOption, DeviceCheck};

    const GIB: u64 = 1 << 30;

    fn device(id: &str, kind: &str, free: u64, speed: Option<f64>) -> DeviceInfo {
        DeviceInfo {
            id: id.to_owned(),
            kind: kind.to_owned(),
            memory_free: Some(free),
            usable: true,
            selection: (id != "cpu").then_some(AutoSelection::Selected),
            backends: vec![BackendOption {
                check: speed.map(|bytes_per_second| DeviceCheck {
                    bytes_per_second,
                    ..DeviceCheck::default()
                }),
                ..BackendOption::default()
            }],
            ..DeviceInfo::default()
        }
    }

    #[test]
    fn an_estimate_depends_on_free_memory() {
        let machine = |main: u64, gpu: u64| {
            [
                device("cpu", "cpu", main * GIB, None),
                device("gpu0", "discrete", gpu * GIB, None),
            ]
        };
        let verdict = |size: u64, main, gpu| estimate(size * GIB, &machine(main, gpu)).verdict;
        assert_eq!(verdict(3, 16, 0), Verdict::Fits);
        assert_eq!(verdict(9, 16, 0), Verdict::Slow);
        assert_eq!(verdict(9, 16, 12), Verdict::Fits, "fast on the GPU");
        assert!(
            matches!(verdict(14, 16, 0), Verdict::FitsWithLessContext { context } if (512..8192).contains(&context))
        );
        assert_eq!(verdict(16, 16, 0), Verdict::WontFit);
        assert_eq!(verdict(u64::MAX >> 30, 16, 0), Verdict::WontFit);
        assert_eq!(estimate(GIB, &[]).verdict, Verdict::Fits, "unknown memory");
    }

    #[test]
    fn a_model_that_is_slower_than_the_user_reads_is_slow() {
        let verdict = |size: f64, bytes_per_second: f64| {
            estimate(size as u64, &[device("cpu", "cpu", 64 * GIB, Some(bytes_per_second))]).verdict
        };
        assert_eq!(verdict(2e9, READING_SPEED * 2e9), Verdict::Fits);
        assert_eq!(verdict(2e9, 0.99 * READING_SPEED * 2e9), Verdict::Slow);
        assert_eq!(
            verdict(0.8e9, 1.3 * 0.8e9),
            Verdict::Slow,
            "a small model on a slow machine"
        );
        assert_eq!(verdict(9e9, 100e9), Verdict::Fits, "a large model on a fast machine");
    }

    #[test]
    fn speed_follows_from_the_bandwidth_of_each_device() {
        let speed = |size: f64, devices: &[DeviceInfo]| {
            let estimate = estimate(size as u64, devices);
            (estimate.tokens_per_second, estimate.is_measured)
        };
        let cpu = |bytes_per_second| device("cpu", "cpu", 16 * GIB, bytes_per_second);
        assert_eq!(speed(1e9, &[cpu(Some(40e9))]), (Some(40.0), true));
        assert_eq!(speed(1e9, &[cpu(None)]), (Some(20.0), false));
        let gpu = device("gpu0", "discrete", 2 * GIB, Some(400e9));
        assert_eq!(speed(1e9, &[cpu(None), gpu.clone()]), (Some(400.0), true));
        let tokens_per_second = estimate(4 * GIB, &[cpu(Some(20e9)), gpu])
            .tokens_per_second
            .expect("it fits");
        let seconds = 2.0 * GIB as f64 / 400e9 + 2.0 * GIB as f64 / 20e9;
        assert!((tokens_per_second * seconds - 1.0).abs() < 1e-9, "{tokens_per_second}");
        let shared = device("gpu0", "integrated", 16 * GIB, Some(100e9));
        assert_eq!(speed(1e9, &[cpu(Some(40e9)), shared]), (Some(100.0), true));
        assert_eq!(speed(1e12, &[cpu(Some(40e9))]).0, None);
        assert_eq!(speed(0.0, &[cpu(None)]).0, None);
        assert!(speed(1e9, &[cpu(Some(f64::NAN))]).0 == Some(20.0));
    }

    #[test]
    fn a_measurement_beside_other_programs_is_marked() {
        let was_busy = |load, gpu_gib: u64| {
            let mut cpu = device("cpu", "cpu", 16 * GIB, Some(40e9));
            cpu.backends[0].check.as_mut().expect("a check").load = load;
            estimate(GIB, &[cpu, device("gpu0", "discrete", gpu_gib * GIB, None)]).was_busy
        };
        assert_eq!(
            [None, Some(0.1), Some(0.9)].map(|load| was_busy(load, 0)),
            [false, false, true]
        );
        assert!(!was_busy(Some(0.9), 2), "the CPU decodes nothing");
    }

    /// The overheads make a small model slower than in proportion to its size.
    #[test]
    fn a_step_and_each_layer_have_an_overhead() {
        let mut gpu = device("gpu0", "discrete", 80 * GIB, Some(500e9));
        let check = gpu.backends[0].check.as_mut().expect("a check");
        (check.step_seconds, check.layer_seconds) = (0.6e-3, 0.1e-3);
        let devices = [device("cpu", "cpu", 16 * GIB, None), gpu];
        let speed = |size: f64| estimate(size as u64, &devices).tokens_per_second.expect("it fits");
        assert!((speed(0.1e9) * (0.6e-3 + 3.2e-3 + 0.2e-3) - 1.0).abs() < 1e-9);
        assert!((speed(5e9) * (0.6e-3 + 3.2e-3 + 10e-3) - 1.0).abs() < 1e-9);
    }
}
