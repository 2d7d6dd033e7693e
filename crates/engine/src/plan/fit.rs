//! Fits layers into the memory of devices.

use super::bytes::{Buffer, LayerBytes, LayerCache};
use super::{ModelBytes, Training, main_memory};
use crate::hardware::{self, records};
use hearth_kernels::attention::KvFormat;
use hearth_llm::{Place, Placement};
use hearth_protocol::{BufferContent, DeviceInfo, LargeBuffer, PlannedDevice};
use std::iter;

/// Memory to leave free on a GPU for drivers and the desktop: `GPU_MARGIN` bytes (at most an eighth
/// of its memory), plus its memory divided by `GPU_MARGIN_DIVISOR`.
const GPU_MARGIN: u64 = 256 << 20;
const GPU_MARGIN_DIVISOR: u64 = 32;
/// Main memory to leave free.
const CPU_MARGIN: u64 = 256 << 20;
/// Maximum bytes that a kernel can address with 32-bit indices.
const MAX_ADDRESSABLE: u64 = u32::MAX as u64;
/// Step of the search for the longest context, in tokens.
const CONTEXT_STEP: u32 = 256;

/// A model to place, with its context.
#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    /// The model.
    pub bytes: &'a ModelBytes,
    /// Tokens of the KV cache.
    pub context: u32,
    /// Element type of the KV cache.
    pub format: KvFormat,
    /// Memory of fine-tuning, instead of a KV cache.
    pub training: Option<Training>,
    /// The draft model to load beside the model, with a KV cache for the same context.
    pub draft: Option<&'a ModelBytes>,
}

/// The device of a draft model: the GPU of the target's output layer if the whole target is on
/// GPUs, otherwise the CPU.
pub fn draft_place(placement: &Placement) -> Place {
    if placement.gpu_layers() == placement.layers() {
        placement.output()
    } else {
        Place::Cpu
    }
}

impl Load<'_> {
    /// Bytes of the draft model on a device of this placement. Its embedding is always on the CPU.
    fn draft(&self, placement: &Placement, place: Place) -> u64 {
        let Some(draft) = self.draft else { return 0 };
        let on_gpu = draft_place(placement) != Place::Cpu;
        match (place == draft_place(placement), on_gpu && place == Place::Cpu) {
            (true, _) => draft.total(self.context, self.format, on_gpu),
            (false, true) => draft.embedding,
            (false, false) => 0,
        }
    }

    /// Bytes of the KV cache of every layer.
    fn caches(&self) -> Vec<LayerCache> {
        match self.training {
            None => self.bytes.caches(self.context, self.format),
            Some(_) => vec![LayerCache::default(); self.bytes.layers.len()],
        }
    }

    /// The buffers that kernels bind as a whole on a GPU with layers or the output layer. Weights
    /// are not among them, since kernels bind ranges of their rows.
    fn buffers(&self, has_layers: bool, has_output: bool) -> Vec<Buffer> {
        match self.training {
            None => self
                .bytes
                .largest_buffers(self.context, self.format, has_layers, has_output),
            Some(training) => {
                let activations =
                    has_layers.then(|| Buffer::new(BufferContent::BatchActivations, training.largest_activation));
                let logits = has_output.then(|| Buffer::new(BufferContent::BatchLogits, training.output));
                activations.into_iter().chain(logits).collect()
            }
        }
    }

    /// Bytes of the activations of this many layers, and of the output layer if `has_output`.
    fn compute(&self, on_gpu: bool, layers: usize, has_output: bool) -> u64 {
        match self.training {
            None if on_gpu => self.bytes.gpu_compute(self.context, layers > 0, has_output),
            None => self.bytes.compute(self.context, layers > 0),
            Some(training) => {
                layers as u64 * training.fixed_per_layer
                    + layers.min(training.layers_at_once) as u64 * training.operations
                    + if has_output { training.output } else { 0 }
            }
        }
    }
}

/// Memory budget of a device.
#[derive(Debug, Clone)]
struct Budget {
    /// Id as in [`DeviceInfo`].
    id: String,
    /// Identity as in [`DeviceInfo`].
    identity: String,
    /// Product name.
    name: String,
    /// Total bytes. `None` means unknown.
    total: Option<u64>,
    /// Free bytes. `None` means unknown.
    free: Option<u64>,
    /// Fraction of the free bytes that can be allocated: 1, or less if an allocation failed before.
    allocatable_fraction: f64,
    /// Bytes to leave free.
    margin: u64,
    /// Whether it is main memory, which the CPU uses, too.
    is_main_memory: bool,
    /// Largest buffer binding in bytes.
    largest_buffer: u64,
}

