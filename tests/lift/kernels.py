"""Run times of twenty lifted kernels beside those that another checkout makes of them.

`python -m tests.lift.ratchet --beside PATH [words]`: the other checkout lifts the texts of `kernels.txt` in a process
of its own and exports StableHLO; both programs of a kernel then run in this one, in turns. A line is printed for each
kernel with the ratio of this checkout's time to the other's; values that differ are told. Words choose kernels.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export

SLOWER = 1.05
"""The ratio above which a kernel is slower."""
_BUFFER = re.compile(r'T\.Buffer\(\(([\d, ]+)\), "(\w+)"\)')

_PLACES = re.compile(r" ?loc\(#?\w+\)|^#loc.*$", re.MULTILINE)
"""What of a module says where it was made."""


def kernels() -> dict[str, str]:
    cases = Path(__file__).with_name("kernels.txt").read_text(encoding="utf-8").split("#---- ")[1:]
    return dict(case.split("\n", 1) for case in cases)


def lifted(text: str) -> tuple[Any, list[np.ndarray]]:
    """The lifted program of a kernel, and its arguments."""
    import tensorir as ti
    from tensorir import tile

    rng = np.random.default_rng(0)
    if text.startswith("entry"):
        args = [
            rng.uniform(-1, 1, [int(n) for n in shape.split(", ")]).astype("float32")
            for shape in re.findall(r"shape = \[([\d, ]+)\]", text)
        ]
        return ti.lift(tile.parse(text), grid=args[0].shape[0] // 4, args=args), args
    args = []
    for shape, element in _BUFFER.findall(text):
        extents = [int(n) for n in shape.split(",") if n.strip()]
        whole = element.startswith("int")
        args.append((rng.integers(0, 64, extents) if whole else rng.uniform(-1, 1, extents)).astype(element))
    return ti.lift(ti.tir.parse(text)["main"]), args


def exported(folder: Path, words: list[str]) -> None:
    """Writes StableHLO of each kernel, as the tensorir that is imported lifts it."""
    for k, (name, text) in enumerate(kernels().items()):
        if not words or any(w in name for w in words):
            program, args = lifted(text)
            (folder / str(k)).write_bytes(export.export(jax.jit(lambda *xs, p=program: p(*xs)))(*args).serialize())


def compared(other: Path, words: list[str]) -> Iterator[tuple[str, float, float, bool]]:
    """Name, milliseconds here and there, and whether the values are alike; no times where both have one program."""
    from tests.benchmarks.interleaved import compare

    here = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as made:
        folders = {path: Path(made, name) for name, path in (("here", here), ("there", other.absolute()))}
        for path, folder in folders.items():
            folder.mkdir()
            # the file by its path: the other checkout may not have it; -P keeps this folder out of its imports
            call = [sys.executable, "-P", __file__, str(folder), *words]
            subprocess.run(call, check=True, cwd=folder, env={**os.environ, "PYTHONPATH": str(path)})
        for k, (name, text) in enumerate(kernels().items()):
            files = [folder / str(k) for folder in folders.values()]
            if not files[0].exists():  # not asked for
                continue
            args = [jax.numpy.asarray(a) for a in lifted(text)[1]]
            programs = [export.deserialize(bytearray(f.read_bytes())) for f in files]
            if len({_PLACES.sub("", p.mlir_module()) for p in programs}) == 1:
                yield name, 0.0, 0.0, True
                continue
            first, second = (jax.jit(p.call) for p in programs)
            pairs = zip(jax.tree.leaves(first(*args)), jax.tree.leaves(second(*args)), strict=True)
            alike = all(np.allclose(x, y, rtol=1e-4, atol=1e-5, equal_nan=True) for x, y in pairs)
            ways = {n: partial(_waited, f, *args) for n, f in (("here", first), ("there", second))}
            best = {"here": np.inf, "there": np.inf}
            for _ in range(5):  # what looks slower may be what else the machine does
                best = {n: min(best[n], s) for n, s in compare(ways, rounds=30).items()}
                if best["here"] <= SLOWER * best["there"]:
                    break
            yield name, 1e3 * best["here"], 1e3 * best["there"], alike


def _waited(function: Any, *args: Any) -> Any:
    return jax.block_until_ready(function(*args))


def beside(words: list[str]) -> int:
    """Ratios to the checkout that is named first; 1 where a kernel is slower or has other values."""
    wrong = 0
    for name, here, there, alike in compared(Path(words[0]), words[1:]):
        if not there:
            print(f"{name:46} the same StableHLO", flush=True)
            continue
        slower = here > SLOWER * there
        wrong += slower or not alike
        said = (", slower" if slower else "") + ("" if alike else ", other values")
        print(f"{name:46} {here:9.3f} ms, there {there:9.3f} ms, ratio {here / there:5.2f}{said}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    # a process of `compared`
    warnings.simplefilter("ignore")
    exported(Path(sys.argv[1]), sys.argv[2:])
