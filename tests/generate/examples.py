"""How many generated programs a test draws: all in `make nightly`, a third of them in an ordinary run."""

import os

__all__ = ["examples"]


def examples(nightly: int) -> int:
    """The number for this run. `make fuzz` draws new ones of all these properties without end."""
    return nightly if "NIGHTLY" in os.environ else -(-nightly // 3)
