//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use hearth_engine::training::export_types;
use hearth_protocol::{AdapterChoice, Checkpointing, DraftChoice, GpuLayers, KvType, LogitBias, Precision, Schedule};
use serde::de::DeserializeOwned;
use std::path::PathBuf;

/// Chat with language models on your own machine.
#[derive(Debug, Parser)]
#[command(name = "hearth", version, max_term_width = 100)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer one prompt
    Run(Run),
    /// Chat in the terminal
    Chat(Chat),
    /// Measure prefill and decode speed
    Bench(Bench),
    /// Measure perplexity on a text
    Perplexity(Perplexity),
    /// Tokenize a text
    Tokenize(Tokenize),
    /// List the devices that models can run on
    Devices(Devices),
    /// Show the memory plan of a model without loading it
    Plan(Plan),
    /// List models
    List,
    /// Fine-tune a model on examples; the result is an adapter
    Train(Box<Train>),
    /// Export an adapter for other programs, or merge it into its model
    Export(Export),
    /// Download a model from the catalog, the Hugging Face hub, Ollama's registry or an address
    Pull(Pull),
    /// Check the installation and the numerical accuracy
    Doctor(Doctor),
    /// Serve the desktop window: requests on standard input, events on standard output
    #[command(hide = true)]
    Worker,
    /// Query the graphics drivers, or read files, and print the result as JSON; a broken driver or
    /// file may crash this process
    #[command(hide = true)]
    Probe(Probe),
}

/// `hearth devices`.
#[derive(Debug, Args)]
pub struct Devices {
    /// Run the device check first: compare results with the CPU's and benchmark [default: every GPU
    /// that is not software]
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "")]
    pub check: Option<String>,
    #[command(flatten)]
    pub output: Json,
}

/// `hearth probe`.
#[derive(Debug, Args)]
pub struct Probe {
    /// Check this GPU, by its index in the driver's list, or `cpu`, instead
    #[arg(long, value_name = "N|cpu")]
    pub check: Option<String>,
    /// Benchmark with a model that is small enough for a software driver
    #[arg(long)]
    pub small: bool,
    /// Read the files named on standard input, one JSON object per line, and print their metadata
    /// instead
    #[arg(long, conflicts_with_all = ["check", "small"])]
    pub files: bool,
    #[command(flatten)]
    pub output: Json,
}

/// A model, and how to load it.
#[derive(Debug, Args)]
pub struct Load {
    /// A GGUF file, or the name of a model in `hearth list`
    pub model: String,
    #[command(flatten)]
    pub options: LoadOptions,
}

/// Settings for loading a model.
#[derive(Debug, Args)]
pub struct LoadOptions {
    /// CPU threads [default: one per physical core; decode uses fewer if they are as fast]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// A device in `hearth devices`, or several GPUs separated by commas [default: automatic]
    #[arg(long, value_name = "ID")]
    pub device: Option<String>,
    /// The build of Hearth that uses the GPU: portable, vulkan, cuda or rocm [default: the fastest
    /// measured]
    #[arg(long, value_name = "BUILD")]
    pub build: Option<String>,
    /// Layers on GPUs, counted from the output layer backwards: a number, auto (as many as fit) or
    /// all
    #[arg(long, value_name = "N", default_value_t, hide_default_value = true)]
    pub gpu_layers: GpuLayers,
    /// Type of the KV cache: f16, or q8_0 in half the memory
    #[arg(long, value_name = "TYPE", default_value_t, hide_default_value = true)]
    pub kv: KvType,
}

/// `hearth plan`.
#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub load: Load,
    #[command(flatten)]
    pub context: Context,
    #[command(flatten)]
    pub draft: Draft,
    /// Plan for a hypothetical GPU with this many bytes
    #[arg(long, value_name = "BYTES", conflicts_with = "device")]
    pub assume_gpu: Option<u64>,
    /// Measure this machine for the expected decode speed, unless that is on record
    #[arg(long, conflicts_with = "assume_gpu")]
    pub speed: bool,
    #[command(flatten)]
    pub output: Json,
}

/// Context size.
#[derive(Debug, Args)]
pub struct Context {
    /// Context in tokens [default: the model's own, at most 8192]
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u32).range(1..))]
    pub ctx: Option<u32>,
}