/// Memory budgets of the CPU and some GPUs.
#[derive(Debug, Clone)]
pub struct Budgets {
    cpu: Budget,
    /// GPUs with their adapter indices.
    gpus: Vec<(usize, Budget)>,
}

impl Budgets {
    /// The budgets of these devices.
    pub fn new(cpu: Option<&DeviceInfo>, gpus: &[&DeviceInfo]) -> Self {
        let budget = |device: &DeviceInfo, margin: u64| Budget {
            id: device.id.clone(),
            identity: device.identity.clone(),
            name: device.name.clone(),
            total: device.memory_total,
            // Without a report of free memory, all of it counts as free.
            free: device.memory_free.or(device.memory_total),
            allocatable_fraction: records::store().refused_fraction(&device.identity).unwrap_or(1.0),
            margin,
            is_main_memory: device.kind != "discrete",
            largest_buffer: device.largest_buffer.unwrap_or(MAX_ADDRESSABLE).min(MAX_ADDRESSABLE),
        };
        let unknown = DeviceInfo {
            id: hardware::CPU.to_owned(),
            ..DeviceInfo::default()
        };
        let gpu = |device: &&DeviceInfo| {
            let adapter = hardware::adapter_index(&device.id)?;
            let margin = GPU_MARGIN.min(device.memory_total.unwrap_or(0) / 8)
                + device.memory_total.unwrap_or(0) / GPU_MARGIN_DIVISOR;
            Some((adapter, budget(device, margin)))
        };
        Self {
            cpu: budget(cpu.unwrap_or(&unknown), CPU_MARGIN),
            gpus: gpus.iter().filter_map(gpu).collect(),
        }
    }

    /// Places `gpu_layers` of `layers` layers on the GPUs, in proportion to their free memory.
    pub fn place(&self, layers: usize, gpu_layers: usize) -> Placement {
        let weights: Vec<_> = self
            .gpus
            .iter()
            .map(|(adapter, budget)| (*adapter, budget.available().unwrap_or(1)))
            .collect();
        Placement::offload(layers, gpu_layers, &weights)
    }

    /// The layers and bytes of a placement on each device, the CPU first.
    pub fn fill(&self, load: &Load, placement: &Placement) -> Vec<PlannedDevice> {
        let mut devices = self.sizes(load, &load.caches(), placement);
        let last = placement.layers() - 1;
        let names = |place: Place| {
            placement.on(place).map(move |layer| {
                if layer == last {
                    "output".to_owned()
                } else {
                    format!("blk.{layer}")
                }
            })
        };
        devices[0].layers = iter::once("token_embd".to_owned()).chain(names(Place::Cpu)).collect();
        for (device, (adapter, _)) in devices[1..].iter_mut().zip(&self.gpus) {
            device.layers = names(Place::Gpu(*adapter)).collect();
        }
        devices
    }

    /// Whether a placement fits on each device, the CPU first.
    pub fn fits(&self, load: &Load, placement: &Placement) -> Vec<bool> {
        let devices = self.sizes(load, &load.caches(), placement);
        devices.iter().map(|device| device.fits).collect()
    }

    /// The bytes of a placement on each device, the CPU first, without the names of layers.
    fn sizes(&self, load: &Load, caches: &[LayerCache], placement: &Placement) -> Vec<PlannedDevice> {
        let mut devices = vec![self.cpu.sizes(Place::Cpu, load, caches, placement)];
        for (adapter, budget) in &self.gpus {
            let place = Place::Gpu(*adapter);
            let mut device = budget.sizes(place, load, caches, placement);
            let within_limit = self.too_large_on(*adapter, budget, load, placement).is_none();
            let is_empty = placement.on(place).is_empty();
            device.fits = is_empty || (within_limit && budget.holds(device.needed()));
            devices.push(device);
        }
        devices[0].fits = self.cpu.holds(self.main_memory(&devices).needed());
        devices
    }

    /// The main memory that these devices use. The first device is the CPU.
    pub fn main_memory(&self, devices: &[PlannedDevice]) -> PlannedDevice {
        let gpus = devices[1..].iter().zip(&self.gpus);
        let sharing_gpus = gpus
            .filter(|(_, (_, budget))| budget.is_main_memory)
            .map(|(device, _)| device);
        main_memory::sum(&devices[0], sharing_gpus)
    }

    /// The first buffer of a placement that is above a GPU's limit.
    pub fn too_large(&self, load: &Load, placement: &Placement) -> Option<LargeBuffer> {
        let mut gpus = self.gpus.iter();
        gpus.find_map(|(adapter, budget)| self.too_large_on(*adapter, budget, load, placement))
    }

