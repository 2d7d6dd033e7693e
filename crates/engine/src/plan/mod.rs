//! The memory plan: the layers on each device, and whether they fit.
//!
//! A load shows the plan to the user, loads the layers by it, and reports it afterwards.

mod bytes;
mod choice;
mod decode_speed;
mod draft;
mod estimate;
mod fallback;
mod fit;
mod free;
mod main_memory;

use crate::hardware;
use crate::numbers::saturating_u32;
pub(crate) use bytes::MAX_RUNNING;
pub use bytes::ModelBytes;
pub use choice::plan;
pub(crate) use draft::target_bytes;
pub use estimate::estimate_fit;
pub(crate) use fallback::load_with_fallback;
pub(crate) use fit::draft_place;
use fit::{Budgets, Load};
use hearth_kernels::attention::KvFormat;
use hearth_llm::{Config, Place, Placement};
use hearth_protocol::{
    DeviceCheck, DeviceInfo, GpuLayers, KvType, LargeBuffer, LoadReason, LoadRequest, Notice, Plan, PlannedDevice,
    Problem, ProblemCode, READING_SPEED, Verdict,
};

/// Minimum tokens of an automatic context when it is shortened to fit more layers on GPUs.
const MIN_AUTO_CONTEXT: u32 = 2048;

