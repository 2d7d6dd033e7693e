//! `cargo xtask measure`: one measurement on the CPU, for `bench/compare.py` and `bench/train.py`.

use super::hearth::{Bench, Hearth};
use super::llama_completion::{LlamaCompletion, decode_speed};
use super::llama_cpp::LlamaBench;
use super::process_run::run_measured;
use super::reports::{BenchReport, LlamaResult, TrainReport, parse};
use super::stats::median;
use crate::process::Outcome;
use serde::Serialize;
use std::path::Path;

/// One measured value.
#[derive(Debug, PartialEq, Serialize)]
struct Sample {
    what: What,
    threads: usize,
    value: f64,
}

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum What {
    /// Tokens per second.
    Speed,
    /// Seconds from the start of the process to its end.
    Start,
    /// Maximum resident set size in MB.
    Memory,
}

/// Measures as the arguments say and prints one JSON object per value.
///
/// # Errors
/// If an argument is invalid, or the program fails or reports something else.
pub fn samples(arguments: &[String]) -> Outcome {
    let [program, executable, model, rest @ ..] = arguments else {
        return Err(
            "Name what to measure (hearth, llama.cpp, llama-completion or train), the executable and the model."
                .to_owned(),
        );
    };
    let (executable, model) = (Path::new(executable), Path::new(model));
    if program == "train" {
        return train(executable, model, rest);
    }
    let request = Request::read(rest)?;
    let samples = match program.as_str() {
        "hearth" if request.repack.is_some() || request.attention.is_some() => {
            return Err("hearth has neither --repack, an option of llama.cpp, nor --attention.".to_owned());
        }
        "hearth" => hearth(&Hearth::new(executable), model, &request)?,
        "llama.cpp" => {
            let bench = LlamaBench::new(executable).with(request.options());
            llama_cpp(&bench, model, &request)?
        }
        "llama-completion" => llama_completion(&LlamaCompletion::new(executable), model, &request)?,
        other => {
            return Err(format!(
                "{other} cannot be measured: name hearth, llama.cpp, llama-completion or train."
            ));
        }
    };
    for sample in samples {
        println!("{}", json(&sample)?);
    }
    Ok(())
}

/// Trains with `hearth train` on the data and to the folder that are named first, and prints its
/// report.
fn train(executable: &Path, model: &Path, arguments: &[String]) -> Outcome {
    let [data, out, options @ ..] = arguments else {
        return Err("Name the data and the folder of the run.".to_owned());
    };
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut command = Hearth::new(executable).train(model, Path::new(data), Path::new(out), &options);
    let run = run_measured(&mut command)?;
    let report: TrainReport = parse("hearth train", run.output.last_line())?;
    println!("{}", json(&report)?);
    Ok(())
}

fn json(value: &impl Serialize) -> Outcome<String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}

/// A measurement on the CPU.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    threads: Vec<usize>,
    /// Tokens of a prompt.
    prefill: usize,
    /// Tokens to generate.
    decode: usize,
    /// Tokens in the KV cache before either.
    depth: usize,
    /// The type of the KV cache.
    kv: Option<String>,
    /// Words of a prompt, a token each: measures a process that generates one token.
    start: Option<String>,
    /// The value of llama-bench's `--repack`.
    repack: Option<String>,
    /// The value of `--attention` of `bench/openvino_bench.py`.
    attention: Option<String>,
    /// The path of a LoRA adapter.
    adapter: Option<String>,
}

/// Longest prompt, in tokens, that is measured several times.
const SHORT: usize = 256;

