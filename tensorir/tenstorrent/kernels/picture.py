"""The fill of circular buffers over time, as SVG."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorir.tenstorrent.kernels.simulate import Simulation

__all__ = ["fill_picture"]

_WIDE, _HIGH, _LEFT, _TOP = 640, 48, 110, 24


def fill_picture(run: Simulation, core: int) -> str:
    """A row for each circular buffer of a core: tiles upwards, up to its capacity, over the steps of the core."""
    own = [event for event in run.trace if event.core == core]
    queues = run.program.buffers
    high = _TOP + len(queues) * (_HIGH + 16) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDE + 20} {high}" '
        f'width="{_LEFT + _WIDE + 20}" height="{high}" font-family="sans-serif" font-size="12">',
        f'<text x="{_LEFT}" y="15">tiles in each circular buffer of core {core}</text>',
    ]
    step = _WIDE / max(len(own), 1)
    for row, queue in enumerate(queues):
        top = _TOP + row * (_HIGH + 16)
        base = top + _HIGH
        x, fill = float(_LEFT), 0
        path = [f"M{x:.1f} {base}"]
        for place, event in enumerate(own, 1):
            if event.buffer != queue.name or event.fill == fill:
                continue
            x, fill = _LEFT + place * step, event.fill
            path += [f"H{x:.1f}", f"V{base - fill / queue.capacity * _HIGH:.1f}"]
        path += [f"H{_LEFT + _WIDE}", f"V{base}", "Z"]
        parts += [
            f'<text x="{_LEFT - 8}" y="{base - _HIGH / 2 + 4}" text-anchor="end">{escape(queue.name)}</text>',
            f'<text x="{_LEFT + _WIDE + 4}" y="{top + 10}">{queue.capacity}</text>',
            f'<line x1="{_LEFT}" y1="{top}" x2="{_LEFT + _WIDE}" y2="{top}" stroke="#bbb" stroke-dasharray="3 3"/>',
            f'<path d="{" ".join(path)}" fill="#8fb8de" stroke="#1f5c99"/>',
        ]
    parts.append(f'<text x="{_LEFT + _WIDE}" y="{high - 8}" text-anchor="end">{len(own)} steps</text></svg>')
    return "\n".join(parts)
