//! What can be typed after `hearth`.

use clap::{Args, Parser, Subcommand, ValueEnum};
use hearth_protocol::{AdapterChoice, Checkpointing, GpuLayers, KvType, Precision, Schedule};
use serde::de::DeserializeOwned;
use std::path::PathBuf;

/// Chat with language models on your own machine.
#[derive(Debug, Parser)]
#[command(name = "hearth", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer one prompt
    Run(Run),
    /// Have a conversation in the terminal
    Chat(Chat),
    /// Measure how fast a model reads and writes
    Bench(Bench),
    /// Measure how well a model predicts a text
    Perplexity(Perplexity),
    /// Show the tokens of a text
    Tokenize(Tokenize),
    /// List what models can run on
    Devices(Devices),
    /// Say where a model's bytes would go, without loading it
    Plan(Plan),
    /// List the models there are
    List,
    /// Teach a model from examples: the result is an adapter
    Train(Box<Train>),
    /// Write an adapter for other programs, or a whole model with it inside
    Export(Export),
    /// Download a model from the catalog
    Pull(Pull),
    /// Check that everything works, and say what does not
    Doctor(Doctor),
    /// Serve the desktop window: requests on standard input, events on standard output
    #[command(hide = true)]
    Worker,
    /// Ask the graphics drivers what they can do, or read files, and print it as JSON; a broken one ends this process
    #[command(hide = true)]
    Probe(Probe),
}

/// `hearth devices`.
#[derive(Debug, Args)]
pub struct Devices {
    /// Compare what a device computes with what the processor does, and measure it, first [default: every GPU but those in software]
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "")]
    pub check: Option<String>,
    #[command(flatten)]
    pub output: Json,
}

/// `hearth probe`.
#[derive(Debug, Args)]
pub struct Probe {
    /// Check the GPU of this number in the driver's list, or `cpu`, instead
    #[arg(long, value_name = "N|cpu")]
    pub check: Option<String>,
    /// Measure it with a model that a driver in software gets through
    #[arg(long)]
    pub small: bool,
    /// Read files that standard input names instead, one JSON object a line, and print what they are
    #[arg(long, conflicts_with_all = ["check", "small"])]
    pub files: bool,
    #[command(flatten)]
    pub output: Json,
}

/// Which model, and how it is loaded.
#[derive(Debug, Args)]
pub struct Load {
    /// A GGUF file, or the name of a model that `hearth list` shows
    pub model: String,
    #[command(flatten)]
    pub how: How,
}

/// How a model is loaded.
#[derive(Debug, Args)]
pub struct How {
    /// CPU threads [default: one a physical core]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// A device that `hearth devices` shows, or GPUs with commas between [default: the GPUs with memory of their own]
    #[arg(long, value_name = "ID")]
    pub device: Option<String>,
    /// The build of Hearth that uses the GPU: portable, vulkan, cuda or rocm [default: the fastest that was measured]
    #[arg(long, value_name = "BUILD")]
    pub build: Option<String>,
    /// Layers on GPUs, counted from the output layer backwards: a number, auto (as many as fit) or all
    #[arg(long, value_name = "N", default_value_t, hide_default_value = true)]
    pub gpu_layers: GpuLayers,
    /// How the KV cache is kept: f16, or q8_0 in half the memory
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
    /// Plan for a GPU of this many bytes that is not there
    #[arg(long, value_name = "BYTES", conflicts_with = "device")]
    pub assume_gpu: Option<u64>,
    #[command(flatten)]
    pub output: Json,
}

/// Room for tokens.
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

/// How tokens are chosen; what is not given is the model's own default.
#[derive(Debug, Args)]
pub struct Sampling {
    /// 0 takes the likeliest token always
    #[arg(long, value_name = "T", value_parser = not_negative)]
    pub temp: Option<f32>,
    /// Keep the K likeliest tokens; 0 keeps all
    #[arg(long, value_name = "K")]
    pub top_k: Option<u32>,
    /// Keep the likeliest tokens whose probabilities reach P together
    #[arg(long, value_name = "P", value_parser = share)]
    pub top_p: Option<f32>,
    /// Drop tokens less likely than this share of the likeliest
    #[arg(long, value_name = "P", value_parser = share)]
    pub min_p: Option<f32>,
    /// The same seed gives the same answer [default: a new one each time]
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
}

/// Adapters over a model.
#[derive(Debug, Args)]
pub struct Adapters {
    /// An adapter to answer with, and what it counts for [default: 1]; may be given several times
    #[arg(long = "adapter", value_name = "PATH[=SCALE]", value_parser = adapter)]
    pub adapters: Vec<AdapterChoice>,
}

/// `hearth run`.
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub load: Load,
    /// What to answer
    pub prompt: String,
    /// The most tokens to answer with [default: until the model ends]
    #[arg(short = 'n', value_name = "N")]
    pub tokens: Option<u32>,
    #[command(flatten)]
    pub sampling: Sampling,
    #[command(flatten)]
    pub adapters: Adapters,
    #[command(flatten)]
    pub context: Context,
    /// Go on from the prompt as it is, without the chat template
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
    pub sampling: Sampling,
    #[command(flatten)]
    pub adapters: Adapters,
    #[command(flatten)]
    pub context: Context,
    /// The system prompt [default: the model's own]
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
}

