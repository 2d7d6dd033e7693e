//! Estimated fit and speed of a model on a machine, from the size of its file alone: for models
//! that are not there yet. A plan, which reads the header, is more exact.

use crate::{AutoSelection, DeviceCheck, DeviceInfo, LoadRequest, Verdict};

/// KV cache of the default context, as a fraction of the weights: models with grouped-query
/// attention in 4 bits take from an eighth (Llama 3 8B) to a third (below a billion weights).
const CACHE: f64 = 0.33;
/// Minimum useful context.
const SHORTEST: u32 = 512;
/// Other memory of a load.
const BESIDE: u64 = 300 << 20;
/// Bytes of weights on the CPU above which decode is slower than reading speed.
const SLOW: u64 = 6 << 30;
/// Layers of a model with some billion weights.
const LAYERS: f64 = 32.0;
/// The estimated fit and speed of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Whether it fits in the memory that is free now.
    pub verdict: Verdict,
    /// That memory in bytes. `None` means unknown.
    pub room: Option<u64>,
    /// Expected decode speed in tokens per second: every token reads all weights once. `None`
    /// means that it does not fit.
    pub tokens_per_second: Option<f64>,
    /// Whether the speeds of the devices were measured.
    pub is_measured: bool,
}

/// Estimates a model whose files have this many bytes, on these devices; the CPU is the first.
pub fn estimate(size: u64, devices: &[DeviceInfo]) -> Estimate {
    let free = |device: &DeviceInfo| device.memory_free.or(device.memory_total);
    let gpus: Vec<&DeviceInfo> = devices
        .iter()
        .skip(1)
        .filter(|gpu| gpu.selection == Some(AutoSelection::Selected))
        .collect();
    let own_memory = |gpu: &&&DeviceInfo| gpu.kind == "discrete";
    let gpu_room: u64 = gpus.iter().filter(own_memory).filter_map(|gpu| free(gpu)).sum();
    let room = devices
        .first()
        .and_then(free)
        .map(|main| (main.saturating_add(gpu_room)).saturating_sub(BESIDE));
    let shares_memory = gpus.iter().any(|gpu| gpu.kind != "discrete");
    let on_gpus = if shares_memory { size } else { size.min(gpu_room) };
    let verdict = room.map_or(Verdict::Fits, |room| verdict(size, on_gpus, room));
    let gpu = gpus.first().copied();
    let (gpu_check, gpu_measured) = speed(gpu, DeviceCheck::ASSUMED_GPU);
    let (cpu_check, cpu_measured) = speed(devices.first(), DeviceCheck::ASSUMED_CPU);
    let step = |check: &DeviceCheck, bytes: u64| match bytes {
        0 => 0.0,
        _ => {
            let layers = LAYERS * bytes as f64 / size as f64;
            check.step_seconds + check.decode_seconds(bytes as f64, layers)
        }
    };
    let seconds = step(&gpu_check, on_gpus) + step(&cpu_check, size - on_gpus);
    Estimate {
        verdict,
        room,
        tokens_per_second: (verdict != Verdict::WontFit && seconds > 0.0).then(|| 1.0 / seconds),
        is_measured: (on_gpus == 0 || gpu_measured) && (on_gpus == size || cpu_measured),
    }
}

fn verdict(size: u64, on_gpus: u64, room: u64) -> Verdict {
    let cache = size as f64 * CACHE;
    let left = room.saturating_sub(size) as f64;
    let context = (left / cache.max(1.0) * f64::from(LoadRequest::DEFAULT_CONTEXT)) as u32;
    if context < SHORTEST {
        Verdict::WontFit
    } else if context < LoadRequest::DEFAULT_CONTEXT {
        Verdict::FitsWithLessContext {
            context: context / 256 * 256,
        }
    } else if size - on_gpus > SLOW {
        Verdict::Slow
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
        let judged = |size: u64, main, gpu| estimate(size * GIB, &machine(main, gpu)).verdict;
        assert_eq!(judged(4, 16, 0), Verdict::Fits);
        assert_eq!(judged(9, 16, 0), Verdict::Slow);
        assert_eq!(judged(9, 16, 12), Verdict::Fits, "fast on the GPU");
        assert!(
            matches!(judged(14, 16, 0), Verdict::FitsWithLessContext { context } if (512..8192).contains(&context))
        );
        assert_eq!(judged(16, 16, 0), Verdict::WontFit);
        assert_eq!(judged(u64::MAX >> 30, 16, 0), Verdict::WontFit);
        assert_eq!(estimate(GIB, &[]).verdict, Verdict::Fits, "unknown memory");
    }

    #[test]
    fn speed_follows_from_the_bandwidth_of_each_device() {
        let check = |size: f64, devices: &[DeviceInfo]| {
            let estimate = estimate(size as u64, devices);
            (estimate.tokens_per_second, estimate.is_measured)
        };
        let cpu = |speed| device("cpu", "cpu", 16 * GIB, speed);
        assert_eq!(check(1e9, &[cpu(Some(40e9))]), (Some(40.0), true));
        assert_eq!(check(1e9, &[cpu(None)]), (Some(20.0), false));
        let gpu = device("gpu0", "discrete", 2 * GIB, Some(400e9));
        assert_eq!(check(1e9, &[cpu(None), gpu.clone()]), (Some(400.0), true));
        let half = estimate(4 * GIB, &[cpu(Some(20e9)), gpu])
            .tokens_per_second
            .expect("it fits");
        let seconds = 2.0 * GIB as f64 / 400e9 + 2.0 * GIB as f64 / 20e9;
        assert!((half * seconds - 1.0).abs() < 1e-9, "{half}");
        let shared = device("gpu0", "integrated", 16 * GIB, Some(100e9));
        assert_eq!(check(1e9, &[cpu(Some(40e9)), shared]), (Some(100.0), true));
        assert_eq!(check(1e12, &[cpu(Some(40e9))]).0, None);
        assert_eq!(check(0.0, &[cpu(None)]).0, None);
        assert!(check(1e9, &[cpu(Some(f64::NAN))]).0 == Some(20.0));
    }

    /// A smaller model is not faster in proportion to its size.
    #[test]
    fn a_step_and_its_layers_have_a_time_of_their_own() {
        let mut gpu = device("gpu0", "discrete", 80 * GIB, Some(500e9));
        let check = gpu.backends[0].check.as_mut().expect("a check");
        (check.step_seconds, check.layer_seconds) = (0.6e-3, 0.1e-3);
        let devices = [device("cpu", "cpu", 16 * GIB, None), gpu];
        let speed = |size: f64| estimate(size as u64, &devices).tokens_per_second.expect("it fits");
        assert!((speed(0.1e9) * (0.6e-3 + 3.2e-3 + 0.2e-3) - 1.0).abs() < 1e-9);
        assert!((speed(5e9) * (0.6e-3 + 3.2e-3 + 10e-3) - 1.0).abs() < 1e-9);
    }
}
