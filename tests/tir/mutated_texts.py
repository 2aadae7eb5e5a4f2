"""Texts with one to three tokens changed: each is read, checked, printed and lifted, or refused by a diagnostic.

`fuzz(seeds)` prints the texts of which something else comes.
"""

from __future__ import annotations

import random
import re
import signal
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import check, parse, print_module
from tests.lift.relax_operators import FUNCTIONS

TOKEN = re.compile(r'\s+|\w+|"[^"\n]*"|.')
STRANGE = [
    "-1",
    "0",
    "1.5",
    "None",
    "True",
    '"a"',
    "[]",
    "()",
    "1000000",
    "99999999999999999999",
    "1e39",
    "x",
    "*",
    "**",
]
KERNELS = Path(__file__).parent / "kernels"
SECONDS = 20
"""How long one text may take; what takes longer is passed over."""


class _TooLongError(Exception):
    pass


def samples() -> list[str]:
    """The texts that are changed, one function or module each."""
    texts = [t for path in sorted(KERNELS.glob("*.txt")) for t in path.read_text(encoding="utf-8").split("#----\n")]
    return texts + [_operator(*made) for made in FUNCTIONS]


def _operator(params: str, value: str) -> str:
    typed = re.sub(r"(\w+): \(([^)]*)\) (\w+)", r'\1: R.Tensor((\2), "\3")', params)
    return f"@R.function\ndef main({typed}):\n    return {value}\n"


def mutant(texts: Sequence[str], pool: Sequence[str], seed: int) -> str:
    """A text with few of its tokens left out or replaced."""
    numbers = random.Random(seed)
    tokens = TOKEN.findall(numbers.choice(texts))
    for _ in range(numbers.randint(1, 3)):
        place = numbers.randrange(len(tokens))
        if numbers.random() < 0.3:
            del tokens[place]
        else:
            tokens[place] = numbers.choice(STRANGE if numbers.random() < 0.4 else pool)
    return "".join(tokens)


def outcome(text: str, lifted: bool = True) -> str | None:
    """What comes of a text that is neither a result nor a diagnostic; None where all is well."""
    try:
        with _limited(SECONDS):
            module = parse(text)
            for dialect in ("new", "old"):
                if parse(print_module(module, dialect)) != module:
                    return f"the text in the {dialect} dialect is read as another module"
            check(module)
            for function in module.functions.values() if lifted else ():
                ti.lift(function)
    except (DiagnosticError, _TooLongError):
        return None
    except Exception:
        return traceback.format_exc(limit=-3)
    return None


def pool_of(texts: Iterable[str]) -> list[str]:
    """The tokens of texts, as often as they occur."""
    return [token for text in texts for token in TOKEN.findall(text) if token.strip()]


def fuzz(seeds: Iterable[int]) -> int:
    """Print what goes wrong; how many texts that were."""
    texts = samples()
    pool, wrong = pool_of(texts), 0
    for seed in seeds:
        text = mutant(texts, pool, seed)
        if (found := outcome(text)) is not None:
            wrong += 1
            print(f"--- mutated text, seed {seed}\n{text}\n{found}")
    return wrong


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