/// `--json`.
#[derive(Debug, Args)]
pub struct Json {
    /// Print one JSON object as the last line
    #[arg(long)]
    pub json: bool,
}

/// `--draft`.
#[derive(Debug, Args)]
pub struct Draft {
    /// Speculative decoding: draft with a smaller MODEL, ngram (n-gram lookup), self or self:LAYERS
    /// (the model's own first layers), auto (ngram) or none. Answers on a CPU stay the same
    /// [default: auto; bench: none]
    #[arg(long, value_name = "MODEL|ngram|self[:LAYERS]|auto|none")]
    pub draft: Option<DraftChoice>,
    /// Fixed draft length in tokens [default: chosen by measured speed]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub draft_tokens: Option<u32>,
}

/// Sampling parameters [default: the model's own].
#[derive(Debug, Default, Args)]
pub struct SamplingArgs {
    /// Temperature; 0 is greedy
    #[arg(long, value_name = "T", value_parser = non_negative)]
    pub temp: Option<f32>,
    /// Top-k sampling: keep the K most likely tokens; 0 keeps all
    #[arg(long, value_name = "K")]
    pub top_k: Option<u32>,
    /// Top-p (nucleus) sampling: keep the most likely tokens whose probabilities add up to P
    #[arg(long, value_name = "P", value_parser = fraction)]
    pub top_p: Option<f32>,
    /// Min-p sampling: drop tokens less likely than P times the most likely one
    #[arg(long, value_name = "P", value_parser = fraction)]
    pub min_p: Option<f32>,
    /// Random seed; the same seed gives the same answer [default: random]
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub penalties: PenaltyArgs,
    #[command(flatten)]
    pub more: MoreSamplingArgs,
}

/// Penalties of repetitions.
#[derive(Debug, Default, Args)]
pub struct PenaltyArgs {
    /// Repetition penalty: divide the logits of recent tokens by X; 1 disables it
    #[arg(long, value_name = "X", value_parser = positive)]
    pub repeat_penalty: Option<f32>,
    /// Window of the penalties, in tokens
    #[arg(long, value_name = "N")]
    pub repeat_last_n: Option<u32>,
    /// Presence penalty: subtract X from the logits of recent tokens
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = finite)]
    pub presence_penalty: Option<f32>,
    /// Frequency penalty: subtract X for each recent occurrence
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = finite)]
    pub frequency_penalty: Option<f32>,
    /// DRY: scale of the penalty for tokens that would continue a repetition; 0 disables it
    #[arg(long, value_name = "X", value_parser = up_to_100)]
    pub dry_multiplier: Option<f32>,
    /// DRY: growth of the penalty with each further repeated token, 1 or more
    #[arg(long, value_name = "X", value_parser = up_to_100)]
    pub dry_base: Option<f32>,
    /// DRY: length in tokens from which a repetition is penalized
    #[arg(long, value_name = "N")]
    pub dry_allowed_length: Option<u32>,
    /// DRY: window in tokens; 0 disables it
    #[arg(long, value_name = "N")]
    pub dry_penalty_last_n: Option<u32>,
    /// DRY: a text at which a repetition ends, in place of the default ones; \n is a line break,
    /// none means no breakers; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub dry_sequence_breaker: Vec<String>,
}

/// Further sampling parameters.
#[derive(Debug, Default, Args)]
pub struct MoreSamplingArgs {
    /// Typical-p sampling: keep the tokens whose surprise is closest to the expected one, until
    /// their probabilities add up to P; 1 disables it
    #[arg(long, value_name = "P", value_parser = fraction)]
    pub typical: Option<f32>,
    /// Top-nσ sampling: keep tokens within N standard deviations of the highest logit; 0 or less
    /// disables it
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = finite)]
    pub top_nsigma: Option<f32>,
    /// XTC: the chance, per token, that the most likely ones are excluded; 0 disables it
    #[arg(long, value_name = "P", value_parser = fraction)]
    pub xtc_probability: Option<f32>,
    /// XTC: exclude all tokens at least this likely but the least likely of them
    #[arg(long, value_name = "P", value_parser = fraction)]
    pub xtc_threshold: Option<f32>,
    /// Mirostat: 2 keeps the surprise of the tokens near a target, in place of the other filters; 0
    /// disables it
    #[arg(long, value_name = "0|2", value_parser = mirostat)]
    pub mirostat: Option<bool>,
    /// Mirostat: learning rate eta
    #[arg(long, value_name = "X", value_parser = fraction)]
    pub mirostat_lr: Option<f32>,
    /// Mirostat: target surprise tau, in bits
    #[arg(long, value_name = "X", value_parser = up_to_100)]
    pub mirostat_ent: Option<f32>,
    /// Dynamic temperature: vary the temperature by up to X with the entropy of the tokens; 0
    /// disables it
    #[arg(long, value_name = "X", value_parser = up_to_100)]
    pub dynatemp_range: Option<f32>,
    /// Dynamic temperature: exponent of the normalized entropy
    #[arg(long, value_name = "X", value_parser = up_to_100)]
    pub dynatemp_exp: Option<f32>,
    /// Logit bias: add to the logits of a token, by its id or its text; -inf bans it; may be
    /// repeated
    #[arg(long, value_name = "ID+BIAS|ID-BIAS|TEXT=BIAS", value_parser = logit_bias)]
    pub logit_bias: Vec<LogitBias>,
    /// A text that the answer never contains; case matters; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub ban: Vec<String>,
}

