//! Developer commands: set-up, run, test, package. They need only Rust, Node and Python.

mod cache;
mod cargo;
mod cases;
mod checkout;
mod fuzz;
mod gpu;
mod junit;
mod kept_tree;
mod lock;
mod measure;
mod model;
mod neon;
mod nextest;
mod package;
mod paths;
mod process;
mod report;
mod run;
mod same;
mod setup;
mod style;
mod suites;
mod system;
mod templates;
mod test;
mod ui;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask setup                 install missing dependencies, fetch the default model, build the web UI
cargo xtask setup tests           also install test dependencies: a browser, WebDriver, chat templates
cargo xtask run                   set up, build Hearth and open its window (`hearth chat` without a display)
cargo xtask test                  set up, build, and run the checks and tests that decide whether a commit is accepted:
                                  what changed, what failed last time, and a part of each large suite
    --complete                    run all parts
    --part K/4                    run all suites, and this part of the large ones
    --changed [BASE]              run the tests most likely to fail after the changes since BASE [default: HEAD], up to
                                  the first failure
cargo xtask cases                 write the names of the tests that the last run found to tests/cases/
cargo xtask style [PATH]...       check what docs/STYLE.md asks for; with paths, list all places under them
    --shrink                      lower the numbers in docs/style-exceptions.txt to what the files have
cargo xtask package [KIND]...     build installers; KIND: an extra build of hearth (vulkan, cuda), or an installer
                                  format (deb, rpm, appimage, dmg, app, nsis, msi)
cargo xtask gpu [OPTIONS] [FILE.gguf]...
                                  test and benchmark Hearth on this machine's GPU, and write a report to docs/gpu/
                                  (compared with llama.cpp if llama-bench is on the PATH or set as HEARTH_LLAMA_BENCH)
    --out FILE                    path of the report
    --device ID                   GPU, as listed by `hearth devices` [default: the first]
    --bandwidth GB/S              its rated memory bandwidth, to report the share achieved
    --quick                       use a tiny model and few tokens, to try this command
    --build BACKEND               also test and benchmark a vulkan or cuda build; repeatable
    --hearth PROGRAM              use this executable and the builds beside it instead of building
    --tests PROGRAM               with --hearth, a test executable that is already built; repeatable
cargo xtask fuzz [OPTIONS] [TARGET [FILE]...]
                                  fuzz one target of fuzz/ or all of them, or replay files through one
    --seconds N                   time per target [default: 20]
    --seed N                      seed, for reproducible mutations
    --keep                        add minimized inputs with new coverage to fuzz/corpus
cargo xtask same OLD [NEW]        check that two hearth executables compute bit-identical results on the CPU: answers,
                                  perplexities, losses, adapters and checkpoints, for the fixtures and the default model
cargo xtask measure hearth|llama.cpp|llama-completion PROGRAM FILE.gguf OPTIONS
                                  measure one thing on the CPU and print JSON lines, as bench/compare.py does
    --threads N[,N]...            thread counts
    --prefill N, --decode N       tokens to prefill or to generate
    --depth N, --kv TYPE          tokens in the KV cache before them, and its type
    --start WORDS                 measure a process that answers these words with one token
    --repack 0|1                  not of hearth: keep the file's layout of weights, or repack them
    --attention PA|SDPA           bench/openvino_bench.py only, which is measured as llama.cpp, by the Python in
                                  HEARTH_PYTHON if that is set
    --adapter PATH                a LoRA adapter; for llama.cpp measure llama-completion, since llama-bench has none
cargo xtask measure train PROGRAM FILE.gguf DATA FOLDER [OPTIONS OF hearth train]...
cargo xtask pairs [OLD NEW] [OPTIONS]
                                  measure two hearth executables in turns on the CPU; fail if NEW is slower
                                  [default: the last one that passed CI on this machine, and this checkout's]
    --base COMMIT                 compare with this commit, which is built if it is not kept
    --model FILE                  GGUF file [default: the default model]
    --pairs N                     [default: 30]
cargo xtask guard [--write]       compare the speed of the kernels with the line of this kind of machine in
                                  bench/machines.md, or write the line
cargo xtask spirv                 test the matrix-unit kernels on the Vulkan driver set by VK_DRIVER_FILES
cargo xtask neon                  run the kernels' tests on ARM64, emulated on other machines
";

fn main() -> ExitCode {
    if std::env::var_os(fuzz::RUSTC_WRAPPER_ENV).is_some() {
        let arguments: Vec<_> = std::env::args_os().skip(1).collect();
        return fuzz::rustc(&arguments);
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    if let Err(problem) = checkout::share_build_folder(&paths::root()) {
        eprintln!("{problem}");
    }
    let result = match (command, rest) {
        ("setup", []) => setup::setup(system::Purpose::Run),
        ("setup", [tests]) if tests == "tests" => setup::setup(system::Purpose::Test),
        ("run", []) => run::run(),
        ("test", options) => test::test(options),
        ("cases", []) => cases::update(),
        ("style", arguments) => style::style(arguments),
        ("package", kinds) => package::package(kinds),
        ("fuzz", options) => fuzz::fuzz(options),
        ("gpu", options) => gpu::gpu(options),
        ("same", programs) => same::same(programs),
        ("measure", arguments) => measure::samples(arguments),
        ("pairs", arguments) => measure::pairs(arguments),
        ("guard", options) => measure::guard(options),
        ("neon", []) => neon::neon(),
        ("spirv", []) => gpu::spirv(),
        ("help" | "--help" | "-h", []) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("\n{problem}");
            ExitCode::FAILURE
        }
    }
}
