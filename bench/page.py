"""docs/PERFORMANCE.md and its chart, from the figures alone."""

from pathlib import Path

import train
from chart import Bar, Panel, chart
from names import DEFAULT
from programs import DEPTH, MEMORY, START_PROMPT
from results import Results, quotient

CHART = "performance.svg"
COMMAND = "python bench/compare.py target/release/hearth --train --write docs/PERFORMANCE.md"
ONE_READ, WRITE, WRITE_DEEP = "read 512", "write", f"write at {DEPTH}"


def write(results: Results, path: Path) -> None:
    path.write_text(page(results))
    (path.parent / CHART).write_text(drawing(results))


def page(results: Results) -> str:
    reading = [test for test in results.tests() if test.startswith("read")]
    writing = [test for test in results.tests() if test.startswith("write")]
    sections = [
        "# Performance\n\n<!-- bench/compare.py makes this page and its chart; what is written here by hand is lost. -->",
        "Hearth beside llama.cpp, and fine-tuning beside PEFT with PyTorch, in turns on one machine. What was tried on the way is in "
        "[tried.md](tried.md).",
        f"![How many times as fast as the others Hearth is]({CHART})",
        section("Reading a prompt", "Tokens a second, by how many the prompt has.", speeds(results, reading, "prompt")),
        section(
            "Writing",
            f"Tokens a second, one after the other: in an empty context and after {DEPTH} tokens, with keys and values kept in f16 and in q8_0.",
            speeds(results, writing, "context"),
        ),
        section(
            "Starting, and memory",
            f"Seconds from the start of the process until it has read some {START_PROMPT} tokens, written one and ended, with the file in the "
            "system's cache and after a first start, at which Hearth packs weights; and the most memory that was resident meanwhile, mapped pages of the file among it.",
            starts(results),
        ),
        section("Fine-tuning", training_text(results), train.table(results.train) if results.train else ""),
        circumstances(results),
        HOW,
    ]
    return "\n\n".join(part for part in sections if part) + "\n"


def section(title: str, text: str, table: str) -> str:
    return f"## {title}\n\n{text}\n\n{table}" if table else ""


def speeds(results: Results, tests: list[str], column: str) -> str:
    """For each number of threads a table of what both programs reach."""
    tables = []
    for threads in results.threads():
        lines = [
            [model, test.partition(" ")[2].removeprefix("at ") or "0", *cells]
            for model in results.models
            for test in tests
            if any(cells := speed(results, model, test, threads))
        ]
        head = ["model", column, "Hearth", "of the ceiling", "llama.cpp", "of the ceiling", "ratio"]
        tables += [f"{plural(threads, 'thread')}:\n\n{markdown(head, lines)}"] if lines else []
    return "\n\n".join(tables)


def speed(results: Results, model: str, test: str, threads: int) -> list[str]:
    """What Hearth reaches and what llama.cpp reaches, both in tokens and as a share of the ceiling, and the one to the other."""
    ceiling = results.ceiling(model, test, threads)
    medians = [results.median(program, model, test, threads) for program in ["Hearth", "llama.cpp"]]
    cells = [cell for median in medians for cell in [number(median), percent(quotient(median, ceiling))]]
    return [*cells, times(quotient(*medians))]


def starts(results: Results) -> str:
    lines = []
    for model, facts in results.models.items():
        for threads in results.threads():
            seconds, memory = ([results.median(program, model, test, threads) for program in ["Hearth", "llama.cpp"]] for test in ["start", MEMORY])
            if any(seconds):
                file = facts["file_bytes"] / 1e6
                lines.append([
                    model, *(f"{value:.2f}" if value else "" for value in seconds), times(quotient(*seconds)),
                    f"{file:.0f}", *(number(value) for value in memory), times(quotient(memory[0], file)),
                ])  # fmt: skip
    head = ["model", "Hearth, s", "llama.cpp, s", "ratio", "file, MB", "Hearth, MB", "llama.cpp, MB", "Hearth to the file"]
    return markdown(head, lines) if lines else ""


def training_text(results: Results) -> str:
    steps = next((runs[0]["steps"] for runs in results.train.values()), 0)
    rounds = plural(len(next(iter(results.train.values()), [])), "round")
    return (
        f"LoRA of rank {train.RANK} on the seven linears of each block of SmolLM2-135M, {train.BATCH} times {train.SEQ} tokens a step, {rounds} "
        f"of {steps} steps. [bench/README.md](../bench/README.md) says what is compared with what."
    )


