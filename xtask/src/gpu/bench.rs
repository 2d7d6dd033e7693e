//! Prefill and decode speed with all, half and none of the layers on the GPU, compared with
//! llama.cpp.

use super::machine::Device;
use super::options::Options;
use super::report::{Part, cell, collect_notices, command_line};
use crate::measure::{Bench, BenchReport, Hearth, LlamaBench, LlamaCpp, Measured, PlanReport, measure};
use crate::process::{Outcome, capture};
use serde::de::DeserializeOwned;
use std::path::Path;
use std::process::Command;

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
    let mut bench = ModelBench {
        hearth: Hearth::new(hearth),
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

struct ModelBench<'a> {
    hearth: Hearth,
    device: &'a str,
    /// The builds of Hearth that can use the device.
    builds: &'a [String],
    model: &'a Path,
    options: &'a Options,
    /// Command lines not yet shown on the page.
    commands: Vec<String>,
    part: Part,
}

impl ModelBench<'_> {
    fn measure(&mut self) -> Outcome {
        let planned: Measured<PlanReport> = self.run(&mut self.hearth.plan(self.model, self.device))?;
        self.show_commands();
        self.part.block("json", planned.output.last_line());
        let layers = planned.report.layers_total;
        let planned_device = planned.report.devices.iter().find(|device| device.id == self.device);
        let weights = planned_device.map(|device| device.weights);

        let mut notes = Vec::new();
        let rows = self.hearth_rows(layers, &mut notes);
        let full_rows = rows.iter().filter(|(layers, _)| layers == "all").map(|(_, row)| row);
        let fastest = full_rows.max_by(|a, b| a.decode.unwrap_or(0.0).total_cmp(&b.decode.unwrap_or(0.0)));
        let mut full: Vec<Row> = fastest.cloned().into_iter().collect();
        let mut rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
        match self.llama_cpp() {
            Ok((row, note)) => {
                rows.push(row.clone());
                full.push(row);
                notes.push(note);
            }
            Err(problem) => notes.push(format!("Compared with llama.cpp: n/a. {problem}")),
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

    /// Runs with all, half and none of the layers on the GPU. All layers with each build, to verify
    /// which one is fastest; the others with the default build.
    fn hearth_rows(&mut self, layers: u64, notes: &mut Vec<String>) -> Vec<(String, Row)> {
        let with_builds = self.builds.iter().map(|build| ("all".to_owned(), Some(build.clone())));
        let fewer = [(layers / 2).to_string(), "0".to_owned()].map(|layers| (layers, None));
        let mut rows = Vec::new();
        for (layers, build) in with_builds.chain(fewer).collect::<Vec<_>>() {
            match self.hearth_bench(&layers, build.as_deref(), notes) {
                Ok(row) => rows.push((layers, row)),
                Err(problem) => self.part.fail(&problem),
            }
        }
        rows
    }

    /// Runs `hearth bench` with `layers` layers on the GPU, with one build or the automatically
    /// selected one.
    fn hearth_bench(&mut self, layers: &str, build: Option<&str>, notes: &mut Vec<String>) -> Outcome<Row> {
        let [prompt, generated, repetitions] = self.options.sizes();
        let mut command = self.hearth.bench(
            self.model,
            &Bench {
                prompt,
                generated,
                repetitions,
                device: self.device,
                gpu_layers: Some(layers),
                build,
                ..Bench::default()
            },
        );
        let Measured { report, output }: Measured<BenchReport> = self.run(&mut command)?;
        collect_notices(&output, notes);
        if layers != "0" && report.device != self.device {
            return Err(format!(
                "`{}` ran on {}. {}",
                command_line(&command),
                report.device,
                output.stderr
            ));
        }
        Ok(Row {
            what: match build {
                Some(build) => format!("Hearth ({build}), {layers} on the GPU"),
                None => format!("Hearth, {layers} on the GPU"),
            },
            prefill: report.prompt_tok_s,
            decode: report.gen_tok_s,
            load: Some(report.load_s),
            memory: report.peak_rss_mb,
        })
    }

    /// Runs `llama-bench` with all layers on its GPUs. Returns a note on its backends too.
    fn llama_cpp(&mut self) -> Outcome<(Row, String)> {
        let [prompt, generated, repetitions] = self.options.sizes();
        let mut command = LlamaBench::find()?.bench(self.model, prompt, generated, repetitions);
        let shown = command_line(&command);
        self.commands.push(shown.clone());
        let output = capture(&shown, &mut command)?;
        if !output.ok {
            return Err(format!("`{shown}`: {}", output.last_stderr_line()));
        }
        let LlamaCpp { prefill, decode, about } = LlamaCpp::read(&command, &output)?;
        let gpu = Some(about.gpu_info.as_str()).filter(|gpu| !gpu.is_empty());
        let row = Row {
            what: format!("llama.cpp ({})", about.backends),
            prefill: Some(prefill),
            decode: Some(decode),
            load: None,
            memory: None,
        };
        let mut note = format!(
            "llama.cpp: commit {}, backends {}, GPU {}. Its figures are means; Hearth's are medians.",
            about.build_commit,
            about.backends,
            gpu.unwrap_or("none")
        );
        if about.backends == "CPU" {
            note.push_str(" **This build has no GPU backend and ran on the CPU**, so the ratios are not comparable.");
        }
        Ok((row, note))
    }

    /// Runs a measurement, whose command the page shows.
    fn run<T: DeserializeOwned>(&mut self, command: &mut Command) -> Outcome<Measured<T>> {
        self.commands.push(command_line(command));
        measure(command)
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
