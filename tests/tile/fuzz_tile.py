"""Damaged texts and files of Tile IR: each is read, or refused with a diagnostic, and never anything else.

`python -m tests.tile.fuzz_tile [count] [seed]` tries 20,000 of them, and prints what crashes, hangs or takes memory.
"""

from __future__ import annotations

import random
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import tensorir.tile as tile

HERE = Path(__file__).parent
SECONDS = 20.0  # of this process, of a fuzzing run alone: no test asserts a time
BYTES = 256 * 1024 * 1024
_PIECES = [
    "{", "}", "(", ")", "[", "]", "<", ">", ":", ",", "=", "->", "%", "#", "@", "!", '"', "x", "?", "-", "0x",
    "\\", "\0",
    "tile<", "ptr<", "f32", "i1", "99999999999999999999", "1e999", "nan", "loc(", "dense<", "array<i32:", "for", "loop",
    "if", "entry", "module", "cuda_tile.", "^bb0:", "true", "yield", "reduce", "é", "\u2028", "//", "unsigned",
]  # fmt: skip


def sources() -> tuple[list[str], list[bytes]]:
    """Right texts and files: the module with every operation, and the kernels of the conformance folder."""
    texts = [(HERE / "every_operation.mlir").read_text(encoding="utf-8")]
    folder = HERE.parents[2] / "shared" / "conformance" / "tile"
    texts += [p.read_text(encoding="utf-8") for p in sorted(folder.glob("*/kernel.mlir"))]
    files = [tile.to_bytecode(tile.parse(text)) for text in texts]
    files += [p.read_bytes() for p in sorted(folder.glob("*/*.tileirbc"))]
    return texts, files


def damaged_text(text: str, rng: random.Random) -> str:
    """A text with pieces moved, doubled, cut out or put in."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(6):
            case 0:
                text = text[:at] + rng.choice(_PIECES) + text[at:]
            case 1:
                text = text[:at] + text[at + rng.randint(1, 30) :]
            case 2:
                text = text[:at]
            case 3:
                start = rng.randrange(len(text) + 1)
                text = text[:at] + text[start : start + rng.randint(1, 200)] + text[at:]
            case 4:
                text = text[:at] + rng.choice(_PIECES) * rng.choice((2, 50, 3000)) + text[at:]
            case _:
                words = text.split(" ")
                a, b = rng.randrange(len(words)), rng.randrange(len(words))
                words[a], words[b] = words[b], words[a]
                text = " ".join(words)
        text = text or " "
    return text


def damaged_file(data: bytes, rng: random.Random) -> bytes:
    """A file with bits flipped, bytes replaced, parts cut out, doubled or swapped."""
    raw = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(raw))
        match rng.randrange(6):
            case 0:
                raw[at] ^= 1 << rng.randrange(8)
            case 1:
                raw[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 2:
                del raw[at : at + rng.randint(1, 20)]
            case 3:
                raw[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 12)))
            case 4:
                start = rng.randrange(len(raw))
                raw[at:at] = raw[start : start + rng.randint(1, 60)]
            case _:
                del raw[at:]
        raw = raw or bytearray(b"\x7f")
    return bytes(raw)


def failures(count: int, seed: int, memory: bool = False, seconds: float | None = None) -> Iterator[str]:
    """What goes wrong with so many damaged inputs."""
    rng = random.Random(seed)
    texts, files = sources()
    for number in range(count):
        given = damaged_text(rng.choice(texts), rng) if number % 2 else damaged_file(rng.choice(files), rng)
        if memory:
            tracemalloc.start()
        began = time.process_time()
        try:
            module = tile.parse(given) if isinstance(given, str) else tile.from_bytecode(given)
            tile.verify(module)
            if tile.parse(str(module)) != module:
                yield f"input {number} of seed {seed} does not go round: {given!r:.3000}"
        except tile.DiagnosticError as found:
            str(found)
        except Exception as problem:
            yield f"input {number} of seed {seed}: {type(problem).__name__}: {problem}\n{given!r:.3000}"
        if seconds is not None and (took := time.process_time() - began) > seconds:
            yield f"input {number} of seed {seed} takes {took:.1f} s"
        if memory:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            if peak > BYTES:
                yield f"input {number} of seed {seed} takes {peak >> 20} MB"


def main(count: int = 20_000, seed: int | None = None) -> int:
    """Try so many; 1 where one fails."""
    seed = int(time.time()) if seed is None else seed
    for failure in failures(count, seed, seconds=SECONDS):
        print(failure)
        return 1
    print(f"{count} damaged texts and files of Tile IR, seed {seed}: each read or refused")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))
