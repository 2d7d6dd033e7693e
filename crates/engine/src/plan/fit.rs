//! Fitting layers into the memory of devices.

use super::bytes::{Buffer, Layer, LayerCache};
use super::{ModelBytes, Training, main_memory};
use crate::hardware::{self, records};
use hearth_formats::byte_size;
use hearth_kernels::attention::KvFormat;
use hearth_llm::{Place, Placement};
use hearth_protocol::{DeviceInfo, PlannedDevice};
use std::{fmt, iter};

/// Memory to leave free on a GPU for drivers and the desktop: this many bytes, plus one part in
/// `GPU_SHARE` of its memory.
const GPU_MARGIN: u64 = 256 << 20;
const GPU_SHARE: u64 = 32;
/// Main memory to leave free.
const CPU_MARGIN: u64 = 256 << 20;
/// Maximum bytes that a kernel can address with 32-bit indices.
const MAX_ADDRESSABLE: u64 = u32::MAX as u64;
/// Step of the context search in tokens.
const CONTEXT_STEP: u32 = 256;

/// A model to place, with its context.
#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    /// The model.
    pub bytes: &'a ModelBytes,
    /// Tokens of the cache.
    pub context: u32,
    /// Element type of the KV cache.
    pub format: KvFormat,
    /// Memory of fine-tuning, instead of a KV cache.
    pub training: Option<Training>,
    /// A draft model beside it, with a cache of the same context.
    pub draft: Option<&'a ModelBytes>,
}

/// The device of a draft model: the GPU of the output layer if all of its target is on GPUs, else
/// the CPU.
pub fn draft_place(placement: &Placement) -> Place {
    if placement.gpu_layers() == placement.layers() {
        placement.output()
    } else {
        Place::Cpu
    }
}

impl Load<'_> {
    /// Bytes of the draft model on a device of this placement; its embedding is always on the CPU.
    fn draft(&self, placement: &Placement, place: Place) -> u64 {
        let Some(draft) = self.draft else { return 0 };
        let gpu = draft_place(placement) != Place::Cpu;
        match (place == draft_place(placement), gpu && place == Place::Cpu) {
            (true, _) => draft.all(self.context, self.format, gpu),
            (false, true) => draft.embedding,
            (false, false) => 0,
        }
    }

    /// The KV cache of every layer.
    fn caches(&self) -> Vec<LayerCache> {
        match self.training {
            None => self.bytes.caches(self.context, self.format),
            Some(_) => vec![LayerCache::default(); self.bytes.layers.len()],
        }
    }

    /// The buffers that are bound as a whole on a GPU with layers or the output layer. Weights are
    /// not among them: they are bound in ranges of rows.
    fn buffers(&self, layers: bool, output: bool) -> Vec<Buffer> {
        match self.training {
            None => self.bytes.largest_buffers(self.context, self.format, layers, output),
            Some(training) => {
                let of = |wanted: bool, what, bytes| wanted.then(|| Buffer::new(what, bytes));
                let layer = of(layers, "the activations of a batch", training.largest_activation);
                let output = of(output, "the logits of a batch", training.output);
                layer.into_iter().chain(output).collect()
            }
        }
    }

    /// Activations of this many layers, and of the output layer.
    fn compute(&self, gpu: bool, layers: usize, output: bool) -> u64 {
        match self.training {
            None if gpu => self.bytes.gpu_compute(self.context, layers > 0, output),
            None => self.bytes.compute(self.context, layers > 0),
            Some(training) => {
                layers as u64 * training.fixed_per_layer
                    + layers.min(training.layers_at_once) as u64 * training.operations
                    + if output { training.output } else { 0 }
            }
        }
    }
}

