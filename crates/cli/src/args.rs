//! What can be typed after `hearth`.

use clap::{Args, Parser, Subcommand};
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
    Devices(Json),
    /// List the models there are
    List,
    /// Download a model from the catalog
    Pull(Pull),
    /// Check that everything works, and say what does not
    Doctor(Doctor),
    /// Serve the desktop window: requests on standard input, events on standard output
    #[command(hide = true)]
    Worker,
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
    /// A device that `hearth devices` shows [default: the fastest]
    #[arg(long, value_name = "ID")]
    pub device: Option<String>,
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
    /// Read special tokens (<|im_start|>) as what they are, not as text
    #[arg(long)]
    pub special: bool,
    #[command(flatten)]
    pub output: Json,
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
            "devices --json",
            "list",
            "pull m",
            "doctor --json",
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
        check("tokenize m", ErrorKind::MissingRequiredArgument);
        check("tokenize m text --file f", ErrorKind::ArgumentConflict);
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
