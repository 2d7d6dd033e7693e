//! How fast a model reads and writes with its layers on the GPU, half of them, and none; beside llama.cpp.

use super::options::Options;
use super::report::{Part, typed};
use crate::process::{Outcome, hear};
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
pub fn part(hearth: &Path, device: &str, model: &Path, options: &Options) -> Part {
    if !model.is_file() {
        return Part::left_out("the file is not there (`cargo xtask setup` fetches the default model).");
    }
    let mut part = Part::default();
    if let Err(problem) = measure(hearth, device, model, options, &mut part) {
        part.fail(&problem);
    }
    part
}

fn measure(hearth: &Path, device: &str, model: &Path, options: &Options, part: &mut Part) -> Outcome {
    let mut plan = Command::new(hearth);
    plan.arg("plan").arg(model);
    plan.args(["--device", device, "--gpu-layers", "all", "--json"]);
    let said = hear("Planning", &mut plan)?;
    if !said.ok {
        return Err(format!("`{}`: {}", typed(&plan), said.complaint()));
    }
    let planned = said.last_line();
    part.commands(&[typed(&plan)]);
    part.block("json", planned);
    let layers =
        json::number(planned, "layers_total").ok_or("`hearth plan` does not say how many layers there are.")?;
    let on_gpu = json::with_ids(planned)
        .into_iter()
        .find(|found| json::text(found, "id") == Some(device));
    let weights = on_gpu.and_then(|found| json::number(found, "weights"));

    let (mut commands, mut rows, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let mut all = None;
    let half = format!("{}", (layers / 2.0).floor());
    for wanted in ["all", half.as_str(), "0"] {
        match ours(hearth, device, model, wanted, options, &mut commands) {
            Ok((row, said)) => {
                if wanted == "all" {
                    all = Some(row.clone());
                }
                rows.push(row);
                notes.extend(said);
            }
            Err(problem) => part.fail(&problem),
        }
    }
    let theirs = theirs(model, options, &mut commands);
    if let Ok((row, note)) = &theirs {
        rows.push(row.clone());
        notes.push(note.clone());
    }
    part.commands(&commands);
    part.say(&format!("{layers} layers in all.\n\n{}", table(&rows)));
    notes.dedup();
    for note in notes {
        part.say(&note);
    }
    match (&theirs, &all) {
        (Ok((theirs, _)), Some(ours)) => part.say(&format!(
            "Hearth with all layers to llama.cpp: prefill {}, decode {}.",
            ratio(ours.prefill, theirs.prefill),
            ratio(ours.decode, theirs.decode)
        )),
        (Err(why), _) => part.say(&format!("Beside llama.cpp: n/a. {why}")),
        (Ok(_), None) => {}
    }
    if let (Some(ours), Some(weights)) = (all, weights) {
        let theirs = theirs.ok().map(|(row, _)| row);
        for row in std::iter::once(ours).chain(theirs) {
            part.say(&bandwidth(&row, weights, options.bandwidth));
        }
    }
    Ok(())
}

/// `hearth bench` with so many layers on the GPU, and what it said on the side.
fn ours(
    hearth: &Path,
    device: &str,
    model: &Path,
    layers: &str,
    options: &Options,
    commands: &mut Vec<String>,
) -> Outcome<(Row, Vec<String>)> {
    let [read, written, runs] = options.sizes();
    let mut command = Command::new(hearth);
    command.arg("bench").arg(model);
    command.args([
        "--device",
        device,
        "--gpu-layers",
        layers,
        "-p",
        read,
        "-n",
        written,
        "-r",
        runs,
        "--json",
    ]);
    let shown = typed(&command);
    commands.push(shown.clone());
    let said = hear(&shown, &mut command)?;
    if !said.ok {
        return Err(format!("`{shown}`: {}", said.complaint()));
    }
    let found = said.last_line();
    println!("    {found}");
    let ran_on = json::text(found, "device").unwrap_or("nothing that it names");
    if layers != "0" && ran_on != device {
        return Err(format!("`{shown}` ran on {ran_on}. {}", said.stderr));
    }
    let row = Row {
        what: format!("Hearth, {layers} on the GPU"),
        prefill: json::number(found, "prompt_tok_s"),
        decode: json::number(found, "gen_tok_s"),
        load: json::number(found, "load_s"),
        memory: json::number(found, "peak_rss_mb"),
    };
    // A notice may say that fewer layers than wanted are on the GPU.
    let notes = said.stderr.lines().filter_map(|line| line.strip_prefix("note: "));
    Ok((row, notes.map(|note| format!("Hearth says: {note}")).collect()))
}

/// `llama-bench`, and what it ran on.
fn theirs(model: &Path, options: &Options, commands: &mut Vec<String>) -> Outcome<(Row, String)> {
    let program = llama_bench().ok_or("There is no `llama-bench`, neither in HEARTH_LLAMA_BENCH nor on the PATH.")?;
    let [read, written, runs] = options.sizes();
    let mut command = Command::new(program);
    command.arg("-m").arg(model);
    command.args(["-ngl", ALL, "-p", read, "-n", written, "-r", runs, "-o", "jsonl"]);
    let shown = typed(&command);
    commands.push(shown.clone());
    let said = hear(&shown, &mut command)?;
    if !said.ok {
        return Err(format!("`{shown}`: {}", said.complaint()));
    }
    let line = |what| {
        let found = said
            .stdout
            .lines()
            .find(|line| json::number(line, what).is_some_and(|n| n > 0.0));
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
            " **This build of it knows no GPU, so it ran on the processor**, and the ratios are not between equals.",
        );
    }
    Ok((row, note))
}

fn llama_bench() -> Option<PathBuf> {
    let named = env::var_os("HEARTH_LLAMA_BENCH").map(PathBuf::from);
    named.or_else(|| place::program(&["llama-bench"]))
}

fn table(rows: &[Row]) -> String {
    let mut lines = vec![
        "| layers | prefill, tokens/s | decode, tokens/s | load, s | resident, MB |".to_owned(),
        "|---|---:|---:|---:|---:|".to_owned(),
    ];
    let cell = |value: Option<f64>, digits| value.map_or(String::new(), |value| format!("{value:.digits$}"));
    for row in rows {
        lines.push(format!(
            "| {} | {} | {} | {} | {} |",
            row.what,
            cell(row.prefill, 1),
            cell(row.decode, 1),
            cell(row.load, 2),
            cell(row.memory, 0)
        ));
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
fn bandwidth(row: &Row, weights: f64, gb_a_second: Option<f64>) -> String {
    let Some(decode) = row.decode else {
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
