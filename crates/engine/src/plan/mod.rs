//! Where a model's bytes go: how many layers on which GPU, and whether everything has room.
//!
//! The same value is shown before a load, carried out by it, and told after it.

mod bytes;
mod carry;
mod fit;
mod offer;

use crate::hardware;
use crate::problem::{from_gguf, from_load, problem};
use crate::turns::count;
pub use bytes::Bytes;
pub(crate) use carry::carry_out;
use fit::{Load, Rooms, TooLarge};
use hearth_formats::gguf::Gguf;
use hearth_kernels::attention::KvFormat;
use hearth_llm::{Config, Place, Placement};
use hearth_protocol::{
    DeviceInfo, GpuLayers, KvType, LoadRequest, Plan, PlanRequest, PlannedDevice, Problem, ProblemCode, Verdict,
};
pub use offer::offer;

/// A model that leaves more than this with the processor answers more slowly than a person reads: some five tokens a second where
/// memory gives 30 GB a second.
const SLOW: u64 = 6 << 30;
/// Tokens below which an automatic context is not shortened for the sake of layers on GPUs: a conversation of some length.
const SHORTEST_AUTOMATIC: u32 = 2048;

/// Plans a load of a file without loading it. What is `loaded` now would be let go before, so that its memory is as good as free.
///
/// # Errors
/// The file cannot be read or is of a kind that is not known, or there is no such device.
pub fn plan(request: &PlanRequest, loaded: &[PlannedDevice]) -> Result<Plan, Problem> {
    let gguf = Gguf::open(&request.path).map_err(from_gguf)?;
    let config = Config::from_gguf(&gguf).map_err(from_load)?;
    let mut devices = match request.assume_gpu {
        None => hardware::devices(),
        Some(bytes) => with_assumed_gpu(bytes),
    };
    // Main memory is one, whether the processor uses it or a GPU that has none of its own.
    let own: Vec<String> = devices
        .iter()
        .filter(|device| device.kind == "discrete")
        .map(|device| device.id.clone())
        .collect();
    for device in &mut devices {
        let same = |loaded: &&PlannedDevice| match own.contains(&device.id) {
            true => loaded.id == device.id,
            false => !own.contains(&loaded.id),
        };
        let ours = loaded.iter().filter(same);
        let ours: u64 = ours.map(|loaded| loaded.weights + loaded.kv + loaded.compute).sum();
        let most = device.memory_total.unwrap_or(u64::MAX);
        device.memory_free = device.memory_free.map(|free| free.saturating_add(ours).min(most));
    }
    let asked = Asked {
        context: request.context,
        device: request.device.clone(),
        gpu_layers: request.gpu_layers,
        kv: request.kv,
        training: None,
    };
    Ok(planned(&Bytes::of(&gguf, &config), &config, &asked, &devices)?.plan)
}

/// What a load asks for, as far as a plan depends on it.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Tokens; none: automatic, the model's own, at most [`LoadRequest::DEFAULT_CONTEXT`] and what the GPUs' kernels see of a cache.
    pub context: Option<u32>,
    /// A device's id, or several with commas between.
    pub device: Option<String>,
    /// Layers on GPUs.
    pub gpu_layers: GpuLayers,
    /// How the cache is kept.
    pub kv: KvType,
    /// What is trained, instead of an answer being written.
    pub training: Option<Training>,
}

/// What fine-tuning takes beside the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Training {
    /// Tokens of the longest batch.
    pub tokens: u64,
    /// Bytes that a block's operations keep for their backward.
    pub operations: u64,
    /// Blocks whose operations are kept at once.
    pub blocks_at_once: usize,
    /// Bytes that every block takes: its input, its adapters, their gradients and the optimiser's means.
    pub a_block: u64,
    /// Bytes that those operations keep where the processor runs them, which may round what they keep.
    pub operations_on_cpu: u64,
    /// Bytes of the largest matrix that a block makes on a GPU.
    pub largest_of_a_block: u64,
    /// Bytes of the logits that exist at once, and of their gradient.
    pub output: u64,
}

