//! `cargo xtask neon`: runs the kernels' tests on ARM64, emulated on other machines.

use crate::nextest::{nextest, run_nextest};
use crate::paths::{program, target};
use crate::process::{Outcome, read};
use crate::report::Report;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";

/// CPUs to emulate, and the best instruction set of each, which must be detected.
const EMULATED_CPUS: [(&str, &str); 3] = [("max", "neon+i8mm"), ("cortex-a76", "neon+dot"), ("cortex-a72", "neon")];

/// The kernels' tests, without GPU tests.
const TESTS: [&str; 4] = ["-p", "hearth-kernels", "--lib", "--tests"];

/// Builds the kernels' tests for ARM64 and runs them.
///
/// # Errors
/// Names missing tools and how to install them, or what failed.
pub fn neon() -> Outcome {
    let mut report = Report::begin()?;
    if cfg!(target_arch = "aarch64") {
        let title = "The kernels' tests, on this machine";
        report.tests(title, || run_nextest(title, &mut nextest(&TESTS)?, "neon"));
        return report.end();
    }
    let tools = Tools::find()?;
    for (cpu, isa) in EMULATED_CPUS {
        let title = format!("The kernels' tests on an emulated CPU ({cpu}, {isa}); this takes minutes");
        report.tests(&title, || {
            run_nextest(&title, &mut tools.tests(cpu, isa)?, &format!("neon-{cpu}"))
        });
    }
    report.end()
}

/// The tools that build for ARM64 and emulate it.
struct Tools {
    compiler: PathBuf,
    emulator: PathBuf,
}

impl Tools {
    fn find() -> Outcome<Self> {
        if !cfg!(target_os = "linux") {
            return Err("Emulating ARM64 requires Linux. On an ARM machine no emulator is needed.".to_owned());
        }
        let compiler = compiler();
        let emulator = program(&["qemu-aarch64-static", "qemu-aarch64"]);
        match (compiler, emulator, program(&[LINKER])) {
            (Some(compiler), Some(emulator), Some(_)) => Ok(Self { compiler, emulator }),
            (compiler, emulator, linker) => Err(missing(compiler.is_none(), emulator.is_none(), linker.is_none())),
        }
    }

    fn tests(&self, cpu: &str, isa: &str) -> Outcome<Command> {
        let mut tests = nextest(&TESTS)?;
        tests
            .args(["--target", TARGET, "--target-dir"])
            // The compiler may differ from the default one, whose builds must not be invalidated.
            .arg(target().join("neon"))
            .env("CARGO_BUILD_BUILD_DIR", target().join("neon"))
            .env("RUSTC", &self.compiler)
            // Static linking needs no ARM libraries on this machine. With the libraries of Debian
            // 12's cross compiler, the first thread that starts hangs in the emulator.
            .env("RUSTFLAGS", "-C target-feature=+crt-static")
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
            .env(
                "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
                format!("{} -cpu {cpu}", self.emulator.display()),
            )
            // If set, no test restarts itself on lower instruction sets, which an emulated program
            // cannot do.
            .env("HEARTH_ISA", isa)
            // Emulated floating-point operations are some hundred times slower: run fewer cases,
            // and shorten the longest test.
            .env("PROPTEST_CASES", "64")
            .env("HEARTH_EMULATED", "1");
        Ok(tests)
    }
}

/// A compiler with the target's standard library: the default one, or the system's.
fn compiler() -> Option<PathBuf> {
    [program(&["rustc"]), Some(PathBuf::from("/usr/bin/rustc"))]
        .into_iter()
        .flatten()
        .find(|rustc| {
            read(Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]))
                .is_some_and(|folder| Path::new(&folder).is_dir())
        })
}

/// The message for missing tools.
fn missing(compiler: bool, emulator: bool, linker: bool) -> String {
    let mut message = "ARM64 cannot be emulated here yet.".to_owned();
    if compiler {
        message += &format!(
            "\nMissing: Rust's standard library for ARM64. With rustup: rustup target add {TARGET}. \
             With Debian's Rust: sudo dpkg --add-architecture arm64, sudo apt-get update, \
             sudo apt-get install rustc-web libstd-rust-web-dev:arm64"
        );
    }
    if linker {
        message += "\nMissing: a C compiler for ARM64, to link with. On Debian and Ubuntu: \
                 sudo apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross";
    }
    if emulator {
        message += "\nMissing: QEMU for programs. On Debian and Ubuntu: sudo apt-get install qemu-user-static";
    }
    message
}
