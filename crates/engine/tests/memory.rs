//! Compares the plan with the peak resident memory of the default model on the CPU while its
//! context is filled. Each case runs in a separate process. Pages of the file that the system has
//! not reclaimed yet during the load do not count. Pages of cached packed weights count, since they
//! are the only copy of the weights.

use hearth_engine::{Engine, memory, packed};
use hearth_protocol::{KvType, LoadRequest};
use libtest_mimic::{Arguments, Trial};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

/// Relative tolerance of the plan.
const TOLERANCE: f64 = 0.05;
/// Bytes that no plan counts: the tokenizer, and memory that the allocator keeps per thread and
/// after packing.
const UNPLANNED: f64 = 6e6;

/// Maximum rows of a step whose logits are computed.
const MAX_LOGIT_ROWS: usize = 96;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, hold, context, kv, folder @ ..] = &*arguments
        && hold == "hold"
    {
        packed::set_cache_folder(folder.first().map(Into::into));
        return hold_model(context.parse().expect("a context"), kv.parse().expect("a type"));
    }
    /// A load of the model.
    struct Case {
        context: u32,
        kv: KvType,
        /// Whether the packed weights are in the cache.
        cached: bool,
    }
    let case = |context, kv, cached| Case { context, kv, cached };
    let cases = [
        case(512, KvType::F16, false),
        case(512, KvType::F16, true),
        case(4096, KvType::F16, false),
        case(4096, KvType::Q8_0, true),
        case(8192, KvType::F16, false),
    ];
    let trial = |Case { context, kv, cached }: Case| {
        let weights = if cached { "cached" } else { "new" };
        Trial::test(
            format!("a_context_of_{context}_in_{kv}_takes_what_was_planned_with_{weights}_weights"),
            move || {
                let folder = tempfile::tempdir().expect("a folder");
                if cached {
                    // Writes the cache, which does not depend on the context. A load that packs
                    // weights is tested with the same limits.
                    check(512, kv, Some(folder.path()));
                }
                check(context, kv, cached.then_some(folder.path()));
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

/// Loads the model and fills its context. The last step computes the maximum number of logits.
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
    let (prompt, last) = ids.split_at(ids.len() - MAX_LOGIT_ROWS);
    let mut peak = 0;
    let prefill = engine.session_mut().prefill(prompt, &mut |_, _| {
        peak = peak.max(memory::resident().expect("known on this system"));
        ControlFlow::Continue(())
    });
    assert!(prefill.expect("it runs").completed);
    let logits = engine.session_mut().extend(last).expect("it runs");
    peak = peak.max(memory::resident().expect("known on this system"));
    drop(logits);
    let used = peak - before;
    let cpu = &engine.info().placement[0];
    println!("planned {} used {used}", cpu.weights + cpu.kv + cpu.compute);
}

/// Checks the memory of a child process that executes [`hold_model`].
fn check(context: u32, kv: KvType, packed_in: Option<&Path>) {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["hold", &context.to_string(), &kv.to_string()])
        .args(packed_in)
        .output();
    let output = output.expect("it starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = stdout.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [planned, used] = *numbers else {
        panic!("{stdout}{}", String::from_utf8_lossy(&output.stderr));
    };
    assert!(
        (used - planned).abs() < TOLERANCE * planned + UNPLANNED,
        "planned {planned} bytes, {used} used"
    );
}
