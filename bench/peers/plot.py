"""The plot of ratios: a bar for quire over the fastest peer, a diamond for the fraction of the machine's limit, a dashed line for the
target. Bars are green where quire is faster and orange where it is slower."""
from __future__ import annotations

import dataclasses
import math
from html import escape

import rows

ROW, TOP, FOOT = 22, 72, 24
INK, FAINT, FASTER, SLOWER, LIMIT = "#1f2933", "#d3dae3", "#2f855a", "#c05621", "#2b6cb0"


@dataclasses.dataclass(frozen=True)
class Layout:
    left: int  # width of the labels
    plot: int
    lowest: float  # longer bars are clipped
    highest: float
    targets: bool

    @property
    def width(self) -> int:
        return self.left + self.plot + 270

    def x_of(self, ratio: float) -> float:
        inside = min(max(ratio, self.lowest), self.highest)
        return self.left + self.plot * math.log(inside / self.lowest) / math.log(self.highest / self.lowest)


COMPLETE = Layout(left=330, plot=520, lowest=0.125, highest=8.0, targets=True)
# As wide as GitHub shows a picture in a README, so that nothing is scaled down.
SUMMARY = Layout(left=226, plot=334, lowest=0.5, highest=4.0, targets=False)


def text(x: float, y: float, words: str, anchor: str = "start", color: str = INK, size: int = 14) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}" font-size="{size}">{escape(words)}</text>'


def tick(x: float, y: float, color: str) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{y + ROW - 4}" stroke="{color}" stroke-width="2" stroke-dasharray="3 2"/>'


def row_shapes(layout: Layout, row: rows.Row, label: str, y: float) -> list[str]:
    shapes = [text(layout.left - 8, y + 15, label, "end")]
    ratio, right = row.ratio, layout.left + layout.plot
    if ratio is not None:
        begin, end = sorted((layout.x_of(1.0), layout.x_of(ratio)))
        color = FASTER if ratio >= 1.0 else SLOWER
        shapes.append(f'<rect x="{begin:.1f}" y="{y + 3:.1f}" width="{max(1.0, end - begin):.1f}" height="{ROW - 8}" fill="{color}"/>')
        shapes.append(text(right + 8, y + 15, f"{ratio:.2f} × {row.best_peer}", color=color))
    if layout.targets and row.wanted_ratio is not None:
        shapes.append(tick(layout.x_of(row.wanted_ratio), y + 1, INK))
    if row.of_limit is not None:
        x, middle = layout.x_of(row.of_limit), y + ROW / 2 - 1
        shapes.append(f'<path d="M{x - 5:.1f} {middle} L{x:.1f} {middle - 5} L{x + 5:.1f} {middle} L{x:.1f} {middle + 5} Z" fill="{LIMIT}" '
                      'stroke="#ffffff"/>')
        shapes.append(text(right + 142, y + 15, f"{row.of_limit:.2f} of the limit", color=LIMIT))
    return shapes


def headlines(found: list[rows.Row]) -> list[rows.Row]:
    """The rows of the first model that the README shows."""
    cases = {("decode", "1"), ("decode", "32"), ("prefill", "512"), ("offline", "mix")}
    return [r for r in found if r.model == found[0].model and (r.workload, r.case) in cases and r.format in ("f32", "bf16", "int8", "int4")]


def draw(found: list[rows.Row], layout: Layout = COMPLETE) -> str:
    shown = [r for r in found if r.workload not in ("memory",) and (r.ratio is not None or r.of_limit is not None)]
    models = {r.model for r in shown}
    only = shown[0].model if len(models) == 1 else None
    height, width = TOP + ROW * len(shown) + FOOT, layout.width
    about = "right of 1: quire is faster" + ("; dashed: target" if layout.targets else "") + "; logarithmic scale"
    title = "quire relative to the fastest peer (bars) and to the machine's limit (diamonds)"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
             'font-family="sans-serif">', f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
             text(8, 20, f"{only}: {title}" if only else title, size=16), text(8, 40, about, color="#52606d")]
    ratio = layout.lowest
    while ratio <= layout.highest:
        x = layout.x_of(ratio)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - 18}" stroke="{INK if ratio == 1 else FAINT}"/>')
        parts.append(text(x, TOP - 10, f"{ratio:g}", "middle", "#52606d", 12))
        ratio *= 2
    for i, row in enumerate(shown):
        # The title already has the name of the only model.
        label = row.label.removeprefix(f"{row.model} ") if only else row.label
        parts += row_shapes(layout, row, label, TOP + ROW * i)
    return "\n".join([*parts, "</svg>"]) + "\n"
