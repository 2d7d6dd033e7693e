"""Compares the decode speed and memory that `hearth plan` predicts for models that were never loaded with measurements.

    python promise.py HEARTH [--models NAME...] [--rounds N]

HEARTH is a release build of `hearth`. Prints a row per model, and exits with 1 if a prediction is off by more than LIMITS.
The measurements behind the predictions are stored in a temporary data folder, so each run starts without any. See
README.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from models import find

# Four shapes in six formats, from 0.1B to 3B.
MODELS = ["0.1B Q5_0", "0.5B F16", "0.5B Q4_K_M", "0.5B IQ4_XS", "1B Q6_K", "3B Q4_0"]
# Largest relative errors of the speed and of the memory.
LIMITS = (0.25, 0.05)
CONTEXT = 4096
MB = 1 << 20


def run(hearth: str, *arguments: str) -> dict:
    """The last line of a command's output, as JSON."""
    result = subprocess.run([hearth, *arguments, "--json"], check=True, capture_output=True, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def compare(hearth: str, name: str, rounds: int, idle_mb: float) -> list[float]:
    """Prints a row; returns the relative errors of speed and memory."""
    path, context = str(find(name)), ["--ctx", str(CONTEXT)]
    plan = run(hearth, "plan", path, "--speed", "--device", "cpu", *context)
    cpu = plan["devices"][0]
    planned_mb = sum(cpu[part] for part in ["weights", "kv", "compute"]) / MB + idle_mb
    # A prefill of the whole context needs all buffers and touches the whole KV cache.
    speeds = [run(hearth, "bench", path, "-p", "8", "-n", "64", "-r", "1", "--device", "cpu")["gen_tok_s"] for _ in range(rounds)]
    used_mb = run(hearth, "bench", path, "-p", str(CONTEXT - 4), "-n", "4", "-r", "1", "--device", "cpu")["peak_rss_mb"]
    speed = statistics.median(speeds)
    errors = [plan["tokens_per_second"] / speed - 1, planned_mb / used_mb - 1]
    row = [f"{plan['tokens_per_second']:8.1f}", f"{speed:8.1f}", f"{errors[0]:+7.0%}", f"{planned_mb:8.0f}", f"{used_mb:8.0f}", f"{errors[1]:+7.1%}"]
    print(f"{name:14}", *row, flush=True)
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hearth")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    hearth = str(Path(args.hearth).resolve())
    print(f"{'model':14} {'expected':>8} {'tokens/s':>8} {'error':>7} {'planned':>8} {'peak MB':>8} {'error':>7}")
    with tempfile.TemporaryDirectory() as data:
        os.environ["HEARTH_DATA"] = data
        # Of the program without a model.
        idle_mb = idle(hearth)
        errors = [compare(hearth, name, args.rounds, idle_mb) for name in args.models]
    sys.exit(any(abs(error) > limit for row in errors for error, limit in zip(row, LIMITS, strict=True)))


def idle(hearth: str) -> float:
    """Megabytes of a process that loads nothing."""
    import resource

    subprocess.run([hearth, "list"], check=True, capture_output=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


if __name__ == "__main__":
    main()
