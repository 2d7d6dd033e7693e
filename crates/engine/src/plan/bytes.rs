//! Bytes of the parts of a model on the CPU and on a GPU, from the file's tensor table.

use hearth_formats::gguf::{GgufHeader, TensorInfo};
use hearth_kernels::attention::KvFormat;
use hearth_llm::arch::{self, LayerSpec};
use hearth_llm::draft::StepCosts;
use hearth_llm::ops::logit_rows;
use hearth_llm::{CacheSize, Config, LayerGroup, LoadError, Session};
use hearth_protocol::BufferContent;

/// Maximum number of answers in progress, each with its logits. Further answers wait.
pub(crate) const MAX_RUNNING: usize = 32;
/// Alignment of allocations on a GPU in bytes.
const GPU_ALIGNMENT: u64 = 256;
/// Bytes of an f32.
const F32: u64 = size_of::<f32>() as u64;

// Pages of CubeCL 0.11 for temporary buffers (`memory_management/dynamic/adaptive.rs` and
// `arena.rs` in cubecl-server): one page for small buffers, and pages with the size of the largest
// other buffer plus a mebibyte of slack.
const SMALL_PAGE: u64 = 8 << 20;
const SMALL_SLICE: u64 = 64 << 10;
const PAGE_SLACK: u64 = 1 << 20;
const MIN_PAGE: u64 = 2 << 20;

/// Bytes of one layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LayerBytes {
    /// On the CPU.
    pub cpu: u64,
    /// On a GPU.
    pub gpu: u64,
}

/// Bytes of the KV cache of one layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LayerCache {
    /// All cells, with snapshots.
    pub bytes: LayerBytes,
    /// The cells of snapshots.
    pub snapshots: LayerBytes,
}

/// Bytes of each part of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelBytes {
    /// The token embedding, which stays on the CPU.
    pub embedding: u64,
    /// The transformer layers, then the prediction layers (which are not loaded), then the output
    /// layer.
    pub layers: Vec<LayerBytes>,
    /// The layers that have a KV cache.
    groups: Vec<LayerGroup>,
    /// The purpose of the KV cache.
    role: Role,
    /// Numbers of activations per token.
    widths: Widths,
}

/// Numbers of f32 per token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Widths {
    /// Activations of the largest layer.
    layer: u64,
    /// Logits.
    logits: u64,
    /// Columns of the widest activation of all layers.
    widest: u64,
    /// Cosines and sines in the largest RoPE table.
    angle: u64,
    /// Cosines and sines in all RoPE tables.
    angles: u64,
}

/// The purpose of a model's KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A chat.
    Chat,
    /// A chat, with a draft by the model's first layers.
    WithFirstLayersDraft,
    /// A draft for another model.
    Draft,
}

/// A RoPE table on a GPU grows by this many positions.
const ANGLES_PAGE: u64 = 256;

/// A buffer on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// Content of the buffer.
    pub content: BufferContent,
    /// Size of the buffer.
    pub bytes: u64,
}

impl Buffer {
    /// Returns a buffer with this content and size.
    pub fn new(content: BufferContent, bytes: u64) -> Self {
        Self { content, bytes }
    }
}

impl ModelBytes {
    /// Reads the sizes from the file's tensor table.
    ///
    /// # Errors
    /// A key of the architecture is invalid.
    pub fn from_header(gguf: &GgufHeader, config: &Config) -> Result<Self, LoadError> {
        let mut layers = vec![LayerBytes::default(); config.layers()];
        let mut embedding = 0;
        let last = layers.len() - 1;
        for tensor in gguf.tensors() {
            let bytes = tensor_bytes(tensor);
            if is_embedding(tensor) {
                embedding = bytes.cpu;
            } else if let Some(layer) = layer_of(tensor, config) {
                layers[layer].cpu += bytes.cpu;
                layers[layer].gpu += bytes.gpu;
            }
        }
        // A tied output layer uses the embedding on the CPU, and a copy of it on a GPU.
        if gguf.info("output.weight").is_none()
            && let Some(table) = gguf.info("token_embd.weight")
        {
            layers[last].gpu += tensor_bytes(table).gpu;
        }
        let spec = arch::describe(gguf, config)?;
        let ropes = spec.ropes();
        let rope_dims = ropes.iter().map(|rope| rope.dims as u64);
        Ok(Self {
            embedding,
            layers,
            groups: LayerGroup::from_spec(&spec),
            role: Role::Chat,
            widths: Widths {
                layer: spec.largest(LayerSpec::activations) as u64,
                logits: config.vocab as u64,
                widest: spec.largest(LayerSpec::widest) as u64,
                angle: rope_dims.clone().max().unwrap_or(0),
                angles: rope_dims.sum(),
            },
        })
    }

