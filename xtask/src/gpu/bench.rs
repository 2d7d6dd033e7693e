//! How fast a model reads and writes with its layers on the GPU, half of them, and none; beside llama.cpp.

use super::machine::Device;
use super::options::Options;
use super::report::{Part, cell, collect_notes, typed};
use crate::process::{Outcome, Said, hear};
use crate::{json, place};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// More layers than any model has.
const ALL: &str = "99";

/// One line of the table.
#[derive(Clone)]
struct Row {
    what: String,
    prefill: Option<f64>,
    decode: Option<f64>,
    load: Option<f64>,
    memory: Option<f64>,
}

/// Measures one model.
pub fn part(hearth: &Path, device: &Device, model: &Path, options: &Options) -> Part {
    if !model.is_file() {
        return Part::left_out("the file is not there (`cargo xtask setup` fetches the default model).");
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
    /// The builds of Hearth that can use it.
    builds: &'a [String],
    model: &'a Path,
    options: &'a Options,
    /// What was typed since the page last showed it.
    commands: Vec<String>,
    part: Part,
}

impl Bench<'_> {
    fn measure(&mut self) -> Outcome {
        let planned = self.plan()?;
        self.show_commands();
        self.part.block("json", &planned);
        let layers = json::number(&planned, "layers_total");
        let layers = layers.ok_or("`hearth plan` does not say how many layers there are.")?;
        let here = json::with_ids(&planned)
            .into_iter()
            .find(|found| json::text(found, "id") == Some(self.device));
        let weights = here.and_then(|here| json::number(here, "weights"));

        let (mut rows, mut notes) = (Vec::new(), Vec::new());
        let half = (layers / 2.0).floor().to_string();
        // All layers with each build, so that what was checked to be fastest can be seen to be; the rest with that.
        let builds = self.builds.iter().map(String::as_str);
        let wanted = builds
            .map(|build| ("all", Some(build)))
            .chain([(half.as_str(), None), ("0", None)]);
        for (layers, build) in wanted {
            match self.ours(layers, build, &mut notes) {
                Ok(row) => rows.push((layers, row)),
                Err(problem) => self.part.fail(&problem),
            }
        }
        let all = rows.iter().filter(|(layers, _)| *layers == "all").map(|(_, row)| row);
        let fastest = all.max_by(|a, b| a.decode.unwrap_or(0.0).total_cmp(&b.decode.unwrap_or(0.0)));
        let mut full: Vec<Row> = fastest.cloned().into_iter().collect();
        let mut rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
        match self.theirs() {
            Ok((row, note)) => {
                rows.push(row.clone());
                full.push(row);
                notes.push(note);
            }
            Err(why) => notes.push(format!("Beside llama.cpp: n/a. {why}")),
        }
        self.show_commands();
        self.part.say(&format!("{layers} layers in all.\n\n{}", table(&rows)));
        notes.iter().for_each(|note| self.part.say(note));
        if let [ours, theirs] = full.as_slice() {
            self.part.say(&format!(
                "Hearth with all layers to llama.cpp: prefill {}, decode {}.",
                ratio(ours.prefill, theirs.prefill),
                ratio(ours.decode, theirs.decode)
            ));
        }
        for row in &full {
            self.part.say(&bandwidth(row, weights, self.options.bandwidth));
        }
        Ok(())
    }

    /// What `hearth plan` says of all layers on the GPU.
    fn plan(&mut self) -> Outcome<String> {
        let mut command = Command::new(self.hearth);
        command.arg("plan").arg(self.model);
        command.args(["--device", self.device, "--gpu-layers", "all", "--json"]);
        Ok(self.hear(&mut command)?.last_line().to_owned())
    }

    /// `hearth bench` with so many layers on the GPU, by one build of Hearth or the one that it takes by itself.
    fn ours(&mut self, layers: &str, build: Option<&str>, notes: &mut Vec<String>) -> Outcome<Row> {
        let [read, written, runs] = self.options.sizes();
        let mut command = Command::new(self.hearth);
        command.arg("bench").arg(self.model);
        command.args(["--device", self.device, "--gpu-layers", layers]);
        command.args(build.into_iter().flat_map(|build| ["--build", build]));
        command.args(["-p", read, "-n", written, "-r", runs, "--json"]);
        let said = self.hear(&mut command)?;
        collect_notes(&said, notes);
        let found = said.last_line();
        let ran_on = json::text(found, "device").unwrap_or("nothing that it names");
        if layers != "0" && ran_on != self.device {
            return Err(format!("`{}` ran on {ran_on}. {}", typed(&command), said.stderr));
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

    /// `llama-bench` with all layers on the GPUs that it finds, and what it ran on.
    fn theirs(&mut self) -> Outcome<(Row, String)> {
        let named = env::var_os("HEARTH_LLAMA_BENCH").map(PathBuf::from);
        let program = named.or_else(|| place::program(&["llama-bench"]));
        let program = program.ok_or("There is no `llama-bench`, neither in HEARTH_LLAMA_BENCH nor on the PATH.")?;
        let [read, written, runs] = self.options.sizes();
        let mut command = Command::new(program);
        command.arg("-m").arg(self.model);
        command.args(["-ngl", ALL, "-p", read, "-n", written, "-r", runs, "-o", "jsonl"]);
        let said = self.hear(&mut command)?;
        let line = |what| {
            let mut lines = said.stdout.lines();
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
            "llama.cpp: commit {}, backends {backends}, GPU {}. Its figures are means, Hearth's medians.",
            field("build_commit"),
            field("gpu_info")
        );
        if backends == "CPU" {
            note.push_str(
                " **This build of it knows no GPU and ran on the processor**, so ratios are not between equals.",
            );
        }
        Ok((row, note))
    }

    /// Runs a program that has to succeed.
    fn hear(&mut self, command: &mut Command) -> Outcome<Said> {
        let shown = typed(command);
        self.commands.push(shown.clone());
        let said = hear(&shown, command)?;
        match said.ok {
            true => Ok(said),
            false => Err(format!("`{shown}`: {}", said.complaint())),
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

fn ratio(ours: Option<f64>, theirs: Option<f64>) -> String {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if theirs > 0.0 => format!("{:.2}", ours / theirs),
        _ => "n/a".to_owned(),
    }
}

/// How much of the memory's bandwidth decoding takes: each step reads every weight once. The cache, short here, is not counted.
fn bandwidth(row: &Row, weights: Option<f64>, gb_a_second: Option<f64>) -> String {
    let (Some(decode), Some(weights)) = (row.decode, weights) else {
        return format!("{}: share of memory bandwidth in decode n/a.", row.what);
    };
    let reached = decode * weights / 1e9;
    let share = match gb_a_second {
        Some(most) => format!("{:.0} % of {most} GB/s", 100.0 * reached / most),
        None => "its share n/a, for `--bandwidth` was not given".to_owned(),
    };
    let megabytes = weights / 1e6;
    format!(
        "{}: {megabytes:.1} MB of weights for each token of decode make {reached:.1} GB/s, {share}.",
        row.what
    )
}
