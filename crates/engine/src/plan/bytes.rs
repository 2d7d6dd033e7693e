//! Sizes of the parts of a model on the CPU and on a GPU, from the file's tensor table.

use crate::scheduler::MAX_RUNNING;
use hearth_formats::gguf::{GgufHeader, TensorInfo};
use hearth_kernels::attention::KvFormat;
use hearth_llm::draft::StepCosts;
use hearth_llm::ops::logit_rows;
use hearth_llm::{CacheSize, Config, LayerGroup, LoadError, Session, arch};

/// Alignment of allocations on a GPU in bytes.
const GPU_ALIGNMENT: u64 = 256;
/// Bytes of an f32.
const F32: u64 = size_of::<f32>() as u64;

// Pages of CubeCL 0.11 for temporary buffers (`memory_management/dynamic/adaptive.rs` and
// `arena.rs` in cubecl-server): one page for small buffers, and pages as large as the largest other
// buffer plus a mebibyte of slack.
const SMALL_PAGE: u64 = 8 << 20;
const SMALL_SLICE: u64 = 64 << 10;
const PAGE_SLACK: u64 = 1 << 20;
const MIN_PAGE: u64 = 2 << 20;

/// Bytes of one layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Layer {
    /// On the CPU.
    pub cpu: u64,
    /// On a GPU.
    pub gpu: u64,
}

/// Bytes of the KV cache of one layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LayerCache {
    /// All of it.
    pub bytes: Layer,
    /// Its snapshots.
    pub snapshots: Layer,
}

/// Bytes of a model, part by part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelBytes {
    /// The token embedding, which stays on the CPU.
    pub embedding: u64,
    /// The transformer layers, the prediction layers (which are not loaded), and last the output
    /// layer.
    pub layers: Vec<Layer>,
    /// The layers with a KV cache.
    groups: Vec<LayerGroup>,
    /// The purpose of the KV cache.
    role: Role,
    /// Elements of activations per token.
    widths: Widths,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Widths {
    layer: u64,
    /// The logits of a row.
    logits: u64,
    /// Columns of a layer's widest activation.
    widest: u64,
    /// Cosines and sines per position, of one RoPE table, and of all.
    angle: u64,
    angles: u64,
}

/// The purpose of a model's KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A chat.
    Chat,
    /// A chat whose first layers are also its draft.
    WithOwnDraft,
    /// A draft.
    Draft,
}

/// Positions by which a RoPE table on a GPU grows.
const ANGLES_PAGE: u64 = 256;

/// A buffer on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// Its content, for a sentence.
    pub what: &'static str,
    /// Its size.
    pub bytes: u64,
}

impl Buffer {
    /// A buffer with this content.
    pub fn new(what: &'static str, bytes: u64) -> Self {
        Self { what, bytes }
    }
}

impl ModelBytes {
    /// Sizes from the file's tensor table.
    ///
    /// # Errors
    /// If a key of its architecture is invalid.
    pub fn from_header(gguf: &GgufHeader, config: &Config) -> Result<Self, LoadError> {
        let mut layers = vec![Layer::default(); config.layers()];
        let mut embedding = 0;
        let last = layers.len() - 1;
        for tensor in gguf.tensors() {
            let layer = layer(tensor);
            if is_embedding(tensor) {
                embedding = layer.cpu;
            } else if let Some(at) = layer_of(tensor, config) {
                layers[at].cpu += layer.cpu;
                layers[at].gpu += layer.gpu;
            }
        }
        // A tied output layer shares the embedding on the CPU and is a copy on a GPU.
        if gguf.info("output.weight").is_none()
            && let Some(table) = gguf.info("token_embd.weight")
        {
            layers[last].gpu += self::layer(table).gpu;
        }
        let qkv = (config.heads + 2 * config.kv_heads) * config.head_dim;
        let context = config.heads * config.head_dim;
        let spec = arch::describe(gguf, config)?;
        Ok(Self {
            embedding,
            layers,
            groups: LayerGroup::from_spec(&spec),
            role: Role::Chat,
            widths: Widths {
                layer: (2 * config.width + 2 * qkv.max(context) + 3 * config.ffn_width) as u64,
                logits: config.vocab as u64,
                widest: (2 * config.ffn_width).max(qkv) as u64,
                angle: config.rope_dims as u64,
                angles: (config.rope_dims * spec.ropes()) as u64,
            },
        })
    }

    /// The same with a KV cache that a draft by its first layers shares.
    #[must_use]
    pub fn with_own_draft(self) -> Self {
        Self {
            role: Role::WithOwnDraft,
            ..self
        }
    }

