"""How many steps a time loop takes before it looks up: chunks are bounded in seconds, by measuring the first ones.

>>> pace = Pace(seconds=0.5)
>>> pace.measured(1, 3.0), pace.chunk(1000)             # the first chunk was compiled, too, and says nothing
(None, 1)
>>> pace.measured(1, 0.001), pace.chunk(1000)           # more, and not at once as many as that promises
(None, 8)
>>> pace.measured(8, 0.008), pace.chunk(40)
(None, 40)
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from tensorir.runtime.errors import leave

__all__ = ["Interrupt", "Pace", "interrupts"]

GROWTH = 8


@dataclass
class Pace:
    """The seconds of a step, as far as they are known."""

    seconds: float = 0.25
    """How long a chunk lasts at most, about; a request to stop is answered after it."""
    last: int = 0
    compiled: bool = False

    def chunk(self, left: int) -> int:
        """How many of the steps that are left come next."""
        return max(1, min(left, self.last))

    def measured(self, steps: int, seconds: float) -> None:
        """Learn from a chunk that was run."""
        if not self.compiled:
            self.compiled, self.last = True, 1
            return
        self.last = min(GROWTH * steps, int(steps * self.seconds / max(seconds, 1e-9)))


@dataclass
class Interrupt:
    """Whether the user, or the queue that the process runs in, asked to stop."""

    signal: int = 0
    """The number of the signal, 0 as long as none came."""

    @property
    def asked(self) -> bool:
        return self.signal != 0


@contextmanager
def interrupts() -> Iterator[Interrupt]:
    """Ctrl-C and SIGTERM are noted for the next chunk, so that no state is lost; a second one stops at once.

    Only the main thread gets them; in others nothing changes.
    """
    found = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield found
        return

    def note(number: int, frame: FrameType | None) -> None:
        if found.asked:
            raise KeyboardInterrupt
        found.signal = number

    # where somebody else handles a signal, they know why
    usual: dict[int, tuple[Any, ...]] = {
        signal.SIGINT: (signal.default_int_handler,), signal.SIGTERM: (signal.SIG_DFL, leave)
    }  # fmt: skip
    before: dict[int, Any] = {number: signal.getsignal(number) for number in usual}
    taken = {number: how for number, how in before.items() if how in usual[number]}
    for number in taken:
        signal.signal(number, note)
    try:
        yield found
    finally:
        for number, how in taken.items():
            signal.signal(number, how)
