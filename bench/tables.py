"""Tables of the page, and values as text."""

from collections.abc import Callable

from programs import HEARTH, MEMORY, START, can_run
from results import Best, Cell, Results, quotient


def speeds(results: Results, tests: list[str], column: str, isa: str) -> str:
    """A table of all programs for each number of threads."""
    tables = []
    for threads in results.threads():
        cells = [Cell(model, test, threads, isa) for model in results.models for test in tests]
        # Without those that cannot be limited to the instruction set.
        peers = [name for name in results.peers() if any(can_run(name, cell.model, cell.test, isa) for cell in cells)]
        lines = [
            [cell.model, cell.test.partition(" ")[2].removeprefix("at ") or "0", *columns]
            for cell in cells
            if any(columns := speed(results, cell, peers))
        ]
        head = ["model", column, HEARTH, "of the peak", *peers, "of the peak", "ratio"]
        tables += [f"{plural(threads, 'thread')}:\n\n{markdown(head, lines)}"] if lines else []
    return "\n\n".join(tables)


def speed(results: Results, cell: Cell, names: list[str]) -> list[str]:
    """Speeds of Hearth and of these peers with their better variants, the best in bold; shares of the peak, and the ratio."""
    ceiling, ours, best = results.ceiling(cell), results.hearth(cell), results.best(cell)
    peers = [contender(results.peer(name, cell), best, number) for name in names]
    return [number(ours), percent(quotient(ours, ceiling)), *peers, percent(quotient(best and best.value, ceiling)), times(results.ratio(cell))]


def contender(peer: Best | None, best: Best | None, shown: Callable[[float | None], str]) -> str:
    """A value and the variant that reached it, in bold if it is the best of all peers."""
    if peer is None:
        return ""
    text = f"{shown(peer.value)} {peer.variant}"
    return f"**{text}**" if peer == best else text


def starts(results: Results) -> str:
    lines = []
    for model, facts in results.models.items():
        for threads in results.threads():
            start, memory = Cell(model, START.name, threads), Cell(model, MEMORY, threads)
            if results.hearth(start) or results.best(start):
                file, mb = facts["file_bytes"] / 1e6, results.hearth(memory)
                lines.append([
                    model, times(results.hearth(start)), named(results.best(start), times), times(results.ratio(start)),
                    f"{file:.0f}", number(mb), named(results.best(memory), number), times(quotient(mb, file)),
                ])  # fmt: skip
    head = ["model", "Hearth, s", "best peer, s", "ratio", "file, MB", "Hearth, MB", "best peer, MB", "Hearth / file"]
    return markdown(head, lines) if lines else ""


def named(best: Best | None, shown: Callable[[float | None], str]) -> str:
    return f"{shown(best.value)} {best.program} {best.variant}" if best else ""


def markdown(head: list[str], lines: list[list[str]]) -> str:
    """A Markdown table: text in the first column, right-aligned values in the others."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] + ["---:"] * (len(head) - 1), *lines])


def plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"