/// Adapters to apply to a model.
#[derive(Debug, Args)]
pub struct Adapters {
    /// An adapter to apply, with its scale [default: 1]; may be repeated
    #[arg(long = "adapter", value_name = "PATH[=SCALE]", value_parser = adapter)]
    pub adapters: Vec<AdapterChoice>,
}

/// The form of answers.
#[derive(Debug, Default, Args)]
#[group(multiple = false)]
pub struct SchemaArgs {
    /// A JSON schema that answers follow
    #[arg(long, value_name = "SCHEMA")]
    pub json_schema: Option<String>,
    /// A file with a JSON schema that answers follow
    #[arg(long, value_name = "PATH")]
    pub json_schema_file: Option<PathBuf>,
}

/// `hearth run`.
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub load: Load,
    /// The prompt
    pub prompt: String,
    /// Maximum tokens to generate [default: until the model stops]
    #[arg(short = 'n', value_name = "N")]
    pub tokens: Option<u32>,
    #[command(flatten)]
    pub sampling: SamplingArgs,
    #[command(flatten)]
    pub adapters: Adapters,
    #[command(flatten)]
    pub context: Context,
    #[command(flatten)]
    pub draft: Draft,
    #[command(flatten)]
    pub schema: SchemaArgs,
    /// Continue the prompt verbatim, without the chat template
    #[arg(long, conflicts_with = "system")]
    pub raw: bool,
    /// The system prompt [default: the model's own]
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    #[command(flatten)]
    pub output: Json,
}

/// `hearth chat`.
#[derive(Debug, Args)]
pub struct Chat {
    #[command(flatten)]
    pub load: Load,
    #[command(flatten)]
    pub sampling: SamplingArgs,
    #[command(flatten)]
    pub adapters: Adapters,
    #[command(flatten)]
    pub context: Context,
    #[command(flatten)]
    pub draft: Draft,
    #[command(flatten)]
    pub schema: SchemaArgs,
    /// The system prompt [default: the model's own]
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
}

/// `hearth bench`.
#[derive(Debug, Args)]
pub struct Bench {
    #[command(flatten)]
    pub load: Load,
    /// Prompt tokens; 0 skips prefill
    #[arg(short = 'p', value_name = "P", default_value_t = 512)]
    pub prompt: u32,
    /// Tokens to generate; 0 skips decode
    #[arg(short = 'n', value_name = "N", default_value_t = 128)]
    pub tokens: u32,
    /// Repetitions; reports the median
    #[arg(short = 'r', value_name = "R", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Tokens in the context before decode
    #[arg(long, value_name = "D", default_value_t = 0)]
    pub depth: u32,
    #[command(flatten)]
    pub context: Context,
    #[command(flatten)]
    pub draft: Draft,
    #[command(flatten)]
    pub adapters: Adapters,
    #[command(flatten)]
    pub output: Json,
}

/// `hearth perplexity`.
#[derive(Debug, Args)]
pub struct Perplexity {
    #[command(flatten)]
    pub load: Load,
    /// A text file in UTF-8
    pub file: PathBuf,
    /// Tokens per chunk
    #[arg(long, value_name = "C", default_value_t = 512, value_parser = clap::value_parser!(u32).range(4..))]
    pub ctx: u32,
    #[command(flatten)]
    pub adapters: Adapters,
    /// Compute in f32 instead of with 8-bit activations; slower
    #[arg(long)]
    pub exact: bool,
    #[command(flatten)]
    pub output: Json,
}

