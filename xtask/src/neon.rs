//! `cargo xtask neon`: the kernels' tests on ARM64, emulated where the machine is another.

use crate::cargo::cargo;
use crate::place::{program, target};
use crate::process::{Outcome, read};
use crate::test::Totals;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";

/// Processors to emulate, and the instructions on which the tests must find themselves there: with products of four bytes,
/// and without.
const PROCESSORS: [(&str, &str); 2] = [("max", "neon-dot"), ("cortex-a72", "neon")];

/// The kernels' tests, without GPUs. No documentation's: those would take a rustdoc that fits the compiler.
const TESTS: [&str; 8] = [
    "test",
    "--release",
    "--locked",
    "--no-fail-fast",
    "-p",
    "hearth-kernels",
    "--lib",
    "--tests",
];

/// Builds the kernels' tests for ARM64 and runs them.
///
/// # Errors
/// Names what is missing and how to get it, or what failed.
pub fn neon() -> Outcome {
    let mut totals = Totals::default();
    if cfg!(target_arch = "aarch64") {
        totals.tests("The kernels' tests, on this machine itself", &mut cargo(&TESTS));
        return totals.verdict();
    }
    let tools = Tools::find()?;
    for (processor, level) in PROCESSORS {
        let what = format!("The kernels' tests on an emulated processor ({processor}, {level}); this takes minutes");
        totals.tests(&what, &mut tools.tests(processor, level));
    }
    totals.verdict()
}

/// What builds for ARM64 and runs it.
struct Tools {
    compiler: PathBuf,
    emulator: PathBuf,
}

impl Tools {
    fn find() -> Outcome<Self> {
        if !cfg!(target_os = "linux") {
            return Err(
                "Emulating ARM64 takes Linux. On an ARM machine of any kind this command needs no emulator.".to_owned(),
            );
        }
        let compiler = compiler();
        let emulator = program(&["qemu-aarch64-static", "qemu-aarch64"]);
        match (compiler, emulator, program(&[LINKER])) {
            (Some(compiler), Some(emulator), Some(_)) => Ok(Self { compiler, emulator }),
            (compiler, emulator, linker) => Err(missing(compiler.is_none(), emulator.is_none(), linker.is_none())),
        }
    }

    fn tests(&self, processor: &str, level: &str) -> Command {
        let mut tests = cargo(&TESTS);
        tests
            .args(["--target", TARGET, "--target-dir"])
            // The compiler may be another than the usual one, whose builds stay as they are.
            .arg(target().join("neon"))
            .env("RUSTC", &self.compiler)
            // What is linked in needs no ARM libraries on this machine; with those of Debian 12's cross compiler the first
            // thread that a program starts hangs in the emulator.
            .env("RUSTFLAGS", "-C target-feature=+crt-static")
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
            .env(
                "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
                format!("{} -cpu {processor}", self.emulator.display()),
            )
            // Where this is set, no test starts itself again on lower levels, which an emulated program cannot do.
            .env("HEARTH_ISA", level)
            // A floating-point operation takes some hundred times as long: fewer cases are drawn, and the longest test is cut.
            .env("PROPTEST_CASES", "64")
            .env("HEARTH_EMULATED", "1");
        tests
    }
}

/// A compiler that has the standard library of the target: the usual one, or the system's.
fn compiler() -> Option<PathBuf> {
    [program(&["rustc"]), Some(PathBuf::from("/usr/bin/rustc"))]
        .into_iter()
        .flatten()
        .find(|rustc| {
            read(Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]))
                .is_some_and(|folder| Path::new(&folder).is_dir())
        })
}

/// What a person is told who lacks some of it.
fn missing(compiler: bool, emulator: bool, linker: bool) -> String {
    let mut said = "ARM64 cannot be emulated here yet.".to_owned();
    if compiler {
        said += &format!(
            "\nMissing: Rust's standard library for ARM64. Where Rust comes from rustup: rustup target add {TARGET}. \
             From Debian: sudo dpkg --add-architecture arm64, sudo apt-get update, \
             sudo apt-get install rustc-web libstd-rust-web-dev:arm64"
        );
    }
    if linker {
        said += "\nMissing: a C compiler for ARM64, to link with. On Debian and Ubuntu: \
                 sudo apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross";
    }
    if emulator {
        said += "\nMissing: QEMU for programs. On Debian and Ubuntu: sudo apt-get install qemu-user-static";
    }
    said
}
