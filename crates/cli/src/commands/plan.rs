//! `hearth plan`: shows the memory plan of a model.

use super::print_protocol;
use crate::args::Plan;
use crate::failure::Failure;
use crate::model::{ChosenModel, draft};
use crate::terminal::stdout;
use hearth_engine::plan;
use hearth_formats::byte_size;
use hearth_protocol::{DraftChoice, PlanRequest, sentences};
use std::io::Write;

/// Computes and prints the plan.
pub fn run(args: &Plan) -> Result<(), Failure> {
    let chosen = ChosenModel::find(&args.load.model)?;
    let request = PlanRequest {
        path: chosen.path,
        context: args.context.ctx,
        device: args.load.options.device.clone(),
        build: args.load.options.build.clone(),
        gpu_layers: args.load.options.gpu_layers,
        assume_gpu: args.assume_gpu,
        kv: args.load.options.kv,
        draft: draft(&args.draft, DraftChoice::Auto)?.choice,
        threads: args.load.options.threads,
        measure_speed: args.speed,
        ..PlanRequest::default()
    };
    let plan = plan::plan(&request, &mut |_| {})?;
    if args.output.json {
        return print_protocol(&plan);
    }
    let mut out = stdout();
    writeln!(out, "{}", sentences(&plan.notices))?;
    writeln!(
        out,
        "{} of {} layers on GPUs, a context of {} tokens",
        plan.gpu_layers, plan.layers_total, plan.context
    )?;
    if let Some(speed) = plan.tokens_per_second {
        writeln!(out, "expected decode speed: about {speed:.1} tokens/s")?;
    }
    for device in &plan.devices {
        let draft = match device.draft {
            0 => String::new(),
            bytes => format!("   draft {:>10}", byte_size(bytes)),
        };
        writeln!(
            out,
            "{:<6} weights {:>10}   KV cache {:>10}{draft}   compute {:>10}   {}",
            device.id,
            byte_size(device.weights),
            byte_size(device.kv),
            byte_size(device.compute),
            device
                .free
                .map_or_else(String::new, |free| format!("of {} free", byte_size(free))),
        )?;
    }
    Ok(())
}