/// `hearth tokenize`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("source").required(true))]
pub struct Tokenize {
    /// A GGUF file, or the name of a model in `hearth list`
    pub model: String,
    /// The text
    #[arg(group = "source")]
    pub text: Option<String>,
    /// A text file
    #[arg(long, value_name = "FILE", group = "source")]
    pub file: Option<PathBuf>,
    /// A file of JSON strings, one per line
    #[arg(long, value_name = "FILE", group = "source")]
    pub lines: Option<PathBuf>,
    /// A JSON list of messages, each with role and content, rendered with the model's chat template
    #[arg(long, value_name = "FILE", group = "source")]
    pub chat: Option<PathBuf>,
    /// A JSON list of tools for the chat template
    #[arg(long, value_name = "FILE", requires = "chat", conflicts_with_all = ["text", "file", "lines"])]
    pub tools: Option<PathBuf>,
    /// Parse special tokens such as <|im_start|> instead of treating them as text
    #[arg(long, conflicts_with = "chat")]
    pub special: bool,
    #[command(flatten)]
    pub output: Json,
}

/// `hearth train`.
#[derive(Debug, Args)]
pub struct Train {
    #[command(flatten)]
    pub load: Load,
    /// Examples: JSONL, JSON, CSV, Parquet, plain text or Markdown
    pub data: PathBuf,
    /// Output folder for the adapter, the checkpoints and the log
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Maximum epochs [default: 3, and up to 8 for small datasets]
    #[arg(long, value_name = "E")]
    pub epochs: Option<f32>,
    /// LoRA rank [default: 16]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..))]
    pub rank: Option<u32>,
    /// LoRA alpha; the adapter's scale is alpha / rank [default: twice the rank]
    #[arg(long, value_name = "A")]
    pub alpha: Option<f32>,
    /// Peak learning rate [default: 0.0002]
    #[arg(long, value_name = "X")]
    pub lr: Option<f32>,
    /// Maximum sequence length in tokens [default: chosen from the data]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(2..))]
    pub seq: Option<u32>,
    /// Batch size [default: chosen from the data]
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: Option<u32>,
    /// Gradient accumulation steps [default: 1 with --batch, else chosen from the data]
    #[arg(long, value_name = "G", value_parser = clap::value_parser!(u32).range(1..))]
    pub accum: Option<u32>,
    /// Target modules, separated by commas: q_proj,v_proj [default: all seven]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub targets: Vec<String>,
    /// Random seed; the same seed on the same machine gives the same run [default: 42]
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Validation split, as a fraction of the examples [default: 0.1]
    #[arg(long, value_name = "F", value_parser = fraction)]
    pub eval_split: Option<f32>,
    /// An adapter to start from
    #[arg(long, value_name = "ADAPTER")]
    pub init: Option<PathBuf>,
    /// Keep the examples in file order
    #[arg(long)]
    pub no_shuffle: bool,
    /// Resume from the checkpoint in DIR, with its original settings
    #[arg(long)]
    pub resume: bool,
    /// Run this many steps without early stopping, unless --epochs or --patience is given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_steps: Option<u32>,
    /// LoRA dropout [default: 0]
    #[arg(long, value_name = "F", value_parser = fraction)]
    pub dropout: Option<f32>,
    /// Rank-stabilized LoRA: the adapter's scale is alpha / sqrt(rank)
    #[arg(long)]
    pub rslora: bool,
    /// Learning rate schedule: cosine, linear or constant [default: cosine]
    #[arg(long, value_name = "HOW", value_parser = enum_value::<Schedule>)]
    pub schedule: Option<Schedule>,
    /// Warm-up, as a fraction of the steps [default: 0.03]
    #[arg(long, value_name = "F", value_parser = fraction)]
    pub warmup: Option<f32>,
    /// AdamW's decoupled weight decay [default: 0]
    #[arg(long, value_name = "F", value_parser = non_negative)]
    pub weight_decay: Option<f32>,
    /// Early stopping: evaluations without improvement; 0 disables it [default: 3]
    #[arg(long, value_name = "N")]
    pub patience: Option<u32>,
    /// Precision: auto, f32 or bf16 [default: auto]
    #[arg(long, value_name = "WHICH", value_parser = enum_value::<Precision>)]
    pub precision: Option<Precision>,
    /// Gradient checkpointing: auto, operations (recompute no layer) or layers (recompute each
    /// layer) [default: auto]
    #[arg(long, value_name = "WHAT", value_parser = enum_value::<Checkpointing>)]
    pub checkpointing: Option<Checkpointing>,
    #[command(flatten)]
    pub flags: DataFlags,
    #[command(flatten)]
    pub output: Json,
}