def circumstances(results: Results) -> str:
    about, (fewest, most) = results.about, results.rounds()
    lines = [
        f"- {about['processor']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']}; {', '.join(about['instructions'])}.",
        *(f"- {ceilings(results, threads)}" for threads in results.threads()),
        f"- {about['hearth']} (the tree was at {about['commit'] or 'an unknown commit'}), {about['llama']}.",
        f"- Measured on {about['date']} in {plural(round(results.seconds / 60), 'minute')}; the load of the machine was {about['load']} before. Every figure "
        f"is the median of {plural(most, 'round') if fewest == most else f'{fewest} to {most} rounds'}.",
        f"- Made by `{COMMAND}`.",
    ]
    return "## Circumstances\n\n" + "\n".join(lines)


def ceilings(results: Results, threads: int) -> str:
    def between(kind: str) -> str:
        found = results.could(kind, threads)
        return f"{min(found):.0f} to {max(found):.0f}" if found else "not measured"

    names = {"int8_gmac_s": "int8", "bf16_gmac_s": "bf16", "f32_gmac_s": "f32"}
    products = ", ".join(f"{between(kind)} in {name}" for kind, name in names.items() if results.could(kind, threads))
    return f"Ceilings with {plural(threads, 'thread')}: {between('read_gb_s')} GB/s read, and billions of products a second {products}."


HOW = f"""## How it is measured

- `hearth bench` and `llama-bench` take turns, each in a process of its own, and who begins changes from round to round. Ratios are
  Hearth's figure to llama.cpp's, medians both: above 1 is faster, and for the seconds of the start below 1.
- llama.cpp is built on the machine for its own processor, and runs with what `llama-bench` chooses by itself but for the threads and the
  type of keys and values.
- {DEFAULT} is the real file. The others are llamas of random weights in the true formats, since time does not depend on what weights say:
  0.5B has 28 layers of 1024 (feed-forward 4096), 1B has 16 of 2048 (8192); all rows can be divided by 256, so Q4_K_M is Q4_K with Q6_K
  for half of the matrices of values and those that lead down, and for the output. Q5_0, Q4_0 and Q4_1 have their output in Q8_0.
- The ceiling of writing is the bandwidth of memory, over the bytes of all weights as the file has them and of the keys and values in the
  context. That of reading is the products that the processor can make with int8 (with bf16 or f32 for files of plain numbers), over
  the model's products with weights; attention and the output layer are left out, so nothing reaches 100 %. Both ceilings are measured by
  [a loop of nothing else](../bench/examples/ceilings.rs) before each model's turn, because the machine's speed drifts; shares are of the median."""


def drawing(results: Results) -> str:
    threads = max(results.threads(), default=1)
    kinds = {ONE_READ: "reading 512 tokens", WRITE: "writing", WRITE_DEEP: f"writing after {DEPTH} tokens"}

    def bars(model: str) -> list[Bar]:
        ratios = {kind: (results.ratio(model, test, threads), results.median("Hearth", model, test, threads)) for test, kind in kinds.items()}
        return [Bar(kind, ratio, f"{number(ours)} tokens/s") for kind, (ratio, ours) in ratios.items() if ratio]

    rows = [(model, drawn) for model in results.models if (drawn := bars(model))]
    panels = [Panel(f"Speed as a multiple of llama.cpp's, {plural(threads, 'thread')}", "llama.cpp", rows)] if rows else []
    if results.train:
        base = train.median(results.train, train.BASELINE, "tok_s")
        trained = {name: train.median(results.train, name, "tok_s") for name in results.train}
        rows = [(name, [Bar("", speed / base, f"{number(speed)} tokens/s")]) for name, speed in trained.items()]
        panels.append(Panel(f"Fine-tuning speed as a multiple of {train.BASELINE} on PyTorch", train.BASELINE, rows))
    return chart(panels)


def markdown(head: list[str], lines: list[list[str]]) -> str:
    """A table whose first column is words and whose others are figures."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] + ["---:"] * (len(head) - 1), *lines])


def plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"
