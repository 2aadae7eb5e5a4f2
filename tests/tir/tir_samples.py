"""The texts that tests read: our own kernels, and the conformance modules where they lie beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
CONFORMANCE = HERE.parents[2] / "shared" / "conformance" / "tir"


def kernels(*stems: str) -> list[object]:
    """Parameters of a test: one text each, named by its first line."""
    found: list[object] = []
    for stem in stems:
        for text in (HERE / "kernels" / f"{stem}.txt").read_text().split("#----\n"):
            found.append(pytest.param(text, id=f"{stem}: {text.splitlines()[0].strip('# ')}"))
    return found


def conformance() -> list[object]:
    """Parameters of a test: one module each; a single skipped one where there are none."""
    files = sorted(CONFORMANCE.glob("*.py"))
    if not files:
        return [pytest.param("", marks=pytest.mark.skip(reason="the conformance modules are not here"))]
    return [pytest.param(file.read_text(), id=file.stem) for file in files]
