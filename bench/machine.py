"""The machine and programs of a measurement, and the machine's peak rates."""

import datetime
import hashlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).parent
# Instructions that affect the speed of matrix products.
INSTRUCTIONS = ["avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_int8", "asimddp", "i8mm", "bf16"]


def about(hearth: Path) -> dict[str, Any]:
    return {
        "processor": processor(),
        "cores": cores(),
        "instructions": instructions(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "system": f"{platform.system()} on {platform.machine()}",
        "hearth": output(hearth.resolve(), "--version"),
        "hearth_sha256": hashlib.sha256(hearth.read_bytes()).hexdigest(),
        "commit": output("git", "-C", HERE, "rev-parse", "--short", "HEAD"),
        "date": datetime.date.today().isoformat(),
        # Load average before the measurement.
        "load": round(psutil.getloadavg()[0], 1),
    }


def cores() -> int:
    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


def processor() -> str:
    if sys.platform == "darwin":
        return output("sysctl", "-n", "machdep.cpu.brand_string")
    return cpuinfo("model name") or platform.processor() or platform.machine()


def instructions() -> list[str]:
    if sys.platform == "darwin":
        settings = output("sysctl", "-a").split()
        return [name for name in ["FEAT_DotProd", "FEAT_I8MM", "FEAT_BF16"] if f"hw.optional.arm.{name}:" in settings]
    flags = (cpuinfo("flags") or cpuinfo("Features")).split()
    return [name for name in INSTRUCTIONS if name in flags]


def cpuinfo(key: str) -> str:
    """A value of the first CPU; empty if there is no /proc/cpuinfo."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == key), "")


def output(*command: str | Path) -> str:
    """Output of a command; empty if it cannot be run."""
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def ceilings(cache: Path, threads: int, isa: str = "native", *rates: str) -> dict[str, float | None]:
    """Output of examples/ceilings.rs, built with the installed rustc: some or all peak rates, with all instructions or none beyond AVX2."""
    cache.mkdir(exist_ok=True)
    program, source = cache / f"ceilings{'.exe' if sys.platform == 'win32' else ''}", HERE / "examples" / "ceilings.rs"
    if not program.is_file() or program.stat().st_mtime < max(source.stat().st_mtime, Path(__file__).stat().st_mtime):
        # Not for this CPU: the compiler would put instructions of AVX-512 into the loops for AVX2.
        command: list[str | Path] = ["rustc", "--edition", "2024", "-O", "-o", program, source]
        if subprocess.run(command).returncode:
            sys.exit("rustc could not build ceilings.rs.")
    return json.loads(output(program, str(threads), isa, *rates))
