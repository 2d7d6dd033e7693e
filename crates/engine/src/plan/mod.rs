//! The memory plan: the layers on each device, and whether they fit.
//!
//! The same value is shown before a load, used by it, and reported after it.

mod bytes;
mod choice;
mod decode_speed;
mod estimate;
mod fallback;
mod fit;
mod free;
mod main_memory;

use crate::hardware;
use crate::numbers::saturating_u32;
use crate::problem::problem;
pub use bytes::ModelBytes;
pub use choice::plan;
pub use estimate::estimate_fit;
pub(crate) use fallback::load_with_fallback;
pub(crate) use fit::draft_place;
use fit::{Budgets, Load, TooLarge};
use hearth_formats::byte_size;
use hearth_kernels::attention::KvFormat;
use hearth_llm::{Config, Place, Placement};
use hearth_protocol::{DeviceInfo, GpuLayers, KvType, LoadRequest, Plan, PlannedDevice, Problem, ProblemCode, Verdict};

/// Bytes of weights on the CPU above which decode is slower than reading speed: about five tokens
/// per second at 30 GB/s of memory bandwidth.
const SLOW: u64 = 6 << 30;
/// Minimum tokens of an automatic context when it is shortened to fit more layers on GPUs.
const MIN_AUTO_CONTEXT: u32 = 2048;

/// The settings of a load that a plan depends on.
#[derive(Debug, Clone, Default)]
pub struct PlanOptions {
    /// Context in tokens. `None` means automatic: the model's own, at most
    /// [`LoadRequest::DEFAULT_CONTEXT`] and the longest whose KV cache fits the GPUs' buffer
    /// bindings.
    pub context: Option<u32>,
    /// Id or identity of a device, or several separated by commas.
    pub device: Option<String>,
    /// Layers on GPUs.
    pub gpu_layers: GpuLayers,
    /// Element type of the KV cache.
    pub kv: KvType,
    /// Memory of fine-tuning, instead of a KV cache.
    pub training: Option<Training>,
    /// A draft model beside it.
    pub draft: Option<ModelBytes>,
}

/// Memory of fine-tuning beside the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Training {
    /// Tokens of the longest batch.
    pub tokens: u64,
    /// Bytes of saved activations of a layer's operations.
    pub operations: u64,
    /// Layers whose operations' activations are saved at the same time.
    pub layers_at_once: usize,
    /// Bytes that every layer takes: its input, its adapters, their gradients and the optimizer's
    /// moments.
    pub fixed_per_layer: u64,
    /// Bytes of saved activations of a layer's operations on the CPU, which may save them in bf16.
    pub saved_per_layer_cpu: u64,
    /// Bytes of the largest activation of a layer on a GPU.
    pub largest_activation: u64,
    /// Bytes of the logits in memory at the same time, and of their gradient.
    pub output: u64,
}

impl From<&LoadRequest> for PlanOptions {
    fn from(request: &LoadRequest) -> Self {
        Self {
            context: request.context,
            device: request.device.clone(),
            gpu_layers: request.gpu_layers,
            kv: request.kv,
            training: None,
            draft: None,
        }
    }
}

/// A plan with its placement.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// The placement for the loader.
    pub placement: Placement,
    /// Memory of fine-tuning, if any.
    pub training: Option<Training>,
    /// A buffer above a GPU's limit; such a plan must not be used.
    pub too_large: Option<TooLarge>,
    /// Why layers that fit in memory are not on GPUs, in one sentence.
    pub notice: Option<String>,
    /// The main memory used by the CPU and the GPUs that share it.
    pub main_memory: PlannedDevice,
}

impl Planned {
    /// Refuses a plan with a buffer that is too large.
    ///
    /// # Errors
    /// A buffer is above a GPU's limit.
    pub fn check(&self) -> Result<(), Problem> {
        let Some(too_large) = &self.too_large else {
            return Ok(());
        };
        let advice = match (self.training, self.plan.context_fits) {
            (Some(_), _) => "Choose a smaller batch, shorter examples, or fewer layers on GPUs.".to_owned(),
            (None, 0) => "Choose fewer layers on GPUs.".to_owned(),
            (None, fits) => format!("Choose a context of at most {fits} tokens, or fewer layers on GPUs."),
        };
        Err(problem(ProblemCode::OutOfMemory, format!("{too_large}. {advice}")))
    }
}

/// Why not all layers are on GPUs although they may fit in memory: a buffer would be too large.
fn left_out(budgets: &Budgets, load: &Load, placement: &Placement, most: u32) -> Option<String> {
    let (there, total) = (placement.gpu_layers(), placement.layers());
    let all = budgets.place(total, total);
    let too_large = budgets.too_large(load, &all).filter(|_| there < total)?;
    let instead = match load.training {
        Some(training) => {
            let tokens = training.max_batch_tokens(too_large.limit);
            format!("Batches of at most {tokens} tokens can be trained there.")
        }
        None => match budgets.longest_addressable(load, &all, most) {
            0 => String::new(),
            context => format!("A context of at most {context} tokens avoids this."),
        },
    };
    let what = if load.training.is_some() { "trained" } else { "run" };
    let sentence = format!("{too_large}, so {there} of {total} layers are {what} on GPUs. {instead}");
    Some(sentence.trim_end().to_owned())
}

