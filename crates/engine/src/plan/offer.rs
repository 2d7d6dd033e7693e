//! Whether a model would fit that is not here yet: all that is known of it is the size of its file.

use super::{SLOW, gib};
use crate::hardware::{self, chosen_by_itself};
use hearth_protocol::{DeviceInfo, LoadRequest, Verdict};

/// What a cache of the usual context takes, as a share of the weights: models with grouped heads in 4 bits a weight take from an eighth
/// (Llama 3 8B) to a third (those below a billion weights).
const CACHE: f64 = 0.33;
/// The shortest context that is worth a download.
const SHORTEST: u32 = 512;
/// What a load takes beside both.
const BESIDE: u64 = 300 << 20;

/// Whether a file of so many bytes would fit into what is free on this machine now, and why (not) in one sentence. An estimate: its plan is
/// made when the file is here.
pub fn offer(size: u64) -> (Verdict, String) {
    of(size, &hardware::devices_for(None))
}

fn of(size: u64, devices: &[DeviceInfo]) -> (Verdict, String) {
    let free = |device: &DeviceInfo| device.memory_free.or(device.memory_total);
    let Some(main) = devices.first().and_then(free) else {
        return (Verdict::Fits, "How much memory is free cannot be told.".to_owned());
    };
    let on_gpus =
        |device: &&DeviceInfo| device.kind == "discrete" && device.usable && chosen_by_itself(device, &devices[0]);
    let gpus: u64 = devices[1..].iter().filter(on_gpus).filter_map(free).sum();
    let room = (main + gpus).saturating_sub(BESIDE);
    let cache = size as f64 * CACHE;
    let left = room.saturating_sub(size) as f64;
    let context = (left / cache.max(1.0) * f64::from(LoadRequest::DEFAULT_CONTEXT)) as u32;
    if context < SHORTEST {
        let why = format!("It would take more than the {} of memory that are free now.", gib(room));
        (Verdict::WontFit, why)
    } else if context < LoadRequest::DEFAULT_CONTEXT {
        let context = context / 256 * 256;
        let why = format!("It would fit with a context of about {context} tokens.");
        (Verdict::FitsWithLessContext { context }, why)
    } else if size.saturating_sub(gpus) > SLOW {
        let why = "It would fit, but the processor would have to read much of it for every token, so answers would come slowly.";
        (Verdict::Slow, why.to_owned())
    } else {
        (
            Verdict::Fits,
            "It would fit into the memory that is free now.".to_owned(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::device;
    use super::*;

    #[test]
    fn an_offer_is_judged_by_what_is_free() {
        const GIB: u64 = 1 << 30;
        let machine = |main: u64, gpu: u64| [device("cpu", "cpu", main * GIB), device("gpu0", "discrete", gpu * GIB)];
        let judged = |size: u64, main, gpu| of(size * GIB, &machine(main, gpu)).0;
        assert_eq!(judged(4, 16, 0), Verdict::Fits);
        assert_eq!(judged(9, 16, 0), Verdict::Slow);
        assert_eq!(judged(9, 16, 12), Verdict::Fits, "on the GPU it is quick");
        assert!(
            matches!(judged(14, 16, 0), Verdict::FitsWithLessContext { context } if (512..8192).contains(&context))
        );
        assert_eq!(judged(16, 16, 0), Verdict::WontFit);
        assert_eq!(judged(u64::MAX >> 30, 16, 0), Verdict::WontFit);
    }
}
