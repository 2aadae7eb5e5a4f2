"""Texts of TIR with loops written out: the body once for each number of the variable."""

from __future__ import annotations

import random
import re

__all__ = ["unrolled"]

MOST = 60
"""How many lines a text has at most."""

_LOOP = re.compile(r"^( *)for (\w+) in range\((\d+)\):$")


def unrolled(text: str, seed: int) -> str:
    r"""The text with some of its loops, chosen at random, written out.

    >>> print(unrolled("for i in range(2):\n    B[i] = i + 1\nB[2] = 0", 1))
    B[0] = 0 + 1
    B[1] = 1 + 1
    B[2] = 0
    """
    r, lines = random.Random(seed), text.split("\n")
    places = [k for k, line in enumerate(lines) if _LOOP.match(line)]
    # from the end, where loops are innermost
    for k in reversed(places):
        found = _LOOP.match(lines[k])
        assert found is not None
        indent, name, count = found[1], found[2], int(found[3])
        end = next((e for e in range(k + 1, len(lines)) if not _inside(lines[e], indent)), len(lines))
        body = lines[k + 1 : end]
        writes_out = r.random() < 0.7 and len(lines) + len(body) * (count - 1) <= MOST
        if not writes_out or any(re.search(r"\b(break|continue)\b", line) for line in body):
            continue
        copies = [re.sub(rf"\b{name}\b", str(c), line[4:]) for c in range(count) for line in body]
        lines[k:end] = copies or [f"{indent}T.evaluate(0)"]
    return "\n".join(lines)


def _inside(line: str, indent: str) -> bool:
    return not line.strip() or line.startswith(indent + " ")
