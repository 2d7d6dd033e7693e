"""The chart of the page, as an SVG file that follows the reader's light or dark theme."""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, BAR, GAP = 820, 160, 150, 15, 16
STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #24292f }
.small { font-size: 11px; fill: #57606a } .title { font-size: 15px; font-weight: 600 } .end { text-anchor: end } .middle { text-anchor: middle }
.grid { stroke: #d0d7de } .one { stroke: #24292f; stroke-width: 1.5 }
.k0 { fill: #d9601a } .k1 { fill: #1f6feb } .k2 { fill: #7a4fc9 } .k3 { fill: #1a7f5a }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9198a1 } .grid { stroke: #30363d } .one { stroke: #e6edf3 }
  .k0 { fill: #f0883e } .k1 { fill: #58a6ff } .k2 { fill: #b392f0 } .k3 { fill: #3fb98a }
}
"""


@dataclass(frozen=True)
class Bar:
    """A multiple of the baseline, and the value as text."""

    kind: str
    times: float
    figure: str


@dataclass(frozen=True)
class Panel:
    title: str
    # Label of the line at one.
    one: str
    # A name and its bars, from top to bottom.
    rows: Sequence[tuple[str, Sequence[Bar]]]


def chart(panels: Sequence[Panel]) -> str:
    """An SVG of panels, one below the other."""
    parts, y = [], 8
    for panel in panels:
        drawn, height = draw(panel, y)
        parts += drawn
        y += height + 24
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img">',
        f"<title>{escape('; '.join(panel.title for panel in panels))}</title>",
        f"<style>{STYLE}</style>",
        *parts,
        "</svg>\n",
    ])


def draw(panel: Panel, top: int) -> tuple[list[str], int]:
    """The elements of a panel, and its height."""
    kinds = list(dict.fromkeys(bar.kind for _, bars in panel.rows for bar in bars))
    most = max((bar.times for _, bars in panel.rows for bar in bars), default=1.0)
    step = next(step for step in [0.5, 1, 2, 5, 10, 50, 1e9] if most / step <= 8)
    scale = (WIDTH - LEFT - RIGHT) / max(most, 1.25)
    parts = [text(8, top + 14, panel.title, "title")]
    x = float(LEFT)
    for kind in kinds if len(kinds) > 1 else []:
        parts += [rect(x, top + 26, 11, 11, kinds.index(kind)), text(x + 16, top + 36, kind, "small")]
        x += 34 + 6.6 * len(kind)

    begin = y = top + (62 if len(kinds) > 1 else 42)
    bars_drawn = []
    for name, bars in panel.rows:
        middle = y + len(bars) * BAR / 2
        bars_drawn.append(text(LEFT - 10, middle + 4, name, "end"))
        for bar in bars:
            bars_drawn.append(rect(LEFT, y + 1, max(bar.times * scale, 1), BAR - 2, kinds.index(bar.kind)))
            bars_drawn.append(text(LEFT + bar.times * scale + 6, y + BAR - 4, f"{bar.times:.2f}× · {bar.figure}", "small"))
            y += BAR
        y += GAP
    end = y - GAP + 6
    for n in range(int(most / step) + 1):
        at = LEFT + n * step * scale
        parts += [line(at, begin - 4, end, "grid"), text(at, end + 14, f"{n * step:g}×", "small middle")]
    one = LEFT + scale
    return [*parts, *bars_drawn, line(one, begin - 4, end, "one"), text(one, begin - 9, panel.one, "small middle")], end + 14 - top


def text(x: float, y: float, content: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(content)}</text>'


def rect(x: float, y: float, width: float, height: float, kind: int) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" rx="2" class="k{kind % 4}"/>'


def line(x: float, begin: float, end: float, kind: str) -> str:
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{begin:.1f}" y2="{end:.1f}" class="{kind}"/>'