/// Memory budget of a device.
#[derive(Debug, Clone)]
struct Budget {
    /// Its id, as in [`DeviceInfo`].
    id: String,
    /// Its identity, as in [`DeviceInfo`].
    identity: String,
    /// Product name.
    name: String,
    /// Total bytes. `None` means unknown.
    total: Option<u64>,
    /// Free bytes. `None` means unknown.
    free: Option<u64>,
    /// Fraction of them that can be allocated, as far as known.
    allocatable_share: f64,
    /// Bytes to leave free.
    margin: u64,
    /// Whether it is main memory, shared with the CPU.
    shared: bool,
    /// Largest buffer binding in bytes.
    largest_buffer: u64,
}

/// A buffer above a GPU's limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooLarge {
    /// The GPU's name.
    pub device: String,
    /// The buffer.
    pub buffer: Buffer,
    /// The limit in bytes.
    pub limit: u64,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, buffer, limit } = self;
        let (what, bytes, limit) = (buffer.what, byte_size(buffer.bytes), byte_size(*limit));
        write!(
            f,
            "On {device}, {what} would need a buffer of {bytes}, above its limit of {limit}"
        )
    }
}

/// Memory budgets of the CPU and some GPUs.
#[derive(Debug, Clone)]
pub struct Budgets {
    cpu: Budget,
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
            // At most the total.
            free: device.memory_free.or(device.memory_total),
            allocatable_share: records::store().refused(&device.identity).unwrap_or(1.0),
            margin,
            shared: device.kind != "discrete",
            largest_buffer: device.largest_buffer.unwrap_or(MAX_ADDRESSABLE).min(MAX_ADDRESSABLE),
        };
        let unknown = DeviceInfo {
            id: hardware::CPU.to_owned(),
            ..DeviceInfo::default()
        };
        let gpu = |device: &&DeviceInfo| {
            let number = hardware::adapter_index(&device.id)?;
            let margin =
                GPU_MARGIN.min(device.memory_total.unwrap_or(0) / 8) + device.memory_total.unwrap_or(0) / GPU_SHARE;
            Some((number, budget(device, margin)))
        };
        Self {
            cpu: budget(cpu.unwrap_or(&unknown), CPU_MARGIN),
            gpus: gpus.iter().filter_map(gpu).collect(),
        }
    }

    /// Place `wanted` of `layers` layers on the GPUs, in proportion to their free memory.
    pub fn place(&self, layers: usize, wanted: usize) -> Placement {
        let weights: Vec<_> = self
            .gpus
            .iter()
            .map(|(number, budget)| (*number, budget.available().unwrap_or(1)))
            .collect();
        Placement::offload(layers, wanted, &weights)
    }

    /// The layers and bytes of a placement on each device.
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
        for (device, (number, _)) in devices[1..].iter_mut().zip(&self.gpus) {
            device.layers = names(Place::Gpu(*number)).collect();
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
        for (number, budget) in &self.gpus {
            let place = Place::Gpu(*number);
            let mut device = budget.sizes(place, load, caches, placement);
            let small = self.too_large_on(*number, budget, load, placement).is_none();
            let is_empty = placement.on(place).is_empty();
            device.fits = is_empty || (small && budget.holds(device.needed()));
            devices.push(device);
        }
        devices[0].fits = self.cpu.holds(self.main_memory(&devices).needed());
        devices
    }

    /// The main memory used by these devices, of which the first is the CPU.
    pub fn main_memory(&self, devices: &[PlannedDevice]) -> PlannedDevice {
        let gpus = devices[1..].iter().zip(&self.gpus);
        let sharing = gpus.filter(|(_, (_, budget))| budget.shared).map(|(device, _)| device);
        main_memory::sum(&devices[0], sharing)
    }

    /// The first buffer of a placement that is above a GPU's limit.
    pub fn too_large(&self, load: &Load, placement: &Placement) -> Option<TooLarge> {
        let mut gpus = self.gpus.iter();
        gpus.find_map(|(number, budget)| self.too_large_on(*number, budget, load, placement))
    }

    fn too_large_on(&self, number: usize, budget: &Budget, load: &Load, placement: &Placement) -> Option<TooLarge> {
        let last = placement.layers() - 1;
        let here = placement.on(Place::Gpu(number));
        let output = here.contains(&last);
        let mut buffers = load.buffers(here.len() > usize::from(output), output);
        if let Some(draft) = load.draft.filter(|_| draft_place(placement) == Place::Gpu(number)) {
            buffers.extend(draft.largest_buffers(load.context, load.format, true, true));
        }
        let largest = buffers.into_iter().max_by_key(|buffer| buffer.bytes)?;
        (largest.bytes > budget.largest_buffer).then(|| TooLarge {
            device: budget.name.clone(),
            buffer: largest,
            limit: budget.largest_buffer,
        })
    }

    /// The smallest buffer limit of the GPUs. `None` without GPUs.
    pub fn largest_buffer(&self) -> Option<u64> {
        self.gpus.iter().map(|(_, budget)| budget.largest_buffer).min()
    }

    /// Maximum number of layers that fit on the GPUs.
    pub fn max_layers(&self, load: &Load) -> usize {
        let (layers, caches) = (load.bytes.layers.len(), load.caches());
        let fits = |wanted: &usize| {
            let devices = self.sizes(load, &caches, &self.place(layers, *wanted));
            devices.iter().skip(1).all(|device| device.fits)
        };
        if self.gpus.is_empty() {
            0
        } else {
            (1..=layers).rev().find(fits).unwrap_or(0)
        }
    }

    /// Longest context up to `max` that fits with this placement; 0 if none does.
    pub fn longest_context(&self, load: &Load, placement: &Placement, max: u32) -> u32 {
        let fits = |context: u32| {
            let load = Load { context, ..*load };
            self.fits(&load, placement).into_iter().all(|fits| fits)
        };
        longest(max, fits)
    }

    /// Longest context up to `max` with all buffers of this placement within limits; 0 if there is
    /// none.
    pub fn longest_addressable(&self, load: &Load, placement: &Placement, max: u32) -> u32 {
        longest(max, |context| {
            self.too_large(&Load { context, ..*load }, placement).is_none()
        })
    }
}