/// Shortens an automatic context to the longest whose buffers are within the GPUs' limits, instead
/// of refusing the load. Returns a notice.
///
/// If the number of layers is also automatic, the context is not shortened below
/// [`MIN_AUTO_CONTEXT`], nor if that fits no more layers: layers stay on the CPU instead.
fn shorten(load: &mut Load, budgets: &Budgets, layers: GpuLayers, total: usize) -> Option<String> {
    let wanted = match layers {
        GpuLayers::Auto | GpuLayers::All => total,
        GpuLayers::Count(layers) => layers as usize,
    };
    let placement = budgets.place(total, wanted);
    let too_large = budgets.too_large(load, &placement)?;
    let usual = load.context;
    let shorter = Load {
        context: budgets.longest_addressable(load, &placement, usual),
        ..*load
    };
    let gains_layers = match layers {
        GpuLayers::Auto => {
            shorter.context >= MIN_AUTO_CONTEXT.min(usual) && budgets.max_layers(&shorter) > budgets.max_layers(load)
        }
        GpuLayers::All | GpuLayers::Count(_) => shorter.context > 0,
    };
    if !gains_layers {
        return None;
    }
    *load = shorter;
    let context = load.context;
    Some(format!(
        "{too_large}, so the context is {context} tokens instead of {usual}. For a longer context, set it and choose \
         fewer layers on GPUs."
    ))
}

impl Training {
    /// Maximum tokens of a batch whose activations have at most this many bytes.
    pub fn max_batch_tokens(&self, limit: u64) -> u64 {
        limit / (self.largest_activation / self.tokens.max(1)).max(1)
    }
}

/// Computes a plan for these devices.
///
/// # Errors
/// A device does not exist.
pub fn compute_plan(
    bytes: &ModelBytes,
    config: &Config,
    options: &PlanOptions,
    devices: &[DeviceInfo],
) -> Result<Planned, Problem> {
    let budgets = budgets(options, devices)?;
    let trained = saturating_u32(config.context_trained);
    let total = config.layers();
    let mut load = Load {
        bytes,
        context: options
            .context
            .unwrap_or_else(|| trained.min(LoadRequest::DEFAULT_CONTEXT)),
        format: format(options.kv),
        training: options.training,
        draft: options.draft.as_ref(),
    };
    let shortened = match options.context {
        None => shorten(&mut load, &budgets, options.gpu_layers, total),
        Some(_) => None,
    };
    let context = load.context;
    let layers_fit = budgets.max_layers(&load);
    let wanted = match options.gpu_layers {
        GpuLayers::Auto => layers_fit,
        GpuLayers::All => total,
        GpuLayers::Count(layers) => layers as usize,
    };
    let placement = budgets.place(total, wanted);
    let placed = budgets.fill(&load, &placement);
    let fits = placed.iter().all(|device| device.fits);
    let context_fits = budgets.longest_context(&load, &placement, trained.max(context));
    let left: u64 = placed.first().map_or(0, |cpu| cpu.weights);
    let too_large = budgets.too_large(&load, &placement);
    let main_memory = budgets.main_memory(&placed);
    let left_out = match options.gpu_layers {
        GpuLayers::Auto => left_out(&budgets, &load, &placement, trained.max(context)),
        GpuLayers::All | GpuLayers::Count(_) => None,
    };
    let notice = shortened.or(left_out);
    let (verdict, mut why) = if fits {
        fitting(left)
    } else {
        too_much(&placed, context, context_fits, too_large.as_ref())
    };
    if let Some(notice) = &notice {
        why = format!("{why} {notice}");
    }
    let plan = Plan {
        fits,
        verdict,
        why,
        context,
        context_fits,
        gpu_layers: saturating_u32(placement.gpu_layers()),
        layers_total: saturating_u32(total),
        layers_fit: saturating_u32(layers_fit),
        kv: options.kv,
        device: device_option(&placed),
        devices: placed,
        build: hardware::own_build().to_owned(),
        program: None,
        turn_seconds: None,
        tokens_per_second: None,
    };
    Ok(Planned {
        plan,
        placement,
        training: options.training,
        too_large,
        notice,
        main_memory,
    })
}

/// The verdict and its sentence for a plan that fits, with this many bytes of weights on the CPU.
fn fitting(on_cpu: u64) -> (Verdict, String) {
    if on_cpu <= SLOW {
        return (Verdict::Fits, "It fits in the memory that is free now.".to_owned());
    }
    let why = format!(
        "It fits, but the CPU has to read {} for every token, so answers will be slow.",
        byte_size(on_cpu)
    );
    (Verdict::Slow, why)
}

