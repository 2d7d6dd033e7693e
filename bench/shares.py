"""What share of the machine's ceilings each hot loop reaches: runs the criterion benches, and prints a table.

    python shares.py [FILTER]

FILTER chooses among the benches of `layers`, as `cargo bench -p hearth-bench --bench layers -- FILTER` does. Those that count bytes are
held against the bandwidth of memory, those that count multiplications against the rate of the kind that they make; others are left out.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine
from page import markdown

HERE = Path(__file__).parent
CACHE = HERE / "cache"
# A bench's group has its kind, and a product whose name begins so another.
KINDS = {"gemv": "read_gb_s", "gemm": "int8_gmac_s", "attention": "f32_gmac_s"}
PRODUCTS = {"Exact": "f32_gmac_s", "Bf16": "bf16_gmac_s"}
# Weights that no product meets in int8.
PLAIN = ["F16", "BF16"]


def main() -> None:
    kept = CACHE / "criterion"
    command = ["cargo", "bench", "-p", "hearth-bench", "--bench", "layers", "--", *sys.argv[1:]]
    ceilings = machine.ceilings(CACHE, machine.cores())
    began = max((file.stat().st_mtime_ns for file in kept.rglob("estimates.json")), default=0)
    if code := subprocess.run(command, cwd=HERE, env=os.environ | {"CRITERION_HOME": str(kept)}, stdout=subprocess.DEVNULL).returncode:
        sys.exit(code)
    measured = [file.parent for file in sorted(kept.rglob("new/estimates.json")) if file.stat().st_mtime_ns > began]
    found = [(json.loads((folder / "benchmark.json").read_text()), json.loads((folder / "estimates.json").read_text())) for folder in measured]
    print(markdown(["bench", "time", "a second", "of the ceiling"], list(rows(found, ceilings))))


def rows(found: list[tuple[dict[str, Any], dict[str, Any]]], ceilings: dict[str, float | None]) -> Iterator[list[str]]:
    """A line for each bench whose throughput has a ceiling."""
    for about, estimates in found:
        nanoseconds = estimates["median"]["point_estimate"]
        kind, amount = next(iter((about["throughput"] or {"": 0}).items()))
        ceiling = ceilings.get("read_gb_s" if kind == "Bytes" else kind_of(about))
        if not (amount and ceiling) or about["group_id"] not in KINDS:
            continue
        # Numbers a nanosecond are billions a second.
        speed = amount / nanoseconds
        unit = "GB" if kind == "Bytes" else "billion products"
        yield [about["full_id"], time(nanoseconds), f"{speed:.0f} {unit}", f"{100 * speed / ceiling:.0f} %"]


def kind_of(about: dict[str, Any]) -> str:
    product = (about["function_id"] or "").partition(" ")[0]
    if product == "Fast" and about["value_str"] in PLAIN:
        return "bf16_gmac_s"
    return PRODUCTS.get(product, KINDS.get(about["group_id"], ""))


def time(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.2f} ms" if nanoseconds >= 1e6 else f"{nanoseconds / 1e3:.1f} µs"


if __name__ == "__main__":
    main()
