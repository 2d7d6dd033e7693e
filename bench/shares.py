"""Share of the machine's peak rates that each kernel reaches: runs the criterion benchmarks and prints a table.

    python shares.py [FILTER]

FILTER selects benchmarks of `layers`, as `cargo bench -p hearth-bench --bench layers -- FILTER` does. Those that count bytes are compared
with the memory bandwidth, those that count multiply-adds with the peak rate of their precision; others are omitted.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine
from tables import markdown

HERE = Path(__file__).parent
CACHE = HERE / "cache"
# The ceiling of each benchmark group, and of the precisions in a function name.
KINDS = {"gemv": "read_gb_s", "gemm": "int8_gmac_s", "attention": "f32_gmac_s"}
PRECISIONS = {"F32": "f32_gmac_s", "Bf16": "bf16_gmac_s"}
# Unquantized formats, whose activations are not quantized to int8.
UNQUANTIZED = ["F16", "BF16"]


def main() -> None:
    saved = CACHE / "criterion"
    command = ["cargo", "bench", "-p", "hearth-bench", "--bench", "layers", "--", *sys.argv[1:]]
    ceilings = machine.ceilings(CACHE, machine.cores())
    last_run = max((file.stat().st_mtime_ns for file in saved.rglob("estimates.json")), default=0)
    if code := subprocess.run(command, cwd=HERE, env=os.environ | {"CRITERION_HOME": str(saved)}, stdout=subprocess.DEVNULL).returncode:
        sys.exit(code)
    measured = [file.parent for file in sorted(saved.rglob("new/estimates.json")) if file.stat().st_mtime_ns > last_run]
    estimates = [(json.loads((folder / "benchmark.json").read_text()), json.loads((folder / "estimates.json").read_text())) for folder in measured]
    print(markdown(["benchmark", "time", "rate", "of the peak"], list(rows(estimates, ceilings))))


def rows(measured: list[tuple[dict[str, Any], dict[str, Any]]], ceilings: dict[str, float | None]) -> Iterator[list[str]]:
    """A row for each benchmark whose throughput has a ceiling."""
    for about, estimates in measured:
        nanoseconds = estimates["median"]["point_estimate"]
        kind, amount = next(iter((about["throughput"] or {"": 0}).items()))
        ceiling = ceilings.get("read_gb_s" if kind == "Bytes" else kind_of(about, ceilings))
        if not (amount and ceiling) or about["group_id"] not in KINDS:
            continue
        # Per nanosecond is billions per second.
        speed = amount / nanoseconds
        unit = "GB/s" if kind == "Bytes" else "GMAC/s"
        yield [about["full_id"], time(nanoseconds), f"{speed:.0f} {unit}", f"{100 * speed / ceiling:.0f} %"]


def kind_of(about: dict[str, Any], ceilings: dict[str, float | None]) -> str:
    precision = (about["function_id"] or "").partition(" ")[0]
    if precision == "Int8Activations" and about["value_str"] in UNQUANTIZED:
        # Hearth takes the faster one.
        return max("bf16_gmac_s", "f32_gmac_s", key=lambda kind: ceilings.get(kind) or 0)
    return PRECISIONS.get(precision, KINDS.get(about["group_id"], ""))


def time(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.2f} ms" if nanoseconds >= 1e6 else f"{nanoseconds / 1e3:.1f} µs"


if __name__ == "__main__":
    main()
