//! Filling the memory of devices with layers.

use super::bytes::Buffer;
use super::{Bytes, Training, mib};
use crate::hardware::{self, records};
use hearth_kernels::attention::KvFormat;
use hearth_llm::{Place, Placement};
use hearth_protocol::{DeviceInfo, PlannedDevice};
use std::fmt;

/// What is left free on a GPU: this much, and this share of it, for what drivers and the desktop take of it.
const GPU_MARGIN: u64 = 256 << 20;
const GPU_SHARE: u64 = 32;
/// The same of main memory.
const CPU_MARGIN: u64 = 256 << 20;
/// What a kernel, which counts in 32 bits, can address.
const MOST_ADDRESSED: u64 = u32::MAX as u64;
/// Contexts are looked for in steps of this many tokens.
const CONTEXT_STEP: u32 = 256;

/// What is to be put somewhere.
#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    /// The model.
    pub bytes: &'a Bytes,
    /// Tokens of the cache.
    pub context: u32,
    /// How it is kept.
    pub format: KvFormat,
    /// What is trained; then there is no cache.
    pub training: Option<Training>,
}

impl Load<'_> {
    /// The cache of a layer.
    fn cache(&self, layer: usize) -> super::bytes::Layer {
        match self.training {
            None => self.bytes.cache(layer, self.context, self.format),
            Some(_) => super::bytes::Layer::default(),
        }
    }

    /// The buffers that a kernel has to see as a whole where a GPU has blocks, or the output layer. Weights are not among them: those are
    /// taken in ranges of rows.
    fn buffers(&self, blocks: bool, output: bool) -> Vec<Buffer> {
        match self.training {
            None => self.bytes.largest_buffers(self.context, self.format, blocks, output),
            Some(training) => {
                let of = |wanted: bool, what, bytes| wanted.then(|| Buffer::new(what, bytes));
                let block = of(blocks, "the activations of a batch", training.largest_of_a_block);
                let output = of(output, "the logits of a batch", training.output);
                block.into_iter().chain(output).collect()
            }
        }
    }

    /// What is made on the way through so many blocks, and through the output layer.
    fn compute(&self, gpu: bool, blocks: usize, output: bool) -> u64 {
        match self.training {
            None if gpu => self.bytes.gpu_compute(self.context, blocks > 0, output),
            None => self.bytes.compute(self.context, blocks > 0, output),
            Some(training) => {
                blocks as u64 * training.a_block
                    + blocks.min(training.blocks_at_once) as u64 * training.operations
                    + if output { training.output } else { 0 }
            }
        }
    }
}

/// One device's memory.
#[derive(Debug, Clone)]
struct Room {
    /// Its id, as in [`DeviceInfo`].
    id: String,
    /// Its identity, likewise.
    identity: String,
    /// The maker's name for it.
    name: String,
    /// Bytes in all; none where it cannot be told.
    total: Option<u64>,
    /// Bytes that are free now; none where it cannot be told.
    free: Option<u64>,
    /// What of them is to be had, as far as anybody found out.
    to_be_had: f64,
    /// Bytes that are to stay free.
    margin: u64,
    /// Whether it is main memory, which it then shares with the processor.
    shared: bool,
    /// Bytes of a buffer that a kernel there sees at most.
    largest_buffer: u64,
}

/// A buffer of which a kernel could not see all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooLarge {
    /// The GPU's name.
    pub device: String,
    /// What would be too large.
    pub buffer: Buffer,
    /// Bytes that it may have.
    pub limit: u64,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, buffer, limit } = self;
        let (what, bytes, limit) = (buffer.what, mib(buffer.bytes), mib(*limit));
        write!(
            f,
            "On {device} {what} would take a buffer of {bytes}, and a kernel there sees {limit} of one"
        )
    }
}

/// The memory that a model may be put into: the processor's and that of some GPUs.
#[derive(Debug, Clone)]
pub struct Rooms {
    cpu: Room,
    gpus: Vec<(usize, Room)>,
}

impl Rooms {
    /// Those of these devices.
    pub fn of(cpu: Option<&DeviceInfo>, gpus: &[&DeviceInfo]) -> Self {
        let room = |device: &DeviceInfo, margin: u64| Room {
            id: device.id.clone(),
            identity: device.identity.clone(),
            name: device.name.clone(),
            total: device.memory_total,
            // More than there is, it does not have.
            free: device.memory_free.or(device.memory_total),
            to_be_had: records::store().refused(&device.identity).unwrap_or(1.0),
            margin,
            shared: device.kind != "discrete",
            largest_buffer: device.largest_buffer.unwrap_or(MOST_ADDRESSED).min(MOST_ADDRESSED),
        };
        let unknown = DeviceInfo {
            id: hardware::CPU.to_owned(),
            ..DeviceInfo::default()
        };
        let gpu = |device: &&DeviceInfo| {
            let number = hardware::gpu_number(&device.id)?;
            let margin =
                GPU_MARGIN.min(device.memory_total.unwrap_or(0) / 8) + device.memory_total.unwrap_or(0) / GPU_SHARE;
            Some((number, room(device, margin)))
        };
        Self {
            cpu: room(cpu.unwrap_or(&unknown), CPU_MARGIN),
            gpus: gpus.iter().filter_map(gpu).collect(),
        }
    }

    /// `wanted` of `layers` layers on the GPUs, to each by what it has free.
    pub fn place(&self, layers: usize, wanted: usize) -> Placement {
        let weights: Vec<_> = self
            .gpus
            .iter()
            .map(|(number, room)| (*number, room.most().unwrap_or(1)))
            .collect();
        Placement::offload(layers, wanted, &weights)
    }

