//! Set-up, run, test and package, each by one command on a machine that has only Rust, Node and Python.

mod cargo;
mod fuzz;
mod gpu;
mod json;
mod model;
mod neon;
mod package;
mod place;
mod process;
mod run;
mod same;
mod setup;
mod system;
mod templates;
mod test;
mod ui;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask setup                 install what is missing, fetch the default model, build the page
cargo xtask setup tests           that, and what tests need: a browser, a driver, chat templates to render
cargo xtask run                   the first, build Hearth, and open its window (`hearth chat` without a display)
cargo xtask test                  all of that, and run every check and test there is
cargo xtask package [KIND]...     make installers; KIND: hearth builds beside the portable one (vulkan, cuda),
                                  or an installer's kind (deb, rpm, appimage, dmg, app, nsis, msi)
cargo xtask gpu [OPTIONS] [FILE.gguf]...
                                  test and measure Hearth on this machine's GPU, and write what was seen to docs/gpu/
                                  (beside llama.cpp, if llama-bench is on the PATH or named by HEARTH_LLAMA_BENCH)
    --out FILE                    write it there
    --device ID                   the GPU, as `hearth devices` calls it (the first one, if none is given)
    --bandwidth GB/S              what its memory can do, by its maker, to say what share of it is reached
    --quick                       a tiny model and few tokens, to try this command
    --build BACKEND               test and measure a build for vulkan or cuda too; may be given several times
    --hearth PROGRAM              take this build, and those beside it, and build nothing
    --tests PROGRAM               with it, a test program that is already built; may be given several times
cargo xtask fuzz [OPTIONS] [TARGET [FILE]...]
                                  fuzz one target of fuzz/ or all of them, or replay files through one
    --seconds N                   so long each (20, if not told)
    --seed N                      make the same mutations each time
    --keep                        put minimised inputs that reach more than the seeds into fuzz/corpus
cargo xtask same OLD [NEW]        compare the bits that two executables of hearth compute on the CPU: answers, perplexities,
                                  losses, adapters and training states of the fixtures and of the default model
cargo xtask spirv                 test the kernels for matrix units on the Vulkan driver that VK_DRIVER_FILES names
cargo xtask neon                  run the kernels' tests on ARM64, emulated where this machine is another
";

fn main() -> ExitCode {
    if std::env::var_os(fuzz::AS_RUSTC).is_some() {
        let arguments: Vec<_> = std::env::args_os().skip(1).collect();
        return fuzz::rustc(&arguments);
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    let result = match (command, rest) {
        ("setup", []) => setup::setup(setup::For::Run),
        ("setup", [tests]) if tests == "tests" => setup::setup(setup::For::Test),
        ("run", []) => run::run(),
        ("test", []) => test::test(),
        ("package", kinds) => package::package(kinds),
        ("fuzz", options) => fuzz::fuzz(options),
        ("gpu", options) => gpu::gpu(options),
        ("same", programs) => same::same(programs),
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