/// Options of `hearth train` for reading the data.
#[derive(Debug, Args)]
pub struct DataFlags {
    /// Train on prompts, too, not only on answers
    #[arg(long)]
    pub train_on_prompts: bool,
    /// System prompt of conversations in the data that have none; empty for an empty system message
    /// [default: as the chat template says]
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Skip malformed lines instead of refusing the file
    #[arg(long)]
    pub skip_broken: bool,
}

/// The help of `hearth export --type`.
fn quantizations() -> String {
    let types = export_types().join(", ");
    format!("With --to gguf, the quantization: {types}, or `same` as the base model [default: Q8_0]")
}

/// `hearth export`.
#[derive(Debug, Args)]
pub struct Export {
    /// A run's folder, a PEFT folder or a GGUF adapter
    #[arg(value_name = "DIR")]
    pub adapter: PathBuf,
    /// Output format
    #[arg(long, value_enum, value_name = "gguf-lora|peft|gguf", hide_possible_values = true)]
    pub to: ExportAs,
    /// The quantization, with --to gguf.
    #[arg(long = "type", value_name = "TYPE", help = quantizations())]
    pub kind: Option<String>,
    /// The file or folder to write to
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
    /// Reload the export, replay prompts and compare
    #[arg(long)]
    pub verify: bool,
    /// The adapter's base model [default: the base model of its run]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    #[command(flatten)]
    pub output: Json,
}

/// Export format of an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportAs {
    /// A GGUF adapter for llama.cpp and Ollama
    GgufLora,
    /// A folder for Hugging Face PEFT
    Peft,
    /// The whole model with the adapter merged
    Gguf,
}

/// `hearth pull`.
#[derive(Debug, Args)]
pub struct Pull {
    /// A model of the catalog, hf.co/OWNER/REPO[:QUANT], the address of a file or page of the hub,
    /// ollama://NAME[:TAG], or any address that ends in .gguf; a repository may have a LoRA adapter
    pub name: String,
}

/// `hearth doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The model to check [default: the first in `hearth list`]
    pub model: Option<String>,
    /// Only check every gradient against finite differences, on the CPU or on --device
    #[arg(long)]
    pub gradients: bool,
    #[command(flatten)]
    pub options: LoadOptions,
    #[command(flatten)]
    pub output: Json,
}

/// A finite number of at least 0.
fn non_negative(text: &str) -> Result<f32, String> {
    let value: f32 = text.parse().map_err(|_| "not a number".to_owned())?;
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        Err("must be 0 or more".to_owned())
    }
}

/// A number other than NaN and the infinities.
fn finite(text: &str) -> Result<f32, String> {
    let value: f32 = text.parse().map_err(|_| "not a number".to_owned())?;
    if value.is_finite() {
        Ok(value)
    } else {
        Err("must be finite".to_owned())
    }
}

/// A finite number greater than 0.
fn positive(text: &str) -> Result<f32, String> {
    match finite(text)? {
        value if value > 0.0 => Ok(value),
        _ => Err("must be more than 0".to_owned()),
    }
}

/// A number from 0 to 100.
fn up_to_100(text: &str) -> Result<f32, String> {
    match finite(text)? {
        value if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err("must be from 0 to 100".to_owned()),
    }
}

/// Whether Mirostat version 2 is used.
fn mirostat(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "2" => Ok(true),
        "1" => Err("version 1 is not supported; use 2".to_owned()),
        _ => Err("must be 0 or 2".to_owned()),
    }
}

