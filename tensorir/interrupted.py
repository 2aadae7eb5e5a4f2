"""A time loop that the user stopped, with what was computed until then."""

from __future__ import annotations

import sys
from signal import SIGINT
from types import FrameType
from typing import Any

__all__ = ["Interrupted", "leave"]


def leave(number: int, frame: FrameType | None) -> None:
    """The handler of a command for SIGTERM: an exception, so that what is half written is taken away."""
    sys.exit(128 + number)


class Interrupted(KeyboardInterrupt):
    """A time loop that Ctrl-C or SIGTERM stopped: `state` is the last whole one, after `steps` steps.

    `kept` is what was kept until then, and `signal` the number of the signal.

    >>> Interrupted(3, 10, [1.0], None)
    Interrupted('stopped after 3 of 10 steps; .state is the state after them')
    """

    steps: int
    state: Any
    kept: Any

    signal: int

    def __init__(self, steps: int, n: int, state: Any, kept: Any, signal: int = SIGINT) -> None:
        super().__init__(f"stopped after {steps:,} of {n:,} steps; .state is the state after them")
        self.steps, self.state, self.kept, self.signal = steps, state, kept, signal