/// The settings of a load that a plan depends on.
#[derive(Debug, Clone, Default)]
pub struct PlanOptions {
    /// Context in tokens. `None` means automatic: the model's trained context, but at most
    /// [`LoadRequest::DEFAULT_CONTEXT`] and the longest context whose KV cache fits the GPUs'
    /// buffer bindings.
    pub context: Option<u32>,
    /// Ids or identities of devices, separated by commas.
    pub device: Option<String>,
    /// Layers on GPUs.
    pub gpu_layers: GpuLayers,
    /// Element type of the KV cache.
    pub kv: KvType,
    /// Memory of fine-tuning, instead of a KV cache.
    pub training: Option<Training>,
    /// The draft model to load beside the model.
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

/// The plan of a model with its placement.
#[derive(Debug, Clone)]
pub struct ModelPlan {
    /// The plan.
    pub plan: Plan,
    /// The placement for the loader.
    pub placement: Placement,
    /// Memory of fine-tuning, if any.
    pub training: Option<Training>,
    /// A buffer above a GPU's limit. Such a plan must not be used.
    pub too_large: Option<LargeBuffer>,
    /// Notices on changes of the plan due to a GPU's buffer limit. Also part of the plan's notices.
    pub limits: Vec<Notice>,
    /// The main memory that the CPU uses, together with the GPUs that share it.
    pub main_memory: PlannedDevice,
}

impl ModelPlan {
    /// Returns an error if the plan must not be used.
    ///
    /// # Errors
    /// A buffer is above a GPU's limit.
    pub fn check(&self) -> Result<(), Problem> {
        let Some(too_large) = &self.too_large else {
            return Ok(());
        };
        let notice = Box::new(Notice::BufferTooLarge(too_large.clone()));
        let reason = match (self.training, self.plan.context_fits) {
            (Some(_), _) => LoadReason::BatchTooLargeForGpu { notice },
            (None, 0) => LoadReason::TooManyGpuLayers { notice },
            (None, context) => LoadReason::ContextTooLargeForGpu { notice, context },
        };
        Err(Problem::new(ProblemCode::OutOfMemory, reason))
    }
}

/// Notices that explain why not all layers are on GPUs: with all of them, a buffer would be too
/// large.
fn layers_on_cpu(budgets: &Budgets, load: &Load, placement: &Placement, max_context: u32) -> Vec<Notice> {
    let (on_gpus, total) = (placement.gpu_layers(), placement.layers());
    let all = budgets.place(total, total);
    let Some(too_large) = budgets.too_large(load, &all).filter(|_| on_gpus < total) else {
        return Vec::new();
    };
    let advice = match load.training {
        Some(training) => Some(Notice::BatchAvoids {
            tokens: training.max_batch_tokens(too_large.limit_bytes),
        }),
        None => match budgets.longest_addressable(load, &all, max_context) {
            0 => None,
            context => Some(Notice::ContextAvoids { context }),
        },
    };
    let layers = Notice::LayersOnCpu {
        on_gpus: saturating_u32(on_gpus),
        total: saturating_u32(total),
    };
    let notices = [Notice::BufferTooLarge(too_large), layers];
    notices.into_iter().chain(advice).collect()
}

/// Shortens an automatic context to the longest one whose buffers are within the GPUs' limits, so
/// that the load is not refused. Returns notices if the context was shortened.
///
/// If the number of layers is also automatic, the context is only shortened if more layers fit on
/// the GPUs then, and not below [`MIN_AUTO_CONTEXT`]. Otherwise layers stay on the CPU.
fn shorten_context(load: &mut Load, budgets: &Budgets, layers: GpuLayers, total: usize) -> Option<[Notice; 2]> {
    let gpu_layers = match layers {
        GpuLayers::Auto | GpuLayers::All => total,
        GpuLayers::Count(layers) => layers as usize,
    };
    let placement = budgets.place(total, gpu_layers);
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
    Some([
        Notice::BufferTooLarge(too_large),
        Notice::ContextShortened { context, usual },
    ])
}

impl Training {
    /// Maximum tokens of a batch whose largest activation has at most `max_bytes`.
    pub fn max_batch_tokens(&self, max_bytes: u64) -> u64 {
        max_bytes / (self.largest_activation / self.tokens.max(1)).max(1)
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
) -> Result<ModelPlan, Problem> {
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
        None => shorten_context(&mut load, &budgets, options.gpu_layers, total),
        Some(_) => None,
    };
    let context = load.context;
    let layers_fit = budgets.max_layers(&load);
    let gpu_layers = match options.gpu_layers {
        GpuLayers::Auto => layers_fit,
        GpuLayers::All => total,
        GpuLayers::Count(layers) => layers as usize,
    };
    let placement = budgets.place(total, gpu_layers);
    let planned_devices = budgets.fill(&load, &placement);
    let fits = planned_devices.iter().all(|device| device.fits);
    let context_fits = budgets.longest_context(&load, &placement, trained.max(context));
    // With all layers on GPUs, the CPU only looks up rows of the embedding.
    let cpu = planned_devices.first().filter(|_| placement.gpu_layers() < total);
    let cpu_bytes = cpu.map_or(0, |cpu| cpu.weights);
    let too_large = budgets.too_large(&load, &placement);
    let main_memory = budgets.main_memory(&planned_devices);
    let limits = match (shortened, options.gpu_layers) {
        (Some(shortened), _) => shortened.into(),
        (None, GpuLayers::Auto) => layers_on_cpu(&budgets, &load, &placement, trained.max(context)),
        (None, GpuLayers::All | GpuLayers::Count(_)) => Vec::new(),
    };
    let (verdict, mut notices) = if fits {
        fitting(cpu_bytes)
    } else {
        not_fitting(&planned_devices, context, context_fits, too_large.as_ref())
    };
    notices.extend(limits.iter().cloned());
    let plan = Plan {
        fits,
        verdict,
        notices,
        context,
        context_fits,
        gpu_layers: saturating_u32(placement.gpu_layers()),
        layers_total: saturating_u32(total),
        layers_fit: saturating_u32(layers_fit),
        kv: options.kv,
        device: device_option(&planned_devices),
        devices: planned_devices,
        build: hardware::own_build().to_owned(),
        program: None,
        turn_seconds: None,
        tokens_per_second: None,
    };
    Ok(ModelPlan {
        plan,
        placement,
        training: options.training,
        too_large,
        limits,
        main_memory,
    })
}

/// The verdict and its reason for a plan that fits, on a machine that was not measured: decode
/// reads this many bytes of weights on the CPU per token, with the assumed bandwidth. The estimate
/// of a model that is not downloaded assumes the same.
fn fitting(bytes: u64) -> (Verdict, Vec<Notice>) {
    let seconds = DeviceCheck::ASSUMED_CPU.decode_seconds(bytes as f64, 0.0);
    if 1.0 / seconds < READING_SPEED {
        (Verdict::Slow, vec![Notice::SlowOnCpu { bytes }])
    } else {
        (Verdict::Fits, vec![Notice::Fits])
    }
}

/// Sets the verdict of a plan that fits, and its reason, by a predicted decode speed.
fn judge_speed(plan: &mut Plan, tokens_per_second: f64) {
    let (Verdict::Fits | Verdict::Slow, Some(reason)) = (plan.verdict, plan.notices.first_mut()) else {
        return;
    };
    if tokens_per_second >= READING_SPEED {
        (plan.verdict, *reason) = (Verdict::Fits, Notice::Fits);
        return;
    }
    plan.verdict = Verdict::Slow;
    *reason = match plan.devices.first() {
        Some(cpu) if plan.gpu_layers < plan.layers_total => Notice::SlowOnCpu { bytes: cpu.weights },
        _ => Notice::SlowDecode,
    };
}

/// The verdict and its reasons for a plan that does not fit with this context. It fits with
/// `context_fits`, unless that is 0.
fn not_fitting(
    devices: &[PlannedDevice],
    context: u32,
    context_fits: u32,
    too_large: Option<&LargeBuffer>,
) -> (Verdict, Vec<Notice>) {
    let too_large = too_large.cloned().map(Notice::BufferTooLarge);
    if context_fits == 0 {
        let reason = too_large.or_else(|| shortfall(devices));
        return (Verdict::WontFit, reason.into_iter().collect());
    }
    let fits = context_fits;
    let notices = match too_large {
        Some(too_large) => vec![too_large, Notice::ContextFits { context: fits }],
        None => vec![Notice::ContextTooLong { context, fits }],
    };
    (Verdict::FitsWithLessContext { context: fits }, notices)
}

/// Computes a plan for training. The activations of as many layers are saved at the same time as
/// fit, without a change of the placement. They may fill a GPU's free memory, but only half of the
/// free main memory, which other programs use, too.
///
/// # Errors
/// See [`compute_plan`].
pub fn plan_training(
    bytes: &ModelBytes,
    config: &Config,
    options: &PlanOptions,
    devices: &[DeviceInfo],
) -> Result<ModelPlan, Problem> {
    /// The fraction of free main memory that saved activations may fill.
    const MAX_FRACTION: f64 = 0.5;
    let minimal = compute_plan(bytes, config, options, devices)?;
    let Some(training) = options.training else {
        return Ok(minimal);
    };
    let budgets = budgets(options, devices)?;
    let cpu_layers = (0..config.n_layers()).filter(|layer| minimal.placement.place(*layer) == Place::Cpu);
    let cpu_layers = cpu_layers.count();
    let cpu_free = minimal.plan.devices.first().and_then(|cpu| cpu.free);
    let max_saved = cpu_free.map_or(u64::MAX, |free| (free as f64 * MAX_FRACTION) as u64);
    let with_layers = |layers_at_once: usize| Training {
        layers_at_once,
        ..training
    };
    let fits = |layers: &usize| {
        let load = Load {
            bytes,
            context: minimal.plan.context,
            format: format(options.kv),
            training: Some(with_layers(*layers)),
            draft: None,
        };
        let fits = budgets.fits(&load, &minimal.placement);
        let saved = cpu_layers.min(*layers) as u64 * training.saved_per_layer_cpu;
        // Devices on which not even one layer fits do not count here: the plan reports them.
        // Without GPUs, only the fraction limits main memory.
        let first = usize::from(minimal.placement.gpu_layers() == 0);
        let mut devices = fits.iter().zip(&minimal.plan.devices).skip(first);
        saved <= max_saved && devices.all(|(fits, minimal)| *fits || !minimal.fits)
    };
    let layers = (1..=config.n_layers()).rev().find(fits).unwrap_or(1);
    let options = PlanOptions {
        training: Some(with_layers(layers)),
        gpu_layers: GpuLayers::Count(saturating_u32(minimal.placement.gpu_layers())),
        ..options.clone()
    };
    Ok(ModelPlan {
        limits: minimal.limits,
        ..compute_plan(bytes, config, &options, devices)?
    })
}

/// The GPUs of a plan as a value for `--device`, or `cpu`.
fn device_option(devices: &[PlannedDevice]) -> String {
    let gpus: Vec<&str> = devices.iter().skip(1).map(|device| device.id.as_str()).collect();
    if gpus.is_empty() {
        hardware::CPU.to_owned()
    } else {
        gpus.join(",")
    }
}

/// The kernels' format for a KV cache type.
pub(crate) fn format(kv: KvType) -> KvFormat {
    match kv {
        KvType::F16 => KvFormat::F16,
        KvType::Q8_0 => KvFormat::Q8_0,
    }
}

/// The notice on the first device whose memory is too small.
fn shortfall(devices: &[PlannedDevice]) -> Option<Notice> {
    let full = devices.iter().find(|device| !device.fits)?;
    Some(Notice::DeviceFull {
        device: full.name.clone(),
        needed_bytes: full.needed(),
        free_bytes: full.free.unwrap_or(0),
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