    /// The same as a draft for another model.
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
            Role::WithOwnDraft => CacheSize::chat(context, &self.groups).with_drafts(1),
            Role::Draft => CacheSize::draft(context, &self.groups),
        }
    }

    /// The KV cache of every layer with this context. Computed once per group: the number of layers
    /// is what a file claims.
    pub fn caches(&self, context: u32, format: KvFormat) -> Vec<LayerCache> {
        let size = self.cache_size(context);
        let without = CacheSize { snapshots: 0, ..size };
        let mut caches = vec![LayerCache::default(); self.layers.len()];
        for group in &self.groups {
            let bytes = group_bytes(group, format, &size);
            let live = group_bytes(group, format, &without);
            let cache = LayerCache {
                bytes,
                snapshots: Layer {
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
        let (output, layers) = self
            .layers
            .split_last()
            .map_or((0, &[][..]), |(output, rest)| (self.output(output), rest));
        let layers: u64 = layers.iter().take(count).map(|layer| layer.cpu).sum();
        layers + output
    }

    /// Bytes of the output layer; a tied one is the embedding.
    fn output(&self, layer: &Layer) -> u64 {
        layer.cpu.max(layer.gpu)
    }

    /// Bytes of the whole model with a KV cache of this context, on the CPU or on a GPU.
    pub fn all(&self, context: u32, format: KvFormat, gpu: bool) -> u64 {
        let side = |layer: Layer| if gpu { layer.gpu } else { layer.cpu };
        let weights = self.layers.iter().map(|layer| side(*layer));
        let caches = self.caches(context, format);
        let cells = caches.iter().map(|cache| side(cache.bytes));
        let others = if gpu {
            [self.gpu_compute(context, true, true), 0]
        } else {
            [self.compute(context, true), self.embedding]
        };
        weights.chain(cells).chain(others).fold(0, u64::saturating_add)
    }

    /// Bytes of activations on the CPU, if layers run there, and of the logits that answers get,
    /// also from an output layer on a GPU.
    pub fn compute(&self, context: u32, layers: bool) -> u64 {
        let tokens = chunk(context);
        let activations = u64::from(layers) * tokens * self.widths.layer;
        // As the output layer gives them, and as each answer gets its own.
        F32 * (activations + 2 * self.wanted_rows() * self.widths.logits)
    }

    /// The largest buffers of layers and of the output layer on a GPU, for a context of this many
    /// tokens.
    pub fn largest_buffers(&self, context: u32, format: KvFormat, layers: bool, output: bool) -> Vec<Buffer> {
        let tokens = chunk(context);
        let mut buffers = Vec::new();
        if layers {
            let positions = u64::from(context).next_multiple_of(ANGLES_PAGE);
            let size = self.cache_size(context);
            let cells = self.groups.iter().map(|group| group_bytes(group, format, &size).gpu);
            buffers.extend([
                Buffer::new("the RoPE table", F32 * positions * self.widths.angle),
                Buffer::new("the activations of a prompt", F32 * tokens * self.widths.widest),
                // Keys and values are separate buffers.
                Buffer::new("the keys of a layer's cache", cells.max().unwrap_or(0) / 2),
            ]);
        }
        if output {
            buffers.push(Buffer::new("the logits of a step", self.gpu_logits()));
        }
        buffers
    }

    /// Most rows of a step whose logits are wanted: of answers with their drafts, and one of each
    /// answer whose prompt ends.
    fn wanted_rows(&self) -> u64 {
        let rows = match self.role {
            Role::Chat | Role::WithOwnDraft => StepCosts::MAX_ROWS + MAX_RUNNING,
            Role::Draft => MAX_RUNNING,
        };
        rows as u64
    }

    /// Bytes of logits on a GPU at once.
    fn gpu_logits(&self) -> u64 {
        let at_once = logit_rows(self.widths.logits as usize) as u64;
        F32 * at_once.min(self.wanted_rows()) * self.widths.logits
    }

    /// Bytes of activations on a GPU: the runtime's pages, and tables shared by all layers.
    pub fn gpu_compute(&self, context: u32, layers: bool, output: bool) -> u64 {
        if !layers && !output {
            return 0;
        }
        let tokens = chunk(context);
        let (mut largest, mut tables) = (0, 0);
        if layers {
            largest = F32 * tokens * self.widths.widest;
            tables = u64::from(context) * (F32 * self.widths.angles + F32);
        }
        if output {
            largest = largest.max(self.gpu_logits());
        }
        let pages = if largest > SMALL_SLICE {
            // The input and output of a layer, or the logits of several rows, are on two pages.
            2 * (largest + PAGE_SLACK).next_multiple_of(PAGE_SLACK).max(MIN_PAGE)
        } else {
            0
        };
        SMALL_PAGE + pages + tables
    }
}

/// Bytes of the KV cache of one layer of a group.
fn group_bytes(group: &LayerGroup, format: KvFormat, size: &CacheSize) -> Layer {
    Layer {
        cpu: group.cpu_bytes(format, size) as u64,
        gpu: group.gpu_bytes(format, size) as u64,
    }
}

/// Maximum tokens of a chunk.
fn chunk(context: u32) -> u64 {
    u64::from(context).min(Session::MAX_CHUNK as u64)
}

/// Index of a tensor's layer, the output layer being the last. `None` means that it is in no layer
/// that is loaded.
pub(super) fn layer_of(tensor: &TensorInfo, config: &Config) -> Option<usize> {
    let output = config.layers() - 1;
    let mut parts = tensor.name.split('.');
    match parts.next()? {
        "blk" => parts.next()?.parse().ok(),
        "output" | "output_norm" => Some(output),
        _ => None,
    }
    .filter(|at| *at < config.n_layers || *at == output)
}

/// Whether a tensor is the token embedding, which is also the output layer of a file without one.
pub(super) fn is_embedding(tensor: &TensorInfo) -> bool {
    tensor.name.split('.').next() == Some("token_embd")
}

/// Whether a tensor is a vector, not a matrix.
pub(super) fn is_vector(tensor: &TensorInfo) -> bool {
    tensor.shape.iter().filter(|n| **n > 1).count() < 2
}

/// Bytes of one tensor: matrices in the file's format, since packed weights have the same size;
/// vectors in f32.
fn layer(tensor: &TensorInfo) -> Layer {
    let bytes = if is_vector(tensor) {
        tensor.shape.iter().product::<u64>() * F32
    } else {
        tensor.byte_len as u64
    };
    Layer {
        cpu: bytes,
        gpu: bytes.next_multiple_of(GPU_ALIGNMENT),
    }
}