/// Parses ID+BIAS, ID-BIAS or TEXT=BIAS. A text may contain `=`; the bias follows the last one.
fn logit_bias(text: &str) -> Result<LogitBias, String> {
    let parse_bias = |text: &str| match text.parse::<f32>() {
        Ok(f32::NEG_INFINITY) => Ok(None),
        Ok(bias) if bias.abs() <= 1000.0 => Ok(Some(bias)),
        _ => Err("the bias must be -inf or from -1000 to 1000".to_owned()),
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (id, signed_bias) = text.split_at(digits);
    if digits > 0 && signed_bias.starts_with(['+', '-']) {
        let id = id.parse().map_err(|_| "the id is too large".to_owned())?;
        return Ok(LogitBias::Id {
            id,
            bias: parse_bias(signed_bias)?,
        });
    }
    match text.rsplit_once('=') {
        Some((token_text, value)) if !token_text.is_empty() => Ok(LogitBias::Text {
            text: token_text.to_owned(),
            bias: parse_bias(value)?,
        }),
        _ => Err("must be ID+BIAS, ID-BIAS or TEXT=BIAS".to_owned()),
    }
}

/// A number from 0 to 1.
fn fraction(text: &str) -> Result<f32, String> {
    let value: f32 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err("must be from 0 to 1".to_owned())
    }
}

/// Parses PATH or PATH=SCALE. A path may contain `=`; the text after the last one is a scale only
/// if it is a number.
fn adapter(text: &str) -> Result<AdapterChoice, String> {
    let path_and_scale = text
        .rsplit_once('=')
        .and_then(|(path, scale)| Some((path, scale.parse().ok()?)));
    let (path, scale): (&str, f32) = path_and_scale.unwrap_or((text, 1.0));
    if path.is_empty() || !scale.is_finite() {
        return Err("must be PATH or PATH=SCALE".to_owned());
    }
    Ok(AdapterChoice {
        path: path.into(),
        scale,
    })
}