impl From<&LoadRequest> for Asked {
    fn from(request: &LoadRequest) -> Self {
        Self {
            context: request.context,
            device: request.device.clone(),
            gpu_layers: request.gpu_layers,
            kv: request.kv,
            training: None,
        }
    }
}

/// A plan, and the placement that carries it out.
#[derive(Debug, Clone)]
pub struct Planned {
    /// What is told.
    pub plan: Plan,
    /// What is done.
    pub placement: Placement,
    /// What is trained.
    pub training: Option<Training>,
    /// A buffer that a kernel could not see all of; then it must not be done.
    pub too_large: Option<TooLarge>,
    /// Why layers that would have room were left out, in a sentence.
    pub notice: Option<String>,
}

impl Planned {
    /// Refuses what no kernel could run.
    ///
    /// # Errors
    /// A buffer would be too large for a GPU.
    pub fn check(&self) -> Result<(), Problem> {
        let Some(too_large) = &self.too_large else {
            return Ok(());
        };
        let advice = match (self.training, self.plan.context_fits) {
            (Some(_), _) => "Choose smaller batches, shorter examples, or fewer layers on GPUs.".to_owned(),
            (None, 0) => "Choose fewer layers on GPUs.".to_owned(),
            (None, fits) => format!("Choose a context of at most {fits} tokens, or fewer layers on GPUs."),
        };
        Err(problem(ProblemCode::OutOfMemory, format!("{too_large}. {advice}")))
    }
}

/// Says why not all layers go to GPUs that may have memory for them, where a buffer would be too large.
fn left_out(rooms: &Rooms, load: &Load, placement: &Placement, most: u32) -> Option<String> {
    let (there, total) = (placement.gpu_layers(), placement.layers());
    let all = rooms.place(total, total);
    let too_large = rooms.too_large(load, &all).filter(|_| there < total)?;
    let instead = match load.training {
        Some(training) => {
            let tokens = training.tokens_seen(too_large.limit);
            format!("Batches of at most {tokens} tokens can be trained there.")
        }
        None => match rooms.longest_seen(load, &all, most) {
            0 => String::new(),
            context => format!("With a context of at most {context} tokens it is not in the way."),
        },
    };
    let what = if load.training.is_some() { "trained" } else { "run" };
    let sentence = format!("{too_large}, so {there} of {total} layers are {what} on GPUs. {instead}");
    Some(sentence.trim_end().to_owned())
}

/// Shortens an automatic context to the longest whose buffers the GPUs' kernels see, rather than have the load refused. Returns a sentence
/// that says so.
///
/// With an automatic number of layers as well, it is not shortened below [`SHORTEST_AUTOMATIC`], nor where no more layers would fit with it:
/// then layers stay with the processor.
fn shorten(load: &mut Load, rooms: &Rooms, layers: GpuLayers, total: usize) -> Option<String> {
    let wanted = match layers {
        GpuLayers::Auto | GpuLayers::All => total,
        GpuLayers::Count(layers) => layers as usize,
    };
    let placement = rooms.place(total, wanted);
    let too_large = rooms.too_large(load, &placement)?;
    let usual = load.context;
    let shorter = Load {
        context: rooms.longest_seen(load, &placement, usual),
        ..*load
    };
    let gains_layers = match layers {
        GpuLayers::Auto => {
            shorter.context >= SHORTEST_AUTOMATIC.min(usual) && rooms.most_layers(&shorter) > rooms.most_layers(load)
        }
        GpuLayers::All | GpuLayers::Count(_) => shorter.context > 0,
    };
    if !gains_layers {
        return None;
    }
    *load = shorter;
    let context = load.context;
    Some(format!(
        "{too_large}, so the context is {context} tokens instead of {usual}. For a longer one, choose it and fewer layers on GPUs."
    ))
}

impl Training {
    /// Tokens of the longest batch whose matrices have at most this many bytes.
    pub fn tokens_seen(&self, limit: u64) -> u64 {
        limit / (self.largest_of_a_block / self.tokens.max(1)).max(1)
    }
}

