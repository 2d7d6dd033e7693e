//! Estimate whether a model fits before it is downloaded, from the size of its file alone.

use super::SLOW;
use crate::hardware::{self, is_auto_selected};
use hearth_formats::byte_size;
use hearth_protocol::{DeviceInfo, LoadRequest, Verdict};

/// KV cache of the default context, as a fraction of the weights: models with grouped-query
/// attention in 4 bits take from an eighth (Llama 3 8B) to a third (below a billion weights).
const CACHE: f64 = 0.33;
/// Minimum useful context.
const SHORTEST: u32 = 512;
/// Other memory of a load.
const BESIDE: u64 = 300 << 20;

/// Estimate whether a model file of this many bytes fits in the memory that is free now, with the
/// reason in one sentence.
pub fn estimate_fit(size: u64) -> (Verdict, String) {
    of(size, &hardware::devices_for(None))
}

fn of(size: u64, devices: &[DeviceInfo]) -> (Verdict, String) {
    let free = |device: &DeviceInfo| device.memory_free.or(device.memory_total);
    let Some(main) = devices.first().and_then(free) else {
        return (Verdict::Fits, "The free memory is unknown.".to_owned());
    };
    let usable_gpu =
        |device: &&DeviceInfo| device.kind == "discrete" && device.usable && is_auto_selected(device, &devices[0]);
    let gpus: u64 = devices[1..].iter().filter(usable_gpu).filter_map(free).sum();
    let room = (main + gpus).saturating_sub(BESIDE);
    let cache = size as f64 * CACHE;
    let left = room.saturating_sub(size) as f64;
    let context = (left / cache.max(1.0) * f64::from(LoadRequest::DEFAULT_CONTEXT)) as u32;
    if context < SHORTEST {
        let why = format!(
            "It probably needs more than the {} of memory that are free now.",
            byte_size(room)
        );
        (Verdict::WontFit, why)
    } else if context < LoadRequest::DEFAULT_CONTEXT {
        let context = context / 256 * 256;
        let why = format!("It probably fits with a context of about {context} tokens.");
        (Verdict::FitsWithLessContext { context }, why)
    } else if size.saturating_sub(gpus) > SLOW {
        let why =
            "It probably fits, but the CPU has to read several gigabytes for every token, so answers will be slow.";
        (Verdict::Slow, why.to_owned())
    } else {
        (
            Verdict::Fits,
            "It probably fits in the memory that is free now.".to_owned(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::device;
    use super::*;

    #[test]
    fn an_estimate_depends_on_free_memory() {
        const GIB: u64 = 1 << 30;
        let machine = |main: u64, gpu: u64| [device("cpu", "cpu", main * GIB), device("gpu0", "discrete", gpu * GIB)];
        let judged = |size: u64, main, gpu| of(size * GIB, &machine(main, gpu)).0;
        assert_eq!(judged(4, 16, 0), Verdict::Fits);
        assert_eq!(judged(9, 16, 0), Verdict::Slow);
        assert_eq!(judged(9, 16, 12), Verdict::Fits, "fast on the GPU");
        assert!(
            matches!(judged(14, 16, 0), Verdict::FitsWithLessContext { context } if (512..8192).contains(&context))
        );
        assert_eq!(judged(16, 16, 0), Verdict::WontFit);
        assert_eq!(judged(u64::MAX >> 30, 16, 0), Verdict::WontFit);
    }
}
