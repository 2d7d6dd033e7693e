"""Compares fine-tuning with Hearth and with PEFT + PyTorch on this machine.

    python train.py HEARTH MODEL.gguf [--steps N] [--rounds N] [--threads N] [--json FILE]

HEARTH is a release build of `hearth`, MODEL.gguf the default model. LoRA of rank 16 on all seven linears of each layer, batches of 2
times 512 tokens, every token in the loss. The contenders run alternately, each in a separate process, so that load on the machine affects all;
the table has the medians of the rounds. Hearth is compared with the best PEFT whose products have the same factors. See README.md.
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import machine

HERE = Path(__file__).parent
BATCH, SEQ, RANK = 2, 512, 16
# Factors of products.
F32, BF16 = "f32", "bf16"
# PyTorch's contenders by name: the factors of their products, and the options of peft_train.py.
PEFT = {
    "PEFT f32": (F32, ["f32"]),
    "PEFT f32, compiled": (F32, ["f32", "--compile"]),
    "PEFT f32, bf16 allowed": (BF16, ["f32-bf16"]),
    "PEFT bf16": (BF16, ["bf16"]),
    "PEFT bf16, compiled": (BF16, ["bf16", "--compile"]),
}
# Hearth's contenders: the factors of their products, which are its --precision.
OURS = {"Hearth f32": F32, "Hearth bf16": BF16}
FACTORS = {name: factors for name, (factors, _) in PEFT.items()} | OURS

# Each is one token of SmolLM2 with its leading space, so that words count as tokens.
WORDS = """the of and to in a is that for it was on with as be by at from are this have or an which you one were all her she there
would their we him been has when who will no more if out so up said what its about than into them can only other time new some could
these two may first then do any like my now over such our man me even most made after also did many off before must well back through
years much where your way down should because long each just state those people too good""".split()


def document(tokens):
    """Random words, slightly more than `tokens` tokens."""
    chosen = random.Random(1)
    return " ".join(chosen.choice(WORDS) for _ in range(tokens + tokens // 8)) + "\n"


def last_line_of(command):
    """Runs a command. Returns the JSON object in the last line of its output."""
    result = subprocess.run([str(part) for part in command], cwd=HERE, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{Path(command[0]).name} failed with exit code {result.returncode}:\n{result.stderr.strip()[-2000:]}")
    return json.loads(result.stdout.strip().splitlines()[-1])


def run_hearth(args, folder, precision):
    # Enough for one more step, so that no step is short.
    data = folder / "document.txt"
    data.write_text(document((args.steps + 1) * BATCH * SEQ))
    with tempfile.TemporaryDirectory(dir=folder) as out:
        return last_line_of([
            "cargo", "xtask", "measure", "train", args.hearth.resolve(), args.model.resolve(), data, Path(out) / "run", "--epochs", 1,
            "--max-steps", args.steps, "--batch", BATCH, "--accum", 1, "--seq", SEQ, "--rank", RANK, "--alpha", 2 * RANK, "--lr", 1e-4,
            "--seed", 1, "--device", "cpu", "--threads", args.threads, "--precision", precision,
        ])  # fmt: skip


def run_peft(args, options):
    return last_line_of([
        sys.executable, HERE / "peft_train.py", *options, "--steps", args.steps, "--batch", BATCH, "--seq", SEQ,
        "--rank", RANK, "--threads", args.threads,
    ])  # fmt: skip


def median(results, name, field):
    return statistics.median(result[field] for result in results[name])


def rival(results, factors):
    """The fastest PEFT whose products have these factors."""
    return max((name for name in results if name in PEFT and FACTORS[name] == factors), key=lambda name: median(results, name, "tok_s"))


def ratios(results):
    """Of each contender of Hearth that was measured: its name, the fastest PEFT with the same factors, and how many times faster it is."""
    for name in OURS:
        if name in results:
            peer = rival(results, FACTORS[name])
            yield name, peer, median(results, name, "tok_s") / median(results, peer, "tok_s")


def table(results):
    """A Markdown table: medians, their range, and ratios to the fastest PEFT with the same factors of products."""
    lines = ["| | products | tokens/s | from - to | to PEFT | peak MB | to PEFT | MB before the model |", "|---|---|---:|---:|---:|---:|---:|---:|"]
    for name, runs in results.items():
        speeds = [result["tok_s"] for result in runs]
        peer = rival(results, FACTORS[name])
        before = f"{median(results, name, 'baseline_mb'):.0f}" if "baseline_mb" in runs[0] else ""
        lines.append(
            f"| {name} | {FACTORS[name]} | {median(results, name, 'tok_s'):.1f} | {min(speeds):.1f} - {max(speeds):.1f} "
            f"| {median(results, name, 'tok_s') / median(results, peer, 'tok_s'):.2f} | {median(results, name, 'peak_rss_mb'):.0f} "
            f"| {median(results, name, 'peak_rss_mb') / median(results, peer, 'peak_rss_mb'):.2f} | {before} |"
        )
    return "\n".join(lines)


def multiplies_bf16():
    """Whether the CPU has the instructions in bf16 that Hearth trains with. Only Linux lists them."""
    return "avx512_bf16" in machine.instructions()


def main():
    parser = argparse.ArgumentParser(description="Compare fine-tuning with Hearth and with PEFT + PyTorch.")
    parser.add_argument("hearth", type=Path, help="a release build of hearth")
    parser.add_argument("model", type=Path, help="SmolLM2-135M as GGUF")
    parser.add_argument("--steps", type=int, default=5, help="timed steps per run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to FILE")
    args = parser.parse_args()
    for path in [args.hearth, args.model]:
        if not path.is_file():
            parser.error(f"{path} is not a file")

    results = {}
    with tempfile.TemporaryDirectory() as folder:
        contenders = {name: lambda options=options: run_peft(args, options) for name, (_, options) in PEFT.items()}
        contenders |= {name: lambda name=name: run_hearth(args, Path(folder), OURS[name]) for name in OURS if OURS[name] == F32 or multiplies_bf16()}
        for turn in range(args.rounds):
            for name, run in contenders.items():
                result = run()
                results.setdefault(name, []).append(result)
                print(f"round {turn + 1}, {name}: {result['tok_s']:.1f} tokens/s", file=sys.stderr, flush=True)
    print(f"{platform.machine()}, {platform.system()}, {args.threads} threads, {args.rounds} rounds of {args.steps} steps\n")
    print(table(results))
    if args.json:
        args.json.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