    fn too_large_on(&self, adapter: usize, budget: &Budget, load: &Load, placement: &Placement) -> Option<LargeBuffer> {
        let last = placement.layers() - 1;
        let layers = placement.on(Place::Gpu(adapter));
        let has_output = layers.contains(&last);
        let mut buffers = load.buffers(layers.len() > usize::from(has_output), has_output);
        if let Some(draft) = load.draft.filter(|_| draft_place(placement) == Place::Gpu(adapter)) {
            buffers.extend(draft.largest_buffers(load.context, load.format, true, true));
        }
        let largest = buffers.into_iter().max_by_key(|buffer| buffer.bytes)?;
        (largest.bytes > budget.largest_buffer).then(|| LargeBuffer {
            device: budget.name.clone(),
            buffer: largest.content,
            bytes: largest.bytes,
            limit_bytes: budget.largest_buffer,
        })
    }

    /// The smallest buffer limit of the GPUs. `None` without GPUs.
    pub fn largest_buffer(&self) -> Option<u64> {
        self.gpus.iter().map(|(_, budget)| budget.largest_buffer).min()
    }

    /// Maximum number of layers that fit on the GPUs.
    pub fn max_layers(&self, load: &Load) -> usize {
        let (layers, caches) = (load.bytes.layers.len(), load.caches());
        let fits = |gpu_layers: &usize| {
            let devices = self.sizes(load, &caches, &self.place(layers, *gpu_layers));
            devices.iter().skip(1).all(|device| device.fits)
        };
        if self.gpus.is_empty() {
            0
        } else {
            (1..=layers).rev().find(fits).unwrap_or(0)
        }
    }

    /// Longest context up to `max` that fits with this placement. 0 if no context fits.
    pub fn longest_context(&self, load: &Load, placement: &Placement, max: u32) -> u32 {
        let fits = |context: u32| {
            let load = Load { context, ..*load };
            self.fits(&load, placement).into_iter().all(|fits| fits)
        };
        longest(max, fits)
    }

    /// Longest context up to `max` with which all buffers of this placement are within the GPUs'
    /// limits. 0 if there is no such context.
    pub fn longest_addressable(&self, load: &Load, placement: &Placement, max: u32) -> u32 {
        longest(max, |context| {
            self.too_large(&Load { context, ..*load }, placement).is_none()
        })
    }
}

/// Finds the longest context up to `max` that fits, by binary search, since memory grows with the
/// context. 0 if no context fits.
fn longest(max: u32, fits: impl Fn(u32) -> bool) -> u32 {
    if fits(max) {
        return max;
    }
    let (mut fitting, mut failing) = (0, max.div_ceil(CONTEXT_STEP));
    while failing - fitting > 1 {
        let middle = fitting + (failing - fitting) / 2;
        if fits(middle * CONTEXT_STEP) {
            fitting = middle
        } else {
            failing = middle
        }
    }
    fitting * CONTEXT_STEP
}

impl Budget {
    /// The bytes of a placement on this device, without the names of layers.
    fn sizes(&self, place: Place, load: &Load, caches: &[LayerCache], placement: &Placement) -> PlannedDevice {
        let on_gpu = place != Place::Cpu;
        let last = placement.layers() - 1;
        let bytes_of = |layer: LayerBytes| if on_gpu { layer.gpu } else { layer.cpu };
        let mut device = PlannedDevice {
            id: self.id.clone(),
            identity: self.identity.clone(),
            name: self.name.clone(),
            weights: if on_gpu { 0 } else { load.bytes.embedding },
            draft: load.draft(placement, place),
            margin: self.margin,
            total: self.total,
            free: self.free,
            fits: true,
            ..PlannedDevice::default()
        };
        let (mut layers, mut has_output) = (0, false);
        for layer in placement.on(place) {
            device.weights = device.weights.saturating_add(bytes_of(load.bytes.layers[layer]));
            device.kv = device.kv.saturating_add(bytes_of(caches[layer].bytes));
            device.snapshots = device.snapshots.saturating_add(bytes_of(caches[layer].snapshots));
            if layer == last { has_output = true } else { layers += 1 }
        }
        device.compute = load.compute(on_gpu, layers, has_output);
        device
    }

    /// Bytes available to a model. `None` means unknown.
    fn available(&self) -> Option<u64> {
        let free = self.free?;
        let available = free.saturating_sub(self.margin);
        // An allocation that failed before would fail again, whatever the driver reports as free.
        if self.allocatable_fraction < 1.0 {
            Some(available.min(((free as f64 * self.allocatable_fraction) as u64).saturating_sub(1)))
        } else {
            Some(available)
        }
    }

    /// Whether this many bytes fit. `true` if the available bytes are unknown.
    fn holds(&self, bytes: u64) -> bool {
        self.available().is_none_or(|max| bytes <= max)
    }
}