    /// Changes the KV cache to one that is shared with a draft by the model's first layers.
    #[must_use]
    pub fn with_first_layers_draft(self) -> Self {
        Self {
            role: Role::WithFirstLayersDraft,
            ..self
        }
    }

    /// Changes the KV cache to one of a draft for another model.
    #[must_use]
    pub fn as_draft(self) -> Self {
        Self {
            role: Role::Draft,
            ..self
        }
    }

    /// The sizes of the KV cache with this context.
    pub fn cache_size(&self, context: u32) -> CacheSize {
        let context = context as usize;
        match self.role {
            Role::Chat => CacheSize::chat(context, &self.groups),
            Role::WithFirstLayersDraft => CacheSize::chat(context, &self.groups).with_drafts(1),
            Role::Draft => CacheSize::draft(context, &self.groups),
        }
    }

    /// Bytes of the KV cache of every layer with this context. They are computed once per group,
    /// because a file may claim a huge number of layers.
    pub fn caches(&self, context: u32, format: KvFormat) -> Vec<LayerCache> {
        let size = self.cache_size(context);
        let without_snapshots = CacheSize { snapshots: 0, ..size };
        let mut caches = vec![LayerCache::default(); self.layers.len()];
        for group in &self.groups {
            let bytes = group_bytes(group, format, &size);
            let live = group_bytes(group, format, &without_snapshots);
            let cache = LayerCache {
                bytes,
                snapshots: LayerBytes {
                    cpu: bytes.cpu.saturating_sub(live.cpu),
                    gpu: bytes.gpu.saturating_sub(live.gpu),
                },
            };
            group.layers.iter().for_each(|layer| caches[*layer] = cache);
        }
        caches
    }

    /// Bytes of weights that are read for a token.
    pub fn per_token(&self) -> u64 {
        self.per_token_of(self.layers.len())
    }

    /// Bytes of weights that the first `count` layers and the output layer read for a token.
    pub fn per_token_of(&self, count: usize) -> u64 {
        let Some((output, layers)) = self.layers.split_last() else {
            return 0;
        };
        let layers: u64 = layers.iter().take(count).map(|layer| layer.cpu).sum();
        layers + self.output(output)
    }

    /// Bytes of the output layer. If it is tied, the CPU uses the embedding, so its bytes on a GPU
    /// count.
    fn output(&self, layer: &LayerBytes) -> u64 {
        layer.cpu.max(layer.gpu)
    }

    /// Bytes of the whole model with a KV cache of this context, on the CPU or on a GPU.
    pub fn total(&self, context: u32, format: KvFormat, on_gpu: bool) -> u64 {
        let bytes_of = |layer: LayerBytes| if on_gpu { layer.gpu } else { layer.cpu };
        let weights = self.layers.iter().map(|layer| bytes_of(*layer));
        let caches = self.caches(context, format);
        let cells = caches.iter().map(|cache| bytes_of(cache.bytes));
        let others = if on_gpu {
            [self.gpu_compute(context, true, true), 0]
        } else {
            [self.compute(context, true), self.embedding]
        };
        weights.chain(cells).chain(others).fold(0, u64::saturating_add)
    }

    /// Bytes of activations on the CPU, if layers run there, and of the logits that answers get,
    /// also from an output layer on a GPU.
    pub fn compute(&self, context: u32, has_layers: bool) -> u64 {
        let tokens = max_chunk(context);
        let activations = u64::from(has_layers) * tokens * self.widths.layer;
        // The logits of the step, and a copy for each answer.
        F32 * (activations + 2 * self.max_logit_rows() * self.widths.logits)
    }