impl Request {
    fn read(arguments: &[String]) -> Outcome<Self> {
        let (mut request, mut rest) = (Self::default(), arguments.iter());
        while let Some(argument) = rest.next() {
            let value = rest.next().ok_or_else(|| format!("{argument} requires a value."))?;
            let number = || {
                value
                    .parse()
                    .map_err(|_| format!("{argument} requires a number, not {value}."))
            };
            match argument.as_str() {
                "--prefill" => request.prefill = number()?,
                "--decode" => request.decode = number()?,
                "--depth" => request.depth = number()?,
                "--kv" => request.kv = Some(value.clone()),
                "--start" => request.start = Some(value.clone()),
                "--repack" => request.repack = Some(value.clone()),
                "--attention" => request.attention = Some(value.clone()),
                "--adapter" => request.adapter = Some(value.clone()),
                "--threads" => {
                    let threads = value.split(',').map(str::parse).collect::<Result<_, _>>();
                    request.threads = threads.map_err(|_| format!("{value} is not a list of thread counts."))?;
                }
                other => return Err(format!("Unknown option {other}; run `cargo xtask help` for a list.")),
            }
        }
        let selected = [request.prefill > 0, request.decode > 0, request.start.is_some()];
        match (
            selected.into_iter().filter(|is_selected| *is_selected).count(),
            request.threads.is_empty(),
        ) {
            (1, false) => Ok(request),
            _ => Err("Name --threads, and one of --prefill, --decode and --start.".to_owned()),
        }
    }

    /// Options of llama-bench, of ik_bench and of openvino_bench.py.
    fn options(&self) -> Vec<String> {
        let options = [
            ("--repack", &self.repack),
            ("--attention", &self.attention),
            ("--lora", &self.adapter),
        ];
        let pairs = options.map(|(name, value)| Some([name.to_owned(), value.clone()?]));
        pairs.into_iter().flatten().flatten().collect()
    }

    /// Repetitions, of which the median counts: short measurements are repeated.
    fn repetitions(&self) -> usize {
        let is_short = (1..=SHORT).contains(&self.prefill) || self.decode > 0;
        if is_short && self.depth == 0 { 3 } else { 1 }
    }
}

fn hearth(hearth: &Hearth, model: &Path, request: &Request) -> Outcome<Vec<Sample>> {
    let mut samples = Vec::new();
    for &threads in &request.threads {
        if let Some(words) = &request.start {
            samples.extend(started(&mut hearth.run(model, words, threads), threads)?);
            continue;
        }
        let bench = Bench {
            prompt: request.prefill,
            generated: request.decode,
            repetitions: request.repetitions(),
            depth: request.depth,
            kv: request.kv.as_deref(),
            adapter: request.adapter.as_deref(),
            threads: Some(threads),
            device: "cpu",
            ..Bench::default()
        };
        let run = run_measured(&mut hearth.bench(model, &bench))?;
        let report: BenchReport = parse("hearth bench", run.output.last_line())?;
        let speed = if request.prefill > 0 {
            report.prompt_tok_s
        } else {
            report.gen_tok_s
        };
        samples.push(Sample {
            what: What::Speed,
            threads,
            value: speed.ok_or("`hearth bench` measured nothing.")?,
        });
    }
    Ok(samples)
}

/// Measures all thread counts in one process, so that the tokens before the measured ones are
/// processed once.
fn llama_cpp(llama: &LlamaBench, model: &Path, request: &Request) -> Outcome<Vec<Sample>> {
    if let Some(words) = &request.start {
        let threads = *request.threads.iter().max().ok_or("There is no thread count.")?;
        let tokens = words.split_whitespace().count();
        return started(&mut llama.start(model, tokens, threads), threads);
    }
    let Request {
        threads,
        prefill,
        decode,
        depth,
        kv,
        ..
    } = request;
    // Decode at depth is repeated as well, because the tokens before it are processed only once.
    let repetitions = if *decode > 0 { 3 } else { request.repetitions() };
    let kv = kv.as_deref().unwrap_or("f16");
    let run = run_measured(&mut llama.on_cpu(model, [*prefill, *decode, *depth, repetitions], kv, threads))?;
    let lines = run.output.stdout.lines().filter(|line| line.starts_with('{'));
    let results = lines
        .map(|line| parse("llama-bench", line))
        .collect::<Outcome<Vec<LlamaResult>>>()?;
    let sample = |threads: usize| {
        let is_requested = |result: &&LlamaResult| {
            (result.n_threads, result.n_prompt, result.n_gen) == (threads as u64, *prefill as u64, *decode as u64)
        };
        let value = results
            .iter()
            .find(is_requested)
            .and_then(|result| median(&result.samples_ts));
        Ok(Sample {
            what: What::Speed,
            threads,
            value: value.ok_or_else(|| format!("llama-bench measured nothing with {threads} threads."))?,
        })
    };
    threads.iter().copied().map(sample).collect()
}