/// The variant of a protocol enum with this serialized name.
fn enum_value<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    fn parse(line: &str) -> Result<Command, ErrorKind> {
        let arguments = std::iter::once("hearth").chain(line.split_whitespace());
        Cli::try_parse_from(arguments)
            .map(|cli| cli.command)
            .map_err(|error| error.kind())
    }

    #[test]
    fn the_command_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_lists_every_quantization() {
        let help = Cli::command()
            .find_subcommand_mut("export")
            .expect("a command")
            .render_help()
            .to_string();
        for quant in hearth_kernels::Quant::ALL {
            assert!(help.contains(quant.name()), "{quant}: {help}");
        }
    }

    #[test]
    fn documented_command_lines_parse() {
        for line in [
            "run m p -n 5 --temp 0 --top-k 40 --top-p 0.9 --min-p 0.05 --seed 1 --json",
            "run m p --repeat-penalty 1.1 --repeat-last-n 64 --presence-penalty -0.5 --frequency-penalty 0.5",
            "run m p --typical 0.9 --top-nsigma -1 --xtc-probability 0.5 --xtc-threshold 0.1",
            "run m p --dry-multiplier 0.8 --dry-base 1.75 --dry-allowed-length 2 --dry-penalty-last-n 1024",
            "run m p --dry-sequence-breaker \\n --dry-sequence-breaker : --ban never --ban ever",
            "run m p --mirostat 2 --mirostat-lr 0.1 --mirostat-ent 5 --dynatemp-range 0.5 --dynatemp-exp 1",
            "run m p --logit-bias 15043+1 --logit-bias 15043-inf --logit-bias a=b=-1.5",
            "chat m --dry-multiplier 0.8 --ban never",
            "run m p --json-schema {}",
            "chat m --json-schema-file f",
            "run m p --raw --threads 2 --device cpu --ctx 512",
            "run m p --system s",
            "run m p --draft small.gguf --draft-tokens 4",
            "bench m --draft self:8 --json",
            "plan m --draft ngram",
            "chat m",
            "bench m -p 512 -n 128 -r 3 --depth 0 --json",
            "perplexity m f --ctx 512 --exact --json",
            "tokenize m text --special --json",
            "tokenize m --file f",
            "tokenize m --lines f",
            "tokenize m --chat f --json",
            "tokenize m --chat f --tools f",
            "devices --json",
            "devices --check",
            "devices --check gpu0 --json",
            "run m p --device gpu0 --build cuda",
            "list",
            "run m p --adapter a --adapter b=0.5",
            "chat m --adapter a",
            "perplexity m f --adapter a --json",
            "train m d --out o --epochs 2 --rank 8 --alpha 16 --lr 1e-4 --seq 512 --batch 2 --accum 4 --targets \
             q_proj,v_proj",
            "train m d --out o --seed 1 --eval-split 0 --init a --no-shuffle --resume --max-steps 5 --json",
            "train m d --out o --schedule linear --precision f32 --checkpointing layers",
            "export d --to gguf-lora --out o --verify --json",
            "export d --to gguf --type Q4_K_M --out o",
            "export d --to peft --out o",
            "pull m",
            "doctor --json",
            "doctor --gradients",
            "doctor --gradients --device gpu0 --json",
            "worker",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_logit_bias_names_a_token_or_a_text() {
        let id_bias = |id, bias| Ok(LogitBias::Id { id, bias });
        let text_bias = |text: &str, bias| {
            Ok(LogitBias::Text {
                text: text.to_owned(),
                bias,
            })
        };
        assert_eq!(logit_bias("15043+1"), id_bias(15043, Some(1.0)));
        assert_eq!(logit_bias("15043-1.5"), id_bias(15043, Some(-1.5)));
        assert_eq!(logit_bias("0-inf"), id_bias(0, None));
        assert_eq!(logit_bias(" Hello=-inf"), text_bias(" Hello", None));
        assert_eq!(logit_bias("12=3"), text_bias("12", Some(3.0)));
        assert_eq!(logit_bias("a=b=2"), text_bias("a=b", Some(2.0)));
    }

    #[test]
    fn invalid_usage_is_refused() {
        let check = |line, expected| assert_eq!(parse(line).err(), Some(expected), "{line}");
        check("", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand);
        check("frobnicate", ErrorKind::InvalidSubcommand);
        check("run m", ErrorKind::MissingRequiredArgument);
        check("run m p --raw --system s", ErrorKind::ArgumentConflict);
        check(
            "run m p --json-schema {} --json-schema-file f",
            ErrorKind::ArgumentConflict,
        );
        check("run m p --temp -1", ErrorKind::UnknownArgument);
        check("run m p --temp=-1", ErrorKind::ValueValidation);
        check("run m p --temp warm", ErrorKind::ValueValidation);
        check("run m p --top-p 1.5", ErrorKind::ValueValidation);
        check("run m p --typical 1.5", ErrorKind::ValueValidation);
        check("run m p --top-nsigma inf", ErrorKind::ValueValidation);
        check("run m p --repeat-penalty 0", ErrorKind::ValueValidation);
        check("run m p --mirostat 1", ErrorKind::ValueValidation);
        check("run m p --dry-multiplier 101", ErrorKind::ValueValidation);
        check("run m p --logit-bias 5", ErrorKind::ValueValidation);
        check("run m p --logit-bias 5+inf", ErrorKind::ValueValidation);
        check("run m p --logit-bias 5+nan", ErrorKind::ValueValidation);
        check("run m p --logit-bias =1", ErrorKind::ValueValidation);
        check("run m p --logit-bias 99999999999+1", ErrorKind::ValueValidation);
        check("run m p --threads 0", ErrorKind::ValueValidation);
        check("perplexity m f --ctx 3", ErrorKind::ValueValidation);
        check("bench m -r 0", ErrorKind::ValueValidation);
        check("run m p --adapter =2", ErrorKind::ValueValidation);
        check("train m d", ErrorKind::MissingRequiredArgument);
        check("train m d --out o --schedule up", ErrorKind::ValueValidation);
        check("export d --out o", ErrorKind::MissingRequiredArgument);
        check("tokenize m", ErrorKind::MissingRequiredArgument);
        check("tokenize m text --file f", ErrorKind::ArgumentConflict);
        check("tokenize m text --chat f", ErrorKind::ArgumentConflict);
        check("tokenize m --chat f --special", ErrorKind::ArgumentConflict);
        check("tokenize m text --tools f", ErrorKind::ArgumentConflict);
        check("tokenize m --tools f", ErrorKind::MissingRequiredArgument);
        check("devices --loud", ErrorKind::UnknownArgument);
    }

    #[test]
    fn bench_defaults_match_the_tables() {
        let Ok(Command::Bench(bench)) = parse("bench m") else {
            panic!("bench parses")
        };
        assert_eq!((bench.prompt, bench.tokens, bench.runs, bench.depth), (512, 128, 3, 0));
    }
}
