"""Programs of llama.cpp, built once for each instruction set: `llama-bench`, for adapters `llama-completion`, and for drafts `llama-lookup` and `llama-speculative-simple`.

PyPI's source package llama-cpp-python contains the whole source of llama.cpp; a wheel has a generic build, and no tools. CMake and Ninja
come from PyPI too; the C++ compiler must be installed.
"""

import subprocess
import sys
import tarfile
from pathlib import Path

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
# Of the llama.cpp in the package.
COMMIT = "0c1e570"
TITLE = f"llama.cpp of {PACKAGE} {VERSION} (commit {COMMIT})"
# CPU backend only, and nothing that would download anything.
OPTIONS = """CMAKE_BUILD_TYPE=Release GGML_METAL=OFF GGML_CCACHE=OFF BUILD_SHARED_LIBS=OFF LLAMA_BUILD_TESTS=OFF
LLAMA_BUILD_EXAMPLES=ON LLAMA_BUILD_SERVER=OFF LLAMA_BUILD_APP=OFF LLAMA_BUILD_UI=OFF LLAMA_USE_PREBUILT_UI=OFF LLAMA_OPENSSL=OFF""".split()
# Of ggml, and so also of ik_llama.cpp.
ISA_OPTIONS = {
    "native": ["GGML_NATIVE=ON"],
    "avx2": "GGML_NATIVE=OFF GGML_SSE42=ON GGML_AVX=ON GGML_AVX2=ON GGML_BMI2=ON GGML_FMA=ON GGML_F16C=ON GGML_AVX512=OFF GGML_AVX_VNNI=OFF".split(),
}

BENCH, COMPLETION, LOOKUP, SPECULATIVE = "llama-bench", "llama-completion", "llama-lookup", "llama-speculative-simple"


def find(cache: Path, program: str = BENCH, isa: str = "native") -> Path:
    """Path of the program; builds it if needed, which takes some minutes."""
    build = build_folder(cache / f"llama.cpp-{VERSION}", isa)
    return built(build, program) or compile_into(build, source(cache), program, [*OPTIONS, *ISA_OPTIONS[isa]])


def build_folder(native: Path, isa: str) -> Path:
    return native if isa == "native" else native.with_name(f"{native.name}-{isa}")


def built(build: Path, program: str) -> Path | None:
    """Path of the built program; Visual Studio has a folder for each configuration."""
    names = [build / "bin" / folder / f"{program}{end}" for folder in ["", "Release"] for end in ["", ".exe"]]
    return next((name for name in names if name.is_file()), None)


def source(cache: Path) -> Path:
    """The source of llama.cpp, downloaded with `pip`."""
    folder = f"{PACKAGE.replace('-', '_')}-{VERSION}"
    unpacked = cache / folder / "vendor" / "llama.cpp"
    if not unpacked.is_dir():
        run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", PACKAGE, "--dest", cache, f"{PACKAGE}=={VERSION}"])
        with tarfile.open(cache / f"{folder}.tar.gz") as archive:
            archive.extractall(cache, filter="data")
    return unpacked


def compile_into(build: Path, source: Path, program: str, options: list[str]) -> Path:
    """Configures and builds one program with CMake."""
    import cmake

    driver = Path(cmake.CMAKE_BIN_DIR) / "cmake"
    generator = [] if sys.platform == "win32" else ninja()
    run([driver, "-S", source, "-B", build, *generator, *(f"-D{option}" for option in options)])
    run([driver, "--build", build, "--config", "Release", "--target", program])
    if path := built(build, program):
        return path
    sys.exit(f"{build.name} was built, but there is no {program} in {build}.")


def ninja() -> list[str]:
    import ninja

    return ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={Path(ninja.BIN_DIR) / 'ninja'}"]


def run(command: list[str | Path]) -> None:
    """Runs a build step, with its output on stderr."""
    if code := subprocess.run(command, stdout=sys.stderr).returncode:
        sys.exit(
            f"{Path(command[0]).name} failed with exit code {code}. Building the peers needs a C++ compiler. compare.py can use an existing "
            "llama-bench instead (--llama-bench), and leave out ik_llama.cpp (--peers)."
        )


if __name__ == "__main__":
    for name in [BENCH, COMPLETION, LOOKUP, SPECULATIVE]:
        print(find(Path(__file__).parent / "cache", name))
