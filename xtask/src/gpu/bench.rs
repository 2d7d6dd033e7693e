//! Prefill and decode speed with all, half and none of the layers on the GPU, compared with
//! llama.cpp.

use super::machine::Device;
use super::options::Options;
use super::report::{Part, cell, collect_notices, command_line};
use crate::process::{Outcome, Output, capture};
use crate::{json, paths};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `-ngl` value for all layers.
const ALL_LAYERS: &str = "99";

/// A row of the table.
#[derive(Clone)]
struct Row {
    what: String,
    prefill: Option<f64>,
    decode: Option<f64>,
    load: Option<f64>,
    memory: Option<f64>,
}

/// Benchmarks one model.
pub fn part(hearth: &Path, device: &Device, model: &Path, options: &Options) -> Part {
    if !model.is_file() {
        return Part::skipped("the file does not exist (`cargo xtask setup` fetches the default model).");
    }
    let mut bench = Bench {
        hearth,
        device: &device.id,
        builds: &device.builds,
        model,
        options,
        commands: Vec::new(),
        part: Part::default(),
    };
    if let Err(problem) = bench.measure() {
        bench.part.fail(&problem);
    }
    bench.part
}

struct Bench<'a> {
    hearth: &'a Path,
    device: &'a str,
    /// The builds of Hearth that can use the device.
    builds: &'a [String],
    model: &'a Path,
    options: &'a Options,
    /// Command lines not yet shown on the page.
    commands: Vec<String>,
    part: Part,
}

impl Bench<'_> {
    fn measure(&mut self) -> Outcome {
        let planned = self.plan()?;
        self.show_commands();
        self.part.block("json", &planned);
        let layers = json::number(&planned, "layers_total");
        let layers = layers.ok_or("`hearth plan` did not report the number of layers.")?;
        let here = json::device_objects(&planned)
            .into_iter()
            .find(|found| json::text(found, "id") == Some(self.device));
        let weights = here.and_then(|here| json::number(here, "weights"));

        let (mut rows, mut notes) = (Vec::new(), Vec::new());
        let half = (layers / 2.0).floor().to_string();
        // All layers with each build, to verify which one is fastest; the others with the default
        // build.
        let builds = self.builds.iter().map(String::as_str);
        let runs = builds
            .map(|build| ("all", Some(build)))
            .chain([(half.as_str(), None), ("0", None)]);
        for (layers, build) in runs {
            match self.hearth_bench(layers, build, &mut notes) {
                Ok(row) => rows.push((layers, row)),
                Err(problem) => self.part.fail(&problem),
            }
        }
        let all = rows.iter().filter(|(layers, _)| *layers == "all").map(|(_, row)| row);
        let fastest = all.max_by(|a, b| a.decode.unwrap_or(0.0).total_cmp(&b.decode.unwrap_or(0.0)));
        let mut full: Vec<Row> = fastest.cloned().into_iter().collect();
        let mut rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
        match self.llama_cpp() {
            Ok((row, note)) => {
                rows.push(row.clone());
                full.push(row);
                notes.push(note);
            }
            Err(why) => notes.push(format!("Compared with llama.cpp: n/a. {why}")),
        }
        self.show_commands();
        self.part.say(&format!("{layers} layers in total.\n\n{}", table(&rows)));
        notes.iter().for_each(|note| self.part.say(note));
        if let [hearth, llama_cpp] = full.as_slice() {
            self.part.say(&format!(
                "Ratio of Hearth with all layers to llama.cpp: prefill {}, decode {}.",
                ratio(hearth.prefill, llama_cpp.prefill),
                ratio(hearth.decode, llama_cpp.decode)
            ));
        }
        for row in &full {
            self.part.say(&bandwidth(row, weights, self.options.bandwidth));
        }
        Ok(())
    }

    /// Runs `hearth plan` with all layers on the GPU.
    fn plan(&mut self) -> Outcome<String> {
        let mut command = Command::new(self.hearth);
        command.arg("plan").arg(self.model);
        command.args(["--device", self.device, "--gpu-layers", "all", "--json"]);
        Ok(self.capture(&mut command)?.last_line().to_owned())
    }

    /// Runs `hearth bench` with `layers` layers on the GPU, with one build or the automatically
    /// selected one.
    fn hearth_bench(&mut self, layers: &str, build: Option<&str>, notes: &mut Vec<String>) -> Outcome<Row> {
        let [prompt, generated, repetitions] = self.options.sizes();
        let mut command = Command::new(self.hearth);
        command.arg("bench").arg(self.model);
        command.args(["--device", self.device, "--gpu-layers", layers]);
        command.args(build.into_iter().flat_map(|build| ["--build", build]));
        command.args(["-p", prompt, "-n", generated, "-r", repetitions, "--json"]);
        let output = self.capture(&mut command)?;
        collect_notices(&output, notes);
        let found = output.last_line();
        let ran_on = json::text(found, "device").unwrap_or("an unknown device");
        if layers != "0" && ran_on != self.device {
            return Err(format!(
                "`{}` ran on {ran_on}. {}",
                command_line(&command),
                output.stderr
            ));
        }
        Ok(Row {
            what: match build {
                Some(build) => format!("Hearth ({build}), {layers} on the GPU"),
                None => format!("Hearth, {layers} on the GPU"),
            },
            prefill: json::number(found, "prompt_tok_s"),
            decode: json::number(found, "gen_tok_s"),
            load: json::number(found, "load_s"),
            memory: json::number(found, "peak_rss_mb"),
        })
    }

    /// Runs `llama-bench` with all layers on its GPUs. Returns a note on its backends too.
    fn llama_cpp(&mut self) -> Outcome<(Row, String)> {
        let named = env::var_os("HEARTH_LLAMA_BENCH").map(PathBuf::from);
        let program = named.or_else(|| paths::program(&["llama-bench"]));
        let program = program.ok_or("`llama-bench` was not found on the PATH or in HEARTH_LLAMA_BENCH.")?;
        let [prompt, generated, repetitions] = self.options.sizes();
        let mut command = Command::new(program);
        command.arg("-m").arg(self.model);
        command.args([
            "-ngl",
            ALL_LAYERS,
            "-p",
            prompt,
            "-n",
            generated,
            "-r",
            repetitions,
            "-o",
            "jsonl",
        ]);
        let output = self.capture(&mut command)?;
        let line = |what| {
            let mut lines = output.stdout.lines();
            let found = lines.find(|line| json::number(line, what).is_some_and(|tokens| tokens > 0.0));
            found.unwrap_or_default()
        };
        let (prefill, decode) = (line("n_prompt"), line("n_gen"));
        let field = |name| {
            json::text(decode, name)
                .filter(|text| !text.is_empty())
                .unwrap_or("none")
        };
        let backends = field("backends");
        let row = Row {
            what: format!("llama.cpp ({backends})"),
            prefill: json::number(prefill, "avg_ts"),
            decode: json::number(decode, "avg_ts"),
            load: None,
            memory: None,
        };
        let mut note = format!(
            "llama.cpp: commit {}, backends {backends}, GPU {}. Its figures are means; Hearth's are medians.",
            field("build_commit"),
            field("gpu_info")
        );
        if backends == "CPU" {
            note.push_str(" **This build has no GPU backend and ran on the CPU**, so the ratios are not comparable.");
        }
        Ok((row, note))
    }

    /// Runs a program that must succeed.
    fn capture(&mut self, command: &mut Command) -> Outcome<Output> {
        let shown = command_line(command);
        self.commands.push(shown.clone());
        let output = capture(&shown, command)?;
        match output.ok {
            true => Ok(output),
            false => Err(format!("`{shown}`: {}", output.last_stderr_line())),
        }
    }

    fn show_commands(&mut self) {
        self.part.commands(&self.commands);
        self.commands.clear();
    }
}