/// Plans for these devices.
///
/// # Errors
/// There is no such device.
pub fn planned(bytes: &Bytes, config: &Config, asked: &Asked, devices: &[DeviceInfo]) -> Result<Planned, Problem> {
    let rooms = rooms(asked, devices)?;
    let trained = count(config.context_trained);
    let total = config.layers();
    let mut load = Load {
        bytes,
        context: asked
            .context
            .unwrap_or_else(|| trained.min(LoadRequest::DEFAULT_CONTEXT)),
        format: format(asked.kv),
        training: asked.training,
    };
    let shortened = match asked.context {
        None => shorten(&mut load, &rooms, asked.gpu_layers, total),
        Some(_) => None,
    };
    let context = load.context;
    let layers_fit = rooms.most_layers(&load);
    let wanted = match asked.gpu_layers {
        GpuLayers::Auto => layers_fit,
        GpuLayers::All => total,
        GpuLayers::Count(layers) => layers as usize,
    };
    let placement = rooms.place(total, wanted);
    let placed = rooms.fill(&load, &placement);
    let fits = placed.iter().all(|device| device.fits);
    let context_fits = rooms.longest_context(&load, &placement, trained.max(context));
    let left: u64 = placed.first().map_or(0, |cpu| cpu.weights);
    let too_large = rooms.too_large(&load, &placement);
    let left_out = match asked.gpu_layers {
        GpuLayers::Auto => left_out(&rooms, &load, &placement, trained.max(context)),
        GpuLayers::All | GpuLayers::Count(_) => None,
    };
    let notice = shortened.or(left_out);
    let (verdict, mut why) = match fits {
        true if left > SLOW => (
            Verdict::Slow,
            format!(
                "It fits, but the processor has to read {} for every token, so answers come slowly.",
                gib(left)
            ),
        ),
        true => (
            Verdict::Fits,
            "Everything fits into the memory that is free now.".to_owned(),
        ),
        false if context_fits > 0 => (
            Verdict::FitsWithLessContext { context: context_fits },
            match &too_large {
                Some(too_large) => format!("{too_large}. A context of {context_fits} tokens fits."),
                None => format!("A context of {context} tokens does not fit; one of {context_fits} does."),
            },
        ),
        false => {
            let why = too_large.as_ref().map(|too_large| format!("{too_large}."));
            (Verdict::WontFit, why.unwrap_or_else(|| lacking(&placed)))
        }
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
        gpu_layers: count(placement.gpu_layers()),
        layers_total: count(total),
        layers_fit: count(layers_fit),
        kv: asked.kv,
        devices: placed,
    };
    Ok(Planned {
        plan,
        placement,
        training: asked.training,
        too_large,
        notice,
    })
}

/// [`planned`] for training, with as many blocks' operations on the tape at once as there is then room for, on the same layers. What a GPU
/// has free they may fill; of what the processor has, half, for it is not alone there.
///
/// # Errors
/// As [`planned`].
pub fn planned_with_tape(
    bytes: &Bytes,
    config: &Config,
    asked: &Asked,
    devices: &[DeviceInfo],
) -> Result<Planned, Problem> {
    /// The share of free memory that operations may take with the processor.
    const SHARE: f64 = 0.5;
    let least = planned(bytes, config, asked, devices)?;
    let Some(training) = asked.training else {
        return Ok(least);
    };
    let rooms = rooms(asked, devices)?;
    let on_cpu = (0..config.n_layers).filter(|block| least.placement.of(*block) == Place::Cpu);
    let on_cpu = on_cpu.count();
    let share = least.plan.devices.first().and_then(|cpu| cpu.free);
    let share = share.map_or(u64::MAX, |free| (free as f64 * SHARE) as u64);
    let with = |blocks_at_once: usize| Training {
        blocks_at_once,
        ..training
    };
    let fits = |blocks: &usize| {
        let load = Load {
            bytes,
            context: least.plan.context,
            format: format(asked.kv),
            training: Some(with(*blocks)),
        };
        let now = rooms.fill(&load, &least.placement);
        let kept = on_cpu.min(*blocks) as u64 * training.operations_on_cpu;
        // What does not fit without a tape has been said. Main memory that no GPU shares has its share.
        let first = usize::from(least.placement.gpu_layers() == 0);
        let mut devices = now.iter().zip(&least.plan.devices).skip(first);
        kept <= share && devices.all(|(now, then)| now.fits || !then.fits)
    };
    let blocks = (1..=config.n_layers).rev().find(fits).unwrap_or(1);
    let asked = Asked {
        training: Some(with(blocks)),
        gpu_layers: GpuLayers::Count(count(least.placement.gpu_layers())),
        ..asked.clone()
    };
    Ok(Planned {
        notice: least.notice,
        ..planned(bytes, config, &asked, devices)?
    })
}

