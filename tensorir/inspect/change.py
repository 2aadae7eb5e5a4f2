"""The picture of a pass: a program before and after it, with what changed marked, and what it costs.

>>> import tensorir as ti
>>> f = ti.parse("f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { out ← x × 1.0; }")
>>> print(before_after("simplify", f))
simplify: 1 line of 3 changed; 3 operations before and 0 after.
"""

from __future__ import annotations

import difflib
from typing import Any

from tensorir.inspect.picture import INK, LINE, PALE, Drawing, Picture, width_of

__all__ = ["before_after"]

MAX_LINES = 80
"""Lines of a program that are drawn."""
MAX_COLUMNS = 110
MAX_COMPARED = 1000
"""Lines after the first difference that are compared."""
_LINE = 16
_OLD, _NEW = "#d4472b", "#2ba84a"


def before_after(a_pass: Any, program: Any) -> Picture:
    """What a pass, a pipeline, or the text of one makes of a program.

    The program is a fencil, a bound program, or an operator that was called. Raises N20 for a name that is no pass.

    >>> import tensorir as ti
    >>> f = ti.parse("f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { out ← x; }")
    >>> print(before_after("inline, cse", f))
    inline, cse: nothing changes.
    """
    from tensorir.analysis.cost import count
    from tensorir.inspect.subject import fencil_of, subject
    from tensorir.passes.pipeline import Pipeline

    chain = Pipeline(a_pass) if isinstance(a_pass, str) else a_pass
    name = str(chain) if isinstance(chain, Pipeline) else chain.name()
    before = subject(program)
    after = chain(before)
    old, new = (str(p).split("\n") for p in (before, after))
    costs = [count(fencil_of(p)) for p in (before, after)]
    rows = _aligned(old, new)
    changed = sum(mark != " " for mark, _, _ in rows)
    lines = f"{changed} line{'s' * (changed != 1)} of {len(rows)} changed"
    words = f"{name}: {lines}; {costs[0].operations:,} operations before and {costs[1].operations:,} after."
    if not changed:
        words = f"{name}: nothing changes."
    return _drawing(rows, words).picture(words, (before, after))


def _aligned(old: list[str], new: list[str]) -> list[tuple[str, str, str]]:
    """Lines side by side: " " where they are the same, "~" where they are not."""
    same = next((k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    rows = [(" ", line, line) for line in old[:same]]
    # what is compared after the first difference: comparing takes time that is quadratic in equal lines
    old, new = old[same : same + MAX_COMPARED], new[same : same + MAX_COMPARED]
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for k in range(max(b - a, d - c)):
            left = old[a + k] if a + k < b else ""
            right = new[c + k] if c + k < d else ""
            rows.append((" " if tag == "equal" else "~", left, right))
    return rows


def _drawing(rows: list[tuple[str, str, str]], words: str) -> Drawing:
    hidden = len(rows) - MAX_LINES
    rows = [(mark, _cut(a), _cut(b)) for mark, a, b in rows[:MAX_LINES]]
    wide = [max([200.0, *(width_of(r[side], 11) for r in rows)]) + 24 for side in (1, 2)]
    high = 62 + _LINE * len(rows) + (24 if hidden > 0 else 8)
    sheet = Drawing("before and after", max(sum(wide) + 36, width_of(words, 11) + 30), high)
    sheet.text(12, 18, words, size=11, colour=PALE)
    for side, (title, x) in enumerate((("before", 12.0), ("after", 24.0 + wide[0])), start=1):
        sheet.text(x, 40, title, bold=True)
        sheet.rect(x, 46, wide[side - 1], _LINE * len(rows) + 10, stroke=LINE, round=4)
        for k, row in enumerate(rows):
            y = 52 + _LINE * k
            if row[0] != " " and row[side]:
                colour = _OLD if side == 1 else _NEW
                sheet.rect(x + 1, y, wide[side - 1] - 2, _LINE, fill=colour, stroke="none", opacity=0.18)
            indent = len(row[side]) - len(row[side].lstrip())
            sheet.text(x + 8 + width_of(" " * indent, 11), y + 12, row[side].strip(), size=11, colour=INK)
    if hidden > 0:
        sheet.text(12, high - 8, f"{hidden} more lines are not drawn", size=11, colour=PALE)
    return sheet


def _cut(line: str) -> str:
    return line if len(line) <= MAX_COLUMNS else line[: MAX_COLUMNS - 1] + "…"