fn table(rows: &[Row]) -> String {
    let mut lines = vec![
        "| layers | prefill, tokens/s | decode, tokens/s | load, s | resident, MB |".to_owned(),
        "|---|---:|---:|---:|---:|".to_owned(),
    ];
    for row in rows {
        let (prefill, decode) = (cell(row.prefill, 1), cell(row.decode, 1));
        let (load, memory) = (cell(row.load, 2), cell(row.memory, 0));
        lines.push(format!("| {} | {prefill} | {decode} | {load} | {memory} |", row.what));
    }
    lines.join("\n")
}

fn ratio(hearth: Option<f64>, llama_cpp: Option<f64>) -> String {
    match (hearth, llama_cpp) {
        (Some(hearth), Some(llama_cpp)) if llama_cpp > 0.0 => format!("{:.2}", hearth / llama_cpp),
        _ => "n/a".to_owned(),
    }
}

/// Memory bandwidth used by decode: each step reads every weight once. The KV cache, short here, is
/// not counted.
fn bandwidth(row: &Row, weights: Option<f64>, gb_a_second: Option<f64>) -> String {
    let (Some(decode), Some(weights)) = (row.decode, weights) else {
        return format!("{}: memory bandwidth in decode n/a.", row.what);
    };
    let reached = decode * weights / 1e9;
    let share = match gb_a_second {
        Some(rated) => format!("{:.0} % of {rated} GB/s", 100.0 * reached / rated),
        None => "share n/a, since `--bandwidth` was not given".to_owned(),
    };
    let megabytes = weights / 1e6;
    format!(
        "{}: {megabytes:.1} MB of weights per decoded token are {reached:.1} GB/s, {share}.",
        row.what
    )
}
