//! Set-up, run, test and package, each by one command on a machine that has only Rust, Node and Python.

mod cargo;
mod model;
mod package;
mod place;
mod process;
mod run;
mod setup;
mod system;
mod test;
mod ui;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask setup                 install what is missing, fetch the default model, build the page
cargo xtask run                   all of that, build Hearth, and open its window (`hearth chat` without a display)
cargo xtask test                  all of that, and run every check and test there is
cargo xtask package [KIND]...     make installers; KIND: hearth builds beside the portable one (vulkan, cuda),
                                  or an installer's kind (deb, rpm, appimage, dmg, app, nsis, msi)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    let result = match (command, rest) {
        ("setup", []) => setup::setup(setup::For::Run),
        ("run", []) => run::run(),
        ("test", []) => test::test(),
        ("package", kinds) => package::package(kinds),
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