/// `hearth bench`.
#[derive(Debug, Args)]
pub struct Bench {
    #[command(flatten)]
    pub load: Load,
    /// Tokens of the prompt; 0 leaves reading out
    #[arg(short = 'p', value_name = "P", default_value_t = 512)]
    pub prompt: u32,
    /// Tokens to write; 0 leaves writing out
    #[arg(short = 'n', value_name = "N", default_value_t = 128)]
    pub tokens: u32,
    /// How often; the median counts
    #[arg(short = 'r', value_name = "R", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Tokens in the context before writing begins
    #[arg(long, value_name = "D", default_value_t = 0)]
    pub depth: u32,
    #[command(flatten)]
    pub context: Context,
    #[command(flatten)]
    pub output: Json,
}

/// `hearth perplexity`.
#[derive(Debug, Args)]
pub struct Perplexity {
    #[command(flatten)]
    pub load: Load,
    /// A text in UTF-8
    pub file: PathBuf,
    /// Tokens a chunk
    #[arg(long, value_name = "C", default_value_t = 512, value_parser = clap::value_parser!(u32).range(4..))]
    pub ctx: u32,
    #[command(flatten)]
    pub adapters: Adapters,
    /// Expand the weights rather than round the activations to 8 bits: slower, and what training computes
    #[arg(long)]
    pub exact: bool,
    #[command(flatten)]
    pub output: Json,
}

/// `hearth tokenize`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("source").required(true))]
pub struct Tokenize {
    /// A GGUF file, or the name of a model that `hearth list` shows
    pub model: String,
    /// The text
    #[arg(group = "source")]
    pub text: Option<String>,
    /// A file with the text
    #[arg(long, value_name = "FILE", group = "source")]
    pub file: Option<PathBuf>,
    /// A file with a text a line, each a JSON string
    #[arg(long, value_name = "FILE", group = "source")]
    pub lines: Option<PathBuf>,
    /// A JSON list of messages, each with a role and a content: what the model's chat template makes of them
    #[arg(long, value_name = "FILE", group = "source")]
    pub chat: Option<PathBuf>,
    /// A JSON list of tools that the model may call in the conversation
    #[arg(long, value_name = "FILE", requires = "chat", conflicts_with_all = ["text", "file", "lines"])]
    pub tools: Option<PathBuf>,
    /// Read special tokens (<|im_start|>) as what they are, not as text
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
    /// The folder that gets the adapter, the checkpoints and the log
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Times through the examples, at most [default: 3, and up to 8 where there are few]
    #[arg(long, value_name = "E")]
    pub epochs: Option<f32>,
    /// Rank of the adapters [default: 16]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..))]
    pub rank: Option<u32>,
    /// An adapter counts for alpha / rank [default: twice the rank]
    #[arg(long, value_name = "A")]
    pub alpha: Option<f32>,
    /// The highest learning rate [default: 0.0002]
    #[arg(long, value_name = "X")]
    pub lr: Option<f32>,
    /// Tokens an example may have [default: chosen from the data]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(2..))]
    pub seq: Option<u32>,
    /// Examples that go through the model together [default: chosen from the data]
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: Option<u32>,
    /// Batches a step [default: 1 where --batch is given, else chosen from the data]
    #[arg(long, value_name = "G", value_parser = clap::value_parser!(u32).range(1..))]
    pub accum: Option<u32>,
    /// Linears to adapt, with commas between: q_proj,v_proj [default: all seven]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub targets: Vec<String>,
    /// The same seed on the same machine gives the same run [default: 42]
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Share of the examples that is held out and measured with [default: 0.1]
    #[arg(long, value_name = "F", value_parser = share)]
    pub eval_split: Option<f32>,
    /// An adapter to begin with
    #[arg(long, value_name = "ADAPTER")]
    pub init: Option<PathBuf>,
    /// Take the examples in the order of the file
    #[arg(long)]
    pub no_shuffle: bool,
    /// Go on from the checkpoint in DIR, with the settings of then
    #[arg(long)]
    pub resume: bool,
    /// Make so many steps, and no early stop, unless --epochs or --patience ask for one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_steps: Option<u32>,
    /// Share of an adapter's inputs that is dropped [default: 0]
    #[arg(long, value_name = "F", value_parser = share)]
    pub dropout: Option<f32>,
    /// Rank-stabilised scaling: an adapter counts for alpha / sqrt(rank)
    #[arg(long)]
    pub rslora: bool,
    /// How the learning rate falls: cosine, linear or constant [default: cosine]
    #[arg(long, value_name = "HOW", value_parser = named::<Schedule>)]
    pub schedule: Option<Schedule>,
    /// Share of the steps in which the learning rate rises [default: 0.03]
    #[arg(long, value_name = "F", value_parser = share)]
    pub warmup: Option<f32>,
    /// AdamW's decoupled weight decay [default: 0]
    #[arg(long, value_name = "F", value_parser = not_negative)]
    pub weight_decay: Option<f32>,
    /// Evaluations without a better loss after which the run ends; 0: never [default: 3]
    #[arg(long, value_name = "N")]
    pub patience: Option<u32>,
    /// Factors of the products: auto, f32 or bf16 [default: auto]
    #[arg(long, value_name = "WHICH", value_parser = named::<Precision>)]
    pub precision: Option<Precision>,
    /// What is kept for the backward: auto, operations or layers [default: auto]
    #[arg(long, value_name = "WHAT", value_parser = named::<Checkpointing>)]
    pub checkpointing: Option<Checkpointing>,
    /// Learn from prompts too, not only from answers
    #[arg(long)]
    pub train_on_prompts: bool,
    /// Leave out lines that cannot be read, instead of refusing the file
    #[arg(long)]
    pub skip_broken: bool,
    #[command(flatten)]
    pub output: Json,
}

