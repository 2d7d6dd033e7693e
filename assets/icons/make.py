"""Draws Hearth's icon: an ember flame on a warm dark tile.

    python3 assets/icons/make.py        writes the PNG, ICO and ICNS files beside this script

Needs only Python's standard library, so that anyone can change a curve and run it again. The outline is a
list of cubic Bezier curves on a square of 0 to 1, y downwards; `hearth.svg` is written from the same list.
"""

import struct
import zlib
from pathlib import Path

HERE = Path(__file__).parent
SAMPLES = 4  # a side; a pixel is the mean of SAMPLES * SAMPLES points

TILE_TOP, TILE_BOTTOM = (0x2B, 0x26, 0x20), (0x19, 0x17, 0x14)
FLAME_TOP, FLAME_BOTTOM = (0xF0, 0x8A, 0x4B), (0xC8, 0x50, 0x1C)
CORE_TOP, CORE_BOTTOM = (0xFF, 0xE3, 0xB8), (0xFF, 0xB8, 0x6B)
TILE_MARGIN, TILE_RADIUS = 0.045, 0.21

# Each curve begins where the one before it ends: start, then (control, control, end) triples.
FLAME = ((0.535, 0.150), [
    ((0.560, 0.285), (0.745, 0.395), (0.745, 0.605)),
    ((0.745, 0.755), (0.640, 0.850), (0.500, 0.850)),
    ((0.360, 0.850), (0.255, 0.755), (0.255, 0.615)),
    ((0.255, 0.510), (0.310, 0.445), (0.350, 0.385)),
    ((0.365, 0.445), (0.390, 0.475), (0.425, 0.490)),
    ((0.405, 0.365), (0.445, 0.235), (0.535, 0.150)),
])
CORE = ((0.520, 0.520), [
    ((0.540, 0.590), (0.620, 0.625), (0.620, 0.710)),
    ((0.620, 0.785), (0.565, 0.825), (0.500, 0.825)),
    ((0.435, 0.825), (0.380, 0.785), (0.380, 0.715)),
    ((0.380, 0.635), (0.470, 0.605), (0.520, 0.520)),
])


def outline(shape, steps=48):
    """The curves of `shape` as one polygon."""
    point, curves = shape
    points = [point]
    for first, second, end in curves:
        for step in range(1, steps + 1):
            t = step / steps
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3)
            corners = (point, first, second, end)
            points.append(tuple(sum(w * c[axis] for w, c in zip(weights, corners)) for axis in (0, 1)))
        point = end
    return points


def crossings(polygon, y):
    """Where a horizontal line at `y` crosses the polygon, from left to right."""
    found = []
    for (x0, y0), (x1, y1) in zip(polygon, polygon[1:] + polygon[:1]):
        if (y0 <= y) != (y1 <= y):
            found.append(x0 + (y - y0) * (x1 - x0) / (y1 - y0))
    return sorted(found)


def tile_span(y):
    """The tile's left and right edge at height `y`, or nothing above and below it."""
    low, high = TILE_MARGIN, 1 - TILE_MARGIN
    if not low <= y <= high:
        return []
    depth = max(low + TILE_RADIUS - y, y - (high - TILE_RADIUS), 0)
    inset = TILE_RADIUS - (TILE_RADIUS**2 - depth**2) ** 0.5
    return [low + inset, high - inset]


def blend(top, bottom, share):
    share = min(max(share, 0), 1)
    return tuple(a + (b - a) * share for a, b in zip(top, bottom))


def inside(spans, x):
    return any(left <= x < right for left, right in zip(spans[::2], spans[1::2]))


def render(size):
    """RGBA rows of the icon, `size` pixels a side."""
    flame, core = outline(FLAME), outline(CORE)
    rows = []
    for row in range(size):
        sums = [[0.0] * 4 for _ in range(size)]
        for sample in range(SAMPLES):
            y = (row + (sample + 0.5) / SAMPLES) / size
            tile, outer, inner = tile_span(y), crossings(flame, y), crossings(core, y)
            colors = (
                (inner, blend(CORE_TOP, CORE_BOTTOM, (y - 0.52) / 0.30)),
                (outer, blend(FLAME_TOP, FLAME_BOTTOM, (y - 0.15) / 0.70)),
                (tile, blend(TILE_TOP, TILE_BOTTOM, y)),
            )
            for index in range(size * SAMPLES):
                x = (index + 0.5) / (size * SAMPLES)
                color = next((color for spans, color in colors if inside(spans, x)), None)
                if color:
                    pixel = sums[index // SAMPLES]
                    for channel in range(3):
                        pixel[channel] += color[channel]
                    pixel[3] += 1
        line = bytearray()
        for red, green, blue, count in sums:
            shown = count or 1
            line += bytes((round(red / shown), round(green / shown), round(blue / shown)))
            line.append(round(255 * count / SAMPLES**2))
        rows.append(bytes(line))
    return rows


def png(size):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    pixels = b"".join(b"\0" + row for row in render(size))
    header = struct.pack(">IIBBBBB", size, size, 8, 6, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels, 9))
            + chunk(b"IEND", b""))


def ico(images):
    offset = 6 + 16 * len(images)
    table = struct.pack("<HHH", 0, 1, len(images))
    for size, body in images.items():
        side = size % 256  # 256 is written as 0
        table += struct.pack("<BBBBHHII", side, side, 0, 0, 1, 32, len(body), offset)
        offset += len(body)
    return table + b"".join(images.values())


def icns(images):
    kinds = {32: b"ic11", 64: b"ic12", 128: b"ic07", 256: b"ic08", 512: b"ic09"}
    body = b"".join(kind + struct.pack(">I", len(images[size]) + 8) + images[size] for size, kind in kinds.items())
    return b"icns" + struct.pack(">I", len(body) + 8) + body


def svg():
    def path(shape):
        start, curves = shape
        text = "M" + ",".join(f"{value:g}" for value in start)
        return text + "".join("C" + " ".join(f"{x:g},{y:g}" for x, y in curve) for curve in curves) + "Z"

    def gradient(name, top, bottom):
        stops = "".join(f'<stop offset="{at}" stop-color="#{bytes(color).hex()}"/>'
                        for at, color in ((0, top), (1, bottom)))
        return f'<linearGradient id="{name}" x2="0" y2="1">{stops}</linearGradient>'

    side = 1 - 2 * TILE_MARGIN
    return "\n".join((
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1" role="img" aria-label="Hearth">',
        f"<defs>{gradient('tile', TILE_TOP, TILE_BOTTOM)}{gradient('flame', FLAME_TOP, FLAME_BOTTOM)}"
        f"{gradient('core', CORE_TOP, CORE_BOTTOM)}</defs>",
        f'<rect x="{TILE_MARGIN}" y="{TILE_MARGIN}" width="{side:g}" height="{side:g}" rx="{TILE_RADIUS}" fill="url(#tile)"/>',
        f'<path d="{path(FLAME)}" fill="url(#flame)"/>',
        f'<path d="{path(CORE)}" fill="url(#core)"/>',
        "</svg>",
        "",
    ))


def main():
    images = {size: png(size) for size in (16, 32, 48, 64, 128, 256, 512)}
    for name, size in {"32x32": 32, "128x128": 128, "128x128@2x": 256, "icon": 512}.items():
        (HERE / f"{name}.png").write_bytes(images[size])
    (HERE / "icon.ico").write_bytes(ico({size: images[size] for size in (16, 32, 48, 64, 256)}))
    (HERE / "icon.icns").write_bytes(icns(images))
    (HERE / "hearth.svg").write_text(svg())


if __name__ == "__main__":
    main()