/// Measures decode with `llama-completion`: llama-bench has no option for an adapter.
fn llama_completion(program: &LlamaCompletion, model: &Path, request: &Request) -> Outcome<Vec<Sample>> {
    if request.decode == 0 || request.depth > 0 || request.kv.is_some() {
        return Err("llama-completion measures --decode only: no --prefill, --start, --depth or --kv.".to_owned());
    }
    let sample = |threads: usize| {
        let speeds = (0..request.repetitions()).map(|_| {
            let mut command = program.decode(model, request.decode, threads);
            command.args(request.adapter.iter().flat_map(|path| ["--lora", path]));
            command.args((request.repack.as_deref() == Some("0")).then_some("--no-repack"));
            decode_speed(&run_measured(&mut command)?.output.stderr)
        });
        let value = median(&speeds.collect::<Outcome<Vec<f64>>>()?).ok_or("Nothing was measured.")?;
        let what = What::Speed;
        Ok(Sample { what, threads, value })
    };
    request.threads.iter().copied().map(sample).collect()
}

/// Measures the start time and peak memory of a process.
fn started(command: &mut std::process::Command, threads: usize) -> Outcome<Vec<Sample>> {
    let run = run_measured(command)?;
    let start = (What::Start, Some(run.seconds));
    let values = [start, (What::Memory, run.peak_mb)].into_iter();
    Ok(values
        .filter_map(|(what, value)| value.map(|value| Sample { what, threads, value }))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Outcome<Request> {
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Request::read(&arguments)
    }

    #[test]
    fn requests_are_parsed() {
        let expected = Request {
            threads: vec![1, 2],
            decode: 32,
            depth: 4096,
            kv: Some("q8_0".to_owned()),
            repack: Some("0".to_owned()),
            ..Request::default()
        };
        assert_eq!(
            read("--threads 1,2 --decode 32 --depth 4096 --kv q8_0 --repack 0"),
            Ok(expected)
        );
        for (line, expected) in [
            ("--threads 1", "one of --prefill"),
            ("--prefill 8", "--threads"),
            ("--threads 1 --prefill 8 --decode 8", "one of --prefill"),
            ("--threads one --prefill 8", "not a list of thread counts"),
            ("--threads 1 --prefill", "--prefill requires a value"),
            ("--threads 1 --speed 8", "Unknown option --speed"),
            ("--threads 1 --decode 8 --adapter", "--adapter requires a value"),
        ] {
            assert!(read(line).is_err_and(|error| error.contains(expected)), "{line}");
        }
    }

    #[test]
    fn options_are_passed_on_to_the_program() {
        let request = read("--threads 1 --decode 8 --attention PA --adapter a.gguf").expect("valid");
        assert_eq!(request.options().join(" "), "--attention PA --lora a.gguf");
        let refused = read("--threads 1 --decode 8 --depth 64").expect("valid");
        let refused = llama_completion(&LlamaCompletion::new(Path::new("c")), Path::new("m.gguf"), &refused);
        assert!(refused.is_err_and(|error| error.contains("no --prefill")));
    }

    #[test]
    fn short_measurements_are_repeated() {
        for (line, expected) in [
            ("--prefill 64", 3),
            ("--prefill 512", 1),
            ("--decode 32", 3),
            ("--decode 32 --depth 4096", 1),
        ] {
            let request = read(&format!("--threads 1 {line}")).expect("valid");
            assert_eq!(request.repetitions(), expected, "{line}");
        }
    }

    #[test]
    fn samples_are_lines_of_json() {
        let sample = Sample {
            what: What::Start,
            threads: 2,
            value: 0.5,
        };
        assert_eq!(
            json(&sample).as_deref(),
            Ok(r#"{"what":"start","threads":2,"value":0.5}"#)
        );
    }
}