/// `hearth export`.
#[derive(Debug, Args)]
pub struct Export {
    /// A run's folder, a PEFT folder or a GGUF adapter
    #[arg(value_name = "DIR")]
    pub adapter: PathBuf,
    /// What to write
    #[arg(long, value_enum, value_name = "gguf-lora|peft|gguf", hide_possible_values = true)]
    pub to: ExportAs,
    /// With --to gguf, the type of the weights, such as F16, Q8_0, Q6_K, Q5_K_M, Q4_K_M, IQ4_NL, IQ4_XS or Q4_0, or `same`: as the model has them [default: Q8_0]
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// The file or folder to write
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
    /// Read it again, replay prompts and compare
    #[arg(long)]
    pub verify: bool,
    /// The model that the adapter belongs to [default: as its run says]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    #[command(flatten)]
    pub output: Json,
}

/// What an adapter is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportAs {
    /// For llama.cpp and Ollama
    GgufLora,
    /// For Hugging Face's PEFT
    Peft,
    /// The whole model with the adapter in its weights
    Gguf,
}

/// `hearth pull`.
#[derive(Debug, Args)]
pub struct Pull {
    /// The name of a model in the catalog
    pub name: String,
}

/// `hearth doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The model to measure with [default: the first that `hearth list` shows]
    pub model: Option<String>,
    /// Check every gradient against finite differences on this machine, on the processor or on --device, and nothing else
    #[arg(long)]
    pub gradients: bool,
    #[command(flatten)]
    pub how: How,
    #[command(flatten)]
    pub output: Json,
}

fn not_negative(text: &str) -> Result<f32, String> {
    let value: f32 = text.parse().map_err(|_| "not a number".to_owned())?;
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        Err("has to be 0 or more".to_owned())
    }
}

fn share(text: &str) -> Result<f32, String> {
    let value: f32 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err("has to be from 0 to 1".to_owned())
    }
}

/// PATH, or PATH=SCALE. A path may itself have an `=`: what follows the last one is a scale only if it is a number.
fn adapter(text: &str) -> Result<AdapterChoice, String> {
    let scaled = text
        .rsplit_once('=')
        .and_then(|(path, scale)| Some((path, scale.parse().ok()?)));
    let (path, scale): (&str, f32) = scaled.unwrap_or((text, 1.0));
    if path.is_empty() || !scale.is_finite() {
        return Err("has to be a path, or a path, = and a number".to_owned());
    }
    Ok(AdapterChoice {
        path: path.into(),
        scale,
    })
}

/// One of a few names, as the protocol has them.
fn named<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    fn parse(line: &str) -> Result<Command, ErrorKind> {
        let words = std::iter::once("hearth").chain(line.split_whitespace());
        Cli::try_parse_from(words)
            .map(|cli| cli.command)
            .map_err(|error| error.kind())
    }

    #[test]
    fn the_commands_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn everything_that_scripts_type_is_understood() {
        for line in [
            "run m p -n 5 --temp 0 --top-k 40 --top-p 0.9 --min-p 0.05 --seed 1 --json",
            "run m p --raw --threads 2 --device cpu --ctx 512",
            "run m p --system s",
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
            "train m d --out o --epochs 2 --rank 8 --alpha 16 --lr 1e-4 --seq 512 --batch 2 --accum 4 --targets q_proj,v_proj",
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
    fn wrong_usage_is_refused() {
        let check = |line, expected| assert_eq!(parse(line).err(), Some(expected), "{line}");
        check("", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand);
        check("frobnicate", ErrorKind::InvalidSubcommand);
        check("run m", ErrorKind::MissingRequiredArgument);
        check("run m p --raw --system s", ErrorKind::ArgumentConflict);
        check("run m p --temp -1", ErrorKind::UnknownArgument);
        check("run m p --temp=-1", ErrorKind::ValueValidation);
        check("run m p --temp warm", ErrorKind::ValueValidation);
        check("run m p --top-p 1.5", ErrorKind::ValueValidation);
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
    fn bench_measures_as_the_tables_say() {
        let Ok(Command::Bench(bench)) = parse("bench m") else {
            panic!("bench is understood")
        };
        assert_eq!((bench.prompt, bench.tokens, bench.runs, bench.depth), (512, 128, 3, 0));
    }
}