/// Longest context up to `max` that fits, by binary search; 0 if none does. More context never
/// takes less memory.
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
        let gpu = place != Place::Cpu;
        let last = placement.layers() - 1;
        let side = |layer: Layer| if gpu { layer.gpu } else { layer.cpu };
        let mut device = PlannedDevice {
            id: self.id.clone(),
            identity: self.identity.clone(),
            name: self.name.clone(),
            weights: if gpu { 0 } else { load.bytes.embedding },
            draft: load.draft(placement, place),
            margin: self.margin,
            total: self.total,
            free: self.free,
            fits: true,
            ..PlannedDevice::default()
        };
        let (mut layers, mut output) = (0, false);
        for layer in placement.on(place) {
            device.weights = device.weights.saturating_add(side(load.bytes.layers[layer]));
            device.kv = device.kv.saturating_add(side(caches[layer].bytes));
            device.snapshots = device.snapshots.saturating_add(side(caches[layer].snapshots));
            if layer == last { output = true } else { layers += 1 }
        }
        device.compute = load.compute(gpu, layers, output);
        device
    }

    /// Available bytes. `None` means unknown.
    fn available(&self) -> Option<u64> {
        let free = self.free?;
        let margin = free.saturating_sub(self.margin);
        // A refused size would be refused again, whatever the driver reports as free.
        if self.allocatable_share < 1.0 {
            Some(margin.min(((free as f64 * self.allocatable_share) as u64).saturating_sub(1)))
        } else {
            Some(margin)
        }
    }

    /// Whether this many bytes fit; `true` if unknown.
    fn holds(&self, bytes: u64) -> bool {
        self.available().is_none_or(|max| bytes <= max)
    }
}
