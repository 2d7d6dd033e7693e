//! Peak resident memory of the default model on the CPU while its context is filled, compared with
//! the plan. Each case runs in a separate process. Pages of the file that the system has not
//! reclaimed yet during the load do not count. Pages of cached packed weights do, since they are
//! the only copy of the weights.

use hearth_engine::{Engine, memory, packed};
use hearth_protocol::{KvType, LoadRequest};
use libtest_mimic::{Arguments, Trial};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

/// Tolerance of the plan.
const SHARE: f64 = 0.05;
/// Bytes that no plan counts: the tokenizer, and what the allocator holds for each thread and after
/// packing.
const UNCOUNTED: f64 = 6e6;

/// Most rows of a step whose logits are wanted.
const WANTED_ROWS: usize = 96;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, hold, context, kv, folder @ ..] = &*arguments
        && hold == "hold"
    {
        packed::set_cache_folder(folder.first().map(Into::into));
        return hold_model(context.parse().expect("a context"), kv.parse().expect("a type"));
    }
    let cases = [
        (512, KvType::F16, false),
        (512, KvType::F16, true),
        (4096, KvType::F16, false),
        (4096, KvType::Q8_0, true),
        (8192, KvType::F16, false),
    ];
    let trial = |(context, kv, kept): (u32, KvType, bool)| {
        let weights = if kept { "cached" } else { "new" };
        Trial::test(
            format!("a_context_of_{context}_in_{kv}_takes_what_was_planned_with_{weights}_weights"),
            move || {
                let folder = tempfile::tempdir().expect("a folder");
                if kept {
                    // A load that packs takes no more than one from the cache. The cache has
                    // weights alone, so a short context makes it as well.
                    check(512, kv, Some(folder.path()));
                }
                check(context, kv, kept.then_some(folder.path()));
                Ok(())
            },
        )
    };
    let tests = match memory::resident() {
        Some(_) => cases.into_iter().map(trial).collect(),
        None => Vec::new(),
    };
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

/// Loads the model and fills its context, at the end with as many logits as a step may return.
/// Prints the planned bytes and the peak.
fn hold_model(context: u32, kv: KvType) {
    let before = memory::resident().expect("known on this system");
    let request = LoadRequest {
        path: hearth_tests::paths::model(),
        context: Some(context),
        kv,
        device: Some("cpu".to_owned()),
        ..LoadRequest::default()
    };
    let mut engine = Engine::load(&request, &mut |_, _| ControlFlow::Continue(())).expect("it loads");
    let ids: Vec<u32> = (0..context).collect();
    let (ids, last) = ids.split_at(ids.len() - WANTED_ROWS);
    let mut peak = 0;
    let read = engine.session_mut().prefill(ids, &mut |_, _| {
        peak = peak.max(memory::resident().expect("known on this system"));
        ControlFlow::Continue(())
    });
    assert!(read.expect("it runs").completed);
    let logits = engine.session_mut().extend(last).expect("it runs");
    peak = peak.max(memory::resident().expect("known on this system"));
    drop(logits);
    let taken = peak - before;
    let cpu = &engine.info().placement[0];
    println!("planned {} taken {taken}", cpu.weights + cpu.kv + cpu.compute);
}

fn check(context: u32, kv: KvType, packed_in: Option<&Path>) {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["hold", &context.to_string(), &kv.to_string()])
        .args(packed_in)
        .output();
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [planned, taken] = *numbers else {
        panic!("{said}{}", String::from_utf8_lossy(&output.stderr));
    };
    assert!(
        (taken - planned).abs() < SHARE * planned + UNCOUNTED,
        "planned {planned} bytes, {taken} taken"
    );
}
