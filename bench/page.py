"""Writes docs/PERFORMANCE.md, or another page, and its chart from saved results. The prose is in page.md.in."""

import re
import statistics
from pathlib import Path
from string import Template

import train
from chart import Bar, Panel, chart
from names import DEFAULT
from programs import AVX2, DEPTH, NATIVE, START_PROMPT
from results import Cell, Results
from tables import number, plural, speeds, starts, times

PAGE = Path("docs/PERFORMANCE.md")
PROSE = Path(__file__).with_suffix(".md.in")
COMMAND = "python bench/compare.py target/release/hearth --isa {isa}{train} --write docs/{page}"
PREFILL, DECODE, DECODE_DEEP = "prefill 512", "decode", f"decode at {DEPTH}"
ISA_TITLES = {NATIVE: "with all instructions of the machine", AVX2: "with AVX2 only"}


def write(results: Results, path: Path) -> None:
    path.write_text(page(results, path))
    (path.parent / chart_name(path)).write_text(drawing(results))


def chart_name(path: Path) -> str:
    return f"{path.stem.lower()}.svg"


def page(results: Results, path: Path = PAGE) -> str:
    """Fills in the prose. A section without a value for a placeholder on a separate line, such as its table, is left out."""
    prefill, decode = results.tests("prefill"), results.tests("decode")
    values = {
        "cpu": cpu(results),
        "peers": names(results),
        "with_peft": ", and fine-tuning with PEFT and PyTorch" if results.train else "",
        "and_peft": " and of PEFT" if results.train else "",
        "worst": worst(results),
        "chart": chart_name(path),
        "depth": DEPTH,
        "start_prompt": START_PROMPT,
        "default_model": DEFAULT,
        "rank": train.RANK,
        "batch": train.BATCH,
        "sequence": train.SEQ,
        "rounds": plural(len(next(iter(results.train.values()), [])), "round"),
        "steps": next((runs[0]["steps"] for runs in results.train.values()), 0),
        "prefill": speeds(results, prefill, "prompt", NATIVE),
        "decode": speeds(results, decode, "context", NATIVE),
        "prefill_avx2": speeds(results, prefill, "prompt", AVX2),
        "decode_avx2": speeds(results, decode, "context", AVX2),
        "start": starts(results),
        "fine_tuning": train.table(results.train) if results.train else "",
        "environment": environment(results, path),
    }
    head, *sections = re.split(r"\n(?=## )", PROSE.read_text(encoding="utf-8"))
    complete = [section for section in sections if all(values[name] for name in re.findall(r"^\$(\w+)$", section, re.MULTILINE))]
    text = "\n".join(Template(part).substitute(values) for part in [head, *complete])
    return re.sub(r"\n{3,}", "\n\n", text).rstrip("\n") + "\n"


def cpu(results: Results) -> str:
    features = results.about["instructions"]
    if any(name.startswith("avx512") for name in features):
        return "on a CPU with AVX-512"
    if "avx2" in features and "avx_vnni" not in features:
        return "on a CPU with AVX2 only"
    return f"on a CPU with {', '.join(features)}" if features else "on one CPU"


def names(results: Results) -> str:
    *first, last = results.peers()
    return f"{', '.join(first)} and {last}" if first else last


def worst(results: Results) -> str:
    """The worst ratio of each instruction set and the number of ratios below 1, the worst first; then the ratios of fine-tuning."""
    ratios_by_isa = sorted(((ratios, isa) for isa in results.isas() if (ratios := results.ratios(isa))), key=lambda pair: pair[0][0][0])
    lines = []
    for ratios, isa in ratios_by_isa:
        (ratio, cell), behind = ratios[0], sum(ratio < 1 for ratio, _ in ratios)
        best = results.best(cell)
        assert best
        lines.append(
            f"- Worst ratio {ISA_TITLES[isa]}: **{times(ratio)}**, {cell.test} of {cell.model}, {plural(cell.threads, 'thread')}: "
            f"{number(results.hearth(cell))} tokens per second, {best.program} {best.variant} {number(best.value)}. "
            f"{behind} of {plural(len(ratios), 'ratio')} {'is' if behind == 1 else 'are'} below 1; the median is "
            f"{times(statistics.median(ratio for ratio, _ in ratios))}."
        )
    for name, peer, ratio in train.ratios(results.train):
        lines.append(f"- Fine-tuning with products in {train.FACTORS[name]}: **{times(ratio)}** times {peer}.")
    return "\n".join(lines)


def environment(results: Results, path: Path) -> str:
    about, (fewest, most) = results.about, results.rounds()
    command = COMMAND.format(isa=",".join(results.isas()), train=" --train" if results.train else "", page=path.name)
    lines = [
        f"- {about['processor']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']}; {', '.join(about['instructions'])}.",
        *(f"- {text}" for isa in results.isas() for threads in results.threads() if (text := ceilings(results, threads, isa))),
        f"- {about['hearth']} (commit {about['commit'] or 'unknown'}), {', '.join(about['peers'].values())}.",
        f"- Measured on {about['date']} in {plural(round(results.seconds / 60), 'minute')}; load average before: {about['load']}. Every value "
        f"is the median of {plural(most, 'round') if fewest == most else f'{fewest} to {most} rounds'}.",
        f"- Written by `{command}`; the runs that measured it are in [bench/README.md](../bench/README.md).",
    ]
    return "\n".join(lines)


def ceilings(results: Results, threads: int, isa: str) -> str:
    """The range of each peak rate; empty if none was measured."""
    kinds = {"read_gb_s": "GB/s read", "int8_gmac_s": "GMAC/s in int8", "bf16_gmac_s": "GMAC/s in bf16", "f32_gmac_s": "GMAC/s in f32"}
    peaks_by_name = {name: peaks for kind, name in kinds.items() if (peaks := results.peaks(kind, threads=threads, isa=isa))}
    rates = ", ".join(f"{min(peaks):.0f} to {max(peaks):.0f} {name}" for name, peaks in peaks_by_name.items())
    return f"Peak rates {ISA_TITLES[isa]}, {plural(threads, 'thread')}: {rates}." if rates else ""


def drawing(results: Results) -> str:
    threads = max(results.threads(), default=1)
    kinds = {PREFILL: "prefill of 512 tokens", DECODE: "decode", DECODE_DEEP: f"decode after {DEPTH} tokens"}

    def bars(model: str) -> list[Bar]:
        cells = {kind: Cell(model, test, threads) for test, kind in kinds.items()}
        ratios = {kind: (results.ratio(cell), results.hearth(cell)) for kind, cell in cells.items()}
        return [Bar(kind, ratio, f"{number(ours)} tokens/s") for kind, (ratio, ours) in ratios.items() if ratio]

    rows = [(model, drawn) for model in results.models if (drawn := bars(model))]
    panels = [Panel(f"Speed as a multiple of the best of {names(results)}, {plural(threads, 'thread')}", "best peer", rows)] if rows else []
    if results.train:
        rows = [
            (f"Products in {train.FACTORS[name]}", [Bar("", ratio, f"{number(train.median(results.train, name, 'tok_s'))} tokens/s")])
            for name, _, ratio in train.ratios(results.train)
        ]
        panels.append(Panel("Fine-tuning speed as a multiple of the fastest PEFT with the same products", "fastest PEFT", rows))
    return chart(panels)