/// The verdict and its sentence for a plan that does not fit with this context, but with
/// `context_fits`, if that is not 0.
fn too_much(
    placed: &[PlannedDevice],
    context: u32,
    context_fits: u32,
    too_large: Option<&TooLarge>,
) -> (Verdict, String) {
    if context_fits == 0 {
        let why = too_large.map_or_else(|| shortfall(placed), |too_large| format!("{too_large}."));
        return (Verdict::WontFit, why);
    }
    let why = match too_large {
        Some(too_large) => format!("{too_large}. A context of {context_fits} tokens fits."),
        None => format!("A context of {context} tokens does not fit; one of {context_fits} does."),
    };
    (Verdict::FitsWithLessContext { context: context_fits }, why)
}

/// [`compute_plan`] for training, with the activations of as many layers saved as fit, for the same
/// placement. They may fill a GPU's free memory, but only half of the free main memory, which other
/// programs use, too.
///
/// # Errors
/// See [`compute_plan`].
pub fn plan_training(
    bytes: &ModelBytes,
    config: &Config,
    options: &PlanOptions,
    devices: &[DeviceInfo],
) -> Result<Planned, Problem> {
    /// The fraction of free main memory for saved activations.
    const SHARE: f64 = 0.5;
    let least = compute_plan(bytes, config, options, devices)?;
    let Some(training) = options.training else {
        return Ok(least);
    };
    let budgets = budgets(options, devices)?;
    let on_cpu = (0..config.n_layers).filter(|layer| least.placement.place(*layer) == Place::Cpu);
    let on_cpu = on_cpu.count();
    let share = least.plan.devices.first().and_then(|cpu| cpu.free);
    let share = share.map_or(u64::MAX, |free| (free as f64 * SHARE) as u64);
    let with = |layers_at_once: usize| Training {
        layers_at_once,
        ..training
    };
    let fits = |layers: &usize| {
        let load = Load {
            bytes,
            context: least.plan.context,
            format: format(options.kv),
            training: Some(with(*layers)),
            draft: None,
        };
        let now = budgets.fits(&load, &least.placement);
        let kept = on_cpu.min(*layers) as u64 * training.saved_per_layer_cpu;
        // Devices that do not fit anyway are reported elsewhere. Without GPUs, only the fraction
        // limits main memory.
        let first = usize::from(least.placement.gpu_layers() == 0);
        let mut devices = now.iter().zip(&least.plan.devices).skip(first);
        kept <= share && devices.all(|(now, then)| *now || !then.fits)
    };
    let layers = (1..=config.n_layers).rev().find(fits).unwrap_or(1);
    let options = PlanOptions {
        training: Some(with(layers)),
        gpu_layers: GpuLayers::Count(saturating_u32(least.placement.gpu_layers())),
        ..options.clone()
    };
    Ok(Planned {
        notice: least.notice,
        ..compute_plan(bytes, config, &options, devices)?
    })
}

/// The GPUs of a plan as a value for `--device`, or `cpu`.
fn device_option(placed: &[PlannedDevice]) -> String {
    let gpus: Vec<&str> = placed.iter().skip(1).map(|device| device.id.as_str()).collect();
    if gpus.is_empty() {
        hardware::CPU.to_owned()
    } else {
        gpus.join(",")
    }
}

/// The kernels' name of a KV cache type.
pub(crate) fn format(kv: KvType) -> KvFormat {
    match kv {
        KvType::F16 => KvFormat::F16,
        KvType::Q8_0 => KvFormat::Q8_0,
    }
}

/// A sentence on the device that does not fit.
fn shortfall(devices: &[PlannedDevice]) -> String {
    let full = devices.iter().find(|device| !device.fits);
    full.map_or_else(String::new, |device| {
        let needed = device.needed();
        format!(
            "{} needs {}, but has {} free.",
            device.name,
            byte_size(needed),
            byte_size(device.free.unwrap_or(0))
        )
    })
}

/// The smallest buffer limit of the requested or automatically selected GPUs, in bytes. `None`
/// without GPUs.
///
/// # Errors
/// A device does not exist.
pub(crate) fn largest_buffer(options: &PlanOptions, devices: &[DeviceInfo]) -> Result<Option<u64>, Problem> {
    budgets(options, devices).map(|budgets| budgets.largest_buffer())
}

/// The memory budgets of the CPU and the requested or automatically selected GPUs.
fn budgets(options: &PlanOptions, devices: &[DeviceInfo]) -> Result<Budgets, Problem> {
    let cpu = devices.first().filter(|cpu| cpu.usable);
    Ok(Budgets::new(cpu, &choice::gpus(options.device.as_deref(), devices)?))
}

#[cfg(test)]
mod tests;
