"""A time loop that the user stopped, with what was computed until then."""

from __future__ import annotations

from typing import Any

__all__ = ["Interrupted"]


class Interrupted(KeyboardInterrupt):
    """A time loop that Ctrl-C stopped; `state` is the last whole one, after `steps` steps, and `kept` what was kept.

    >>> Interrupted(3, 10, [1.0], None)
    Interrupted('stopped after 3 of 10 steps; .state is the state after them')
    """

    steps: int
    state: Any
    kept: Any

    def __init__(self, steps: int, n: int, state: Any, kept: Any) -> None:
        super().__init__(f"stopped after {steps:,} of {n:,} steps; .state is the state after them")
        self.steps, self.state, self.kept = steps, state, kept