    /// The largest buffers of layers and of the output layer on a GPU, for a context of this many
    /// tokens.
    pub fn largest_buffers(&self, context: u32, format: KvFormat, has_layers: bool, has_output: bool) -> Vec<Buffer> {
        let tokens = max_chunk(context);
        let mut buffers = Vec::new();
        if has_layers {
            let positions = u64::from(context).next_multiple_of(ANGLES_PAGE);
            let size = self.cache_size(context);
            let cells = self.groups.iter().map(|group| group_bytes(group, format, &size).gpu);
            buffers.extend([
                Buffer::new(BufferContent::RopeTable, F32 * positions * self.widths.angle),
                Buffer::new(BufferContent::PromptActivations, F32 * tokens * self.widths.widest),
                // Keys and values are separate buffers.
                Buffer::new(BufferContent::Keys, cells.max().unwrap_or(0) / 2),
            ]);
        }
        if has_output {
            buffers.push(Buffer::new(BufferContent::StepLogits, self.gpu_logits()));
        }
        buffers
    }

    /// Maximum rows of a step whose logits are computed: the rows of answers with their drafts, and
    /// one row for each answer whose prompt ends in the step.
    fn max_logit_rows(&self) -> u64 {
        let rows = match self.role {
            Role::Chat | Role::WithFirstLayersDraft => StepCosts::MAX_ROWS + MAX_RUNNING,
            Role::Draft => MAX_RUNNING,
        };
        rows as u64
    }

    /// Bytes of logits that a GPU computes at the same time.
    fn gpu_logits(&self) -> u64 {
        let rows = logit_rows(self.widths.logits as usize) as u64;
        F32 * rows.min(self.max_logit_rows()) * self.widths.logits
    }

    /// Bytes of activations on a GPU: the pages of CubeCL, and the RoPE tables, which all layers
    /// share.
    pub fn gpu_compute(&self, context: u32, has_layers: bool, has_output: bool) -> u64 {
        if !has_layers && !has_output {
            return 0;
        }
        let tokens = max_chunk(context);
        let (mut largest, mut tables) = (0, 0);
        if has_layers {
            largest = F32 * tokens * self.widths.widest;
            tables = u64::from(context) * (F32 * self.widths.angles + F32);
        }
        if has_output {
            largest = largest.max(self.gpu_logits());
        }
        let pages = if largest > SMALL_SLICE {
            // Two pages hold the input and the output of a layer, or the logits of several rows.
            2 * (largest + PAGE_SLACK).next_multiple_of(PAGE_SLACK).max(MIN_PAGE)
        } else {
            0
        };
        SMALL_PAGE + pages + tables
    }
}

/// Bytes of the KV cache of one layer of a group.
fn group_bytes(group: &LayerGroup, format: KvFormat, size: &CacheSize) -> LayerBytes {
    LayerBytes {
        cpu: group.cpu_bytes(format, size) as u64,
        gpu: group.gpu_bytes(format, size) as u64,
    }
}

/// Maximum tokens of a prefill chunk.
fn max_chunk(context: u32) -> u64 {
    u64::from(context).min(Session::MAX_CHUNK as u64)
}

/// Index of a tensor's layer; the output layer is the last. `None` means that the tensor is in no
/// layer that is loaded.
pub(super) fn layer_of(tensor: &TensorInfo, config: &Config) -> Option<usize> {
    let output = config.layers() - 1;
    let mut parts = tensor.name.split('.');
    match parts.next()? {
        "blk" => parts.next()?.parse().ok(),
        "output" | "output_norm" => Some(output),
        _ => None,
    }
    .filter(|layer| *layer < config.n_layers() || *layer == output)
}

/// Whether a tensor is the token embedding. In a file without an output layer it is the output
/// layer, too.
pub(super) fn is_embedding(tensor: &TensorInfo) -> bool {
    tensor.name.split('.').next() == Some("token_embd")
}

/// Whether a tensor is a vector, not a matrix.
pub(super) fn is_vector(tensor: &TensorInfo) -> bool {
    tensor.shape.iter().filter(|n| **n > 1).count() < 2
}

/// Bytes of one tensor. A matrix has the size of the file's format, which is also the size of
/// packed weights. Vectors are in f32.
fn tensor_bytes(tensor: &TensorInfo) -> LayerBytes {
    let bytes = if is_vector(tensor) {
        tensor.shape.iter().product::<u64>() * F32
    } else {
        tensor.byte_len as u64
    };
    LayerBytes {
        cpu: bytes,
        gpu: bytes.next_multiple_of(GPU_ALIGNMENT),
    }
}