    /// What a placement puts where.
    pub fn fill(&self, load: &Load, placement: &Placement) -> Vec<PlannedDevice> {
        let bytes = load.bytes;
        let last = placement.layers() - 1;
        let on = |place: Place| (0..placement.layers()).filter(move |layer| placement.of(*layer) == place);
        let name = |layer: usize| match layer == last {
            true => "output".to_owned(),
            false => format!("blk.{layer}"),
        };
        let planned = |place: Place, room: &Room| {
            let gpu = place != Place::Cpu;
            let side = |layer: super::bytes::Layer| if gpu { layer.gpu } else { layer.cpu };
            let weights: u64 = on(place).map(|layer| side(bytes.layers[layer])).sum();
            let kv = on(place).map(|layer| side(load.cache(layer))).sum();
            let blocks = on(place).filter(|layer| *layer != last).count();
            let output = on(place).any(|layer| layer == last);
            let layers = on(place).map(name);
            PlannedDevice {
                id: room.id.clone(),
                identity: room.identity.clone(),
                name: room.name.clone(),
                weights: weights + if gpu { 0 } else { bytes.embedding },
                kv,
                compute: load.compute(gpu, blocks, output),
                margin: room.margin,
                total: room.total,
                free: room.free,
                layers: match gpu {
                    true => layers.collect(),
                    false => std::iter::once("token_embd".to_owned()).chain(layers).collect(),
                },
                fits: true,
            }
        };
        let mut devices = vec![planned(Place::Cpu, &self.cpu)];
        let needed = |device: &PlannedDevice| device.weights + device.kv + device.compute;
        let mut in_main_memory = needed(&devices[0]);
        for (number, room) in &self.gpus {
            let mut device = planned(Place::Gpu(*number), room);
            if room.shared {
                in_main_memory += needed(&device);
            }
            let small = self.too_large_on(*number, room, load, placement).is_none();
            device.fits = device.layers.is_empty() || (small && room.holds(needed(&device)));
            devices.push(device);
        }
        devices[0].fits = self.cpu.holds(in_main_memory);
        devices
    }

    /// The first buffer of which a GPU's kernels could not see all with this placement.
    pub fn too_large(&self, load: &Load, placement: &Placement) -> Option<TooLarge> {
        let mut gpus = self.gpus.iter();
        gpus.find_map(|(number, room)| self.too_large_on(*number, room, load, placement))
    }

    fn too_large_on(&self, number: usize, room: &Room, load: &Load, placement: &Placement) -> Option<TooLarge> {
        let last = placement.layers() - 1;
        let mut layers = (0..placement.layers()).filter(|layer| placement.of(*layer) == Place::Gpu(number));
        let blocks = layers.clone().any(|layer| layer != last);
        let buffers = load.buffers(blocks, layers.any(|layer| layer == last));
        let largest = buffers.into_iter().max_by_key(|buffer| buffer.bytes)?;
        (largest.bytes > room.largest_buffer).then(|| TooLarge {
            device: room.name.clone(),
            buffer: largest,
            limit: room.largest_buffer,
        })
    }

    /// The least that a kernel sees of a buffer on any of the GPUs; none where there is no GPU.
    pub fn largest_buffer(&self) -> Option<u64> {
        self.gpus.iter().map(|(_, room)| room.largest_buffer).min()
    }

    /// The most layers that fit on the GPUs.
    pub fn most_layers(&self, load: &Load) -> usize {
        let layers = load.bytes.layers.len();
        let fits = |wanted: &usize| {
            let devices = self.fill(load, &self.place(layers, *wanted));
            devices.iter().skip(1).all(|device| device.fits)
        };
        match self.gpus.is_empty() {
            true => 0,
            false => (1..=layers).rev().find(fits).unwrap_or(0),
        }
    }

    /// The longest context up to `most` that fits with this placement; 0 if none does.
    pub fn longest_context(&self, load: &Load, placement: &Placement, most: u32) -> u32 {
        let fits = |context: u32| {
            let devices = self.fill(&Load { context, ..*load }, placement);
            devices.iter().all(|device| device.fits)
        };
        longest(most, fits)
    }

    /// The longest context up to `most` with which no buffer is too large, wherever layers of this placement lie; 0 if there is none.
    pub fn longest_seen(&self, load: &Load, placement: &Placement, most: u32) -> u32 {
        longest(most, |context| {
            self.too_large(&Load { context, ..*load }, placement).is_none()
        })
    }
}

/// The longest context up to `most` that fits; 0 if none does. More context never takes less memory, so it lies between the last that fits
/// and the first that does not.
fn longest(most: u32, fits: impl Fn(u32) -> bool) -> u32 {
    if fits(most) {
        return most;
    }
    let (mut fitting, mut failing) = (0, most.div_ceil(CONTEXT_STEP));
    while failing - fitting > 1 {
        let middle = fitting + (failing - fitting) / 2;
        match fits(middle * CONTEXT_STEP) {
            true => fitting = middle,
            false => failing = middle,
        }
    }
    fitting * CONTEXT_STEP
}

impl Room {
    /// The most bytes that it can hold; none where it cannot be told.
    fn most(&self) -> Option<u64> {
        let free = self.free?;
        let margin = free.saturating_sub(self.margin);
        // What was refused would be refused again, whatever the driver says is free.
        match self.to_be_had < 1.0 {
            true => Some(margin.min(((free as f64 * self.to_be_had) as u64).saturating_sub(1))),
            false => Some(margin),
        }
    }

    /// Whether there is room for so many bytes; where it cannot be told, there is.
    fn holds(&self, bytes: u64) -> bool {
        self.most().is_none_or(|most| bytes <= most)
    }
}