/// How the kernels call a type of cache.
pub(crate) fn format(kv: KvType) -> KvFormat {
    match kv {
        KvType::F16 => KvFormat::F16,
        KvType::Q8_0 => KvFormat::Q8_0,
    }
}

/// The sentence that says where how much is missing.
fn lacking(devices: &[PlannedDevice]) -> String {
    let full = devices.iter().find(|device| !device.fits);
    full.map_or_else(String::new, |device| {
        let needed = device.weights + device.kv + device.compute;
        format!(
            "{} would have to hold {}, and has {} free.",
            device.name,
            gib(needed),
            gib(device.free.unwrap_or(0))
        )
    })
}

/// The same where they may be few.
fn mib(bytes: u64) -> String {
    match bytes < 1 << 30 {
        true => format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20)),
        false => gib(bytes),
    }
}

/// Bytes as people say them.
pub(crate) fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// The least that a kernel sees of a buffer on the GPUs that were asked for or would be chosen, in bytes; none where there is none.
///
/// # Errors
/// There is no such device.
pub(crate) fn largest_buffer(asked: &Asked, devices: &[DeviceInfo]) -> Result<Option<u64>, Problem> {
    rooms(asked, devices).map(|rooms| rooms.largest_buffer())
}

/// The memory that a load may use: the processor's, and that of the GPUs that were asked for or would be chosen.
fn rooms(asked: &Asked, devices: &[DeviceInfo]) -> Result<Rooms, Problem> {
    let usable: Vec<&DeviceInfo> = devices.iter().filter(|device| device.usable).collect();
    let processor = devices.first().cloned().unwrap_or_default();
    let known = |id: &str| {
        usable
            .iter()
            .copied()
            .find(|device| device.id == id || device.identity == id)
    };
    let gpus = match asked.device.as_deref() {
        Some(hardware::CPU) => Vec::new(),
        Some(ids) => ids
            .split(',')
            .map(|id| {
                known(id.trim())
                    .filter(|device| device.id != hardware::CPU)
                    .ok_or_else(|| unknown(id, devices))
            })
            .collect::<Result<_, _>>()?,
        None => usable
            .iter()
            .copied()
            .filter(|device| hardware::chosen_by_itself(device, &processor))
            .collect(),
    };
    Ok(Rooms::of(known(hardware::CPU), &gpus))
}

fn unknown(id: &str, devices: &[DeviceInfo]) -> Problem {
    let message = match devices.iter().find(|device| device.id == id || device.identity == id) {
        Some(device) => format!("The model cannot be loaded on {}: {}", device.name, device.why),
        None => {
            let known: Vec<&str> = devices.iter().map(|device| device.id.as_str()).collect();
            let known = known.join(", ");
            format!("There is no device '{id}' that a model can run on. Choose one of: {known}.")
        }
    };
    problem(ProblemCode::NoDevice, message)
}

/// The processor, and a GPU of so many bytes that is not there.
fn with_assumed_gpu(bytes: u64) -> Vec<DeviceInfo> {
    let mut devices = hardware::devices();
    devices.retain(|device| device.id == hardware::CPU);
    devices.push(DeviceInfo {
        id: "gpu0".to_owned(),
        kind: "discrete".to_owned(),
        name: "A GPU that is assumed".to_owned(),
        memory_total: Some(bytes),
        memory_free: Some(bytes),
        usable: true,
        ..DeviceInfo::default()
    });
    devices
}

#[cfg(test)]
mod tests;
