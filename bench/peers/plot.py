"""The plot of ratios: a bar for quire over the fastest peer, a diamond for the fraction of the limit, a dashed line for the target."""
from __future__ import annotations

import math
from html import escape

import rows

LEFT, PLOT, ROW, TOP = 330, 520, 22, 64
LOWEST, HIGHEST = 0.125, 8.0  # longer bars are clipped
INK, FAINT, GOOD, BAD, LIMIT = "#1f2933", "#d3dae3", "#2f855a", "#c05621", "#2b6cb0"


def x_of(ratio: float) -> float:
    inside = min(max(ratio, LOWEST), HIGHEST)
    return LEFT + PLOT * math.log(inside / LOWEST) / math.log(HIGHEST / LOWEST)


def text(x: float, y: float, words: str, anchor: str = "start", color: str = INK, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}" font-size="{size}">{escape(words)}</text>'


def tick(x: float, y: float, color: str) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{y + ROW - 4}" stroke="{color}" stroke-width="2" stroke-dasharray="3 2"/>'


def row_shapes(row: rows.Row, y: float) -> list[str]:
    shapes = [text(LEFT - 8, y + 14, row.label, "end")]
    ratio = row.ratio
    if ratio is not None:
        begin, end = sorted((x_of(1.0), x_of(ratio)))
        color = GOOD if ratio >= (row.wanted_ratio or 1.0) else BAD
        shapes.append(f'<rect x="{begin:.1f}" y="{y + 3:.1f}" width="{max(1.0, end - begin):.1f}" height="{ROW - 8}" fill="{color}"/>')
        shapes.append(text(LEFT + PLOT + 8, y + 14, f"{ratio:.2f} × {row.best_peer}", color=color))
    if row.wanted_ratio is not None:
        shapes.append(tick(x_of(row.wanted_ratio), y + 1, INK))
    if row.of_limit is not None:
        x, middle = x_of(row.of_limit), y + ROW / 2 - 1
        shapes.append(f'<path d="M{x - 5:.1f} {middle} L{x:.1f} {middle - 5} L{x + 5:.1f} {middle} L{x:.1f} {middle + 5} Z" fill="{LIMIT}" '
                      'stroke="#ffffff"/>')
        shapes.append(text(LEFT + PLOT + 150, y + 14, f"{row.of_limit:.2f} of the limit", color=LIMIT))
    return shapes


def headlines(found: list[rows.Row]) -> list[rows.Row]:
    """The rows of the first model that the README shows."""
    cases = {("decode", "1"), ("decode", "32"), ("prefill", "512"), ("offline", "mix")}
    return [r for r in found if r.model == found[0].model and (r.workload, r.case) in cases and r.format in ("f32", "bf16", "int8", "int4")]


def draw(found: list[rows.Row]) -> str:
    shown = [r for r in found if r.workload not in ("memory",) and (r.ratio is not None or r.of_limit is not None)]
    height, width = TOP + ROW * len(shown) + 24, LEFT + PLOT + 290
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
             'font-family="sans-serif">', f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
             text(LEFT, 20, "quire relative to the fastest peer (bars) and to the machine's limit (diamonds)", size=14),
             text(LEFT, 38, "right of 1: quire is faster; dashed: target; logarithmic scale", color="#52606d")]
    ratio = LOWEST
    while ratio <= HIGHEST:
        x = x_of(ratio)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - 18}" stroke="{INK if ratio == 1 else FAINT}"/>')
        parts.append(text(x, TOP - 10, f"{ratio:g}", "middle", "#52606d", 11))
        ratio *= 2
    for i, row in enumerate(shown):
        parts += row_shapes(row, TOP + ROW * i)
    return "\n".join([*parts, "</svg>"]) + "\n"
