"""Corpora of tests: texts by title, with what is expected of each.

    #==== heading: lines around all texts of the group, with {0} in the place of a text
    #---- title
    lines of the text
    #! lines of what is expected

Titles are unique in a file.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["corpus"]


def corpus(path: Path) -> dict[str, tuple[str, str]]:
    """Texts, which end with their last line, and what is expected, by title."""
    cases: dict[str, tuple[str, str]] = {}
    for group in path.read_text(encoding="utf-8").split("#==== ")[1:]:
        front, *made = group.split("#---- ")
        _, _, head = front.partition("\n")
        for case in made:
            title, *lines = case.splitlines()
            text = [line for line in lines if not line.startswith("#!")]
            expected = "\n".join(line[3:] for line in lines if line.startswith("#!"))
            assert title not in cases, title
            cases[title] = _placed(text, head.rstrip("\n")), expected
    return cases


def _placed(text: list[str], head: str) -> str:
    """Lines in the place of `{0}`, as far from the margin as it is."""
    before, place, after = head.partition("{0}")
    margin = before.rpartition("\n")[2] if not before.rpartition("\n")[2].strip() else ""
    return before + f"\n{margin}".join(text) + after if place else "\n".join(text)
