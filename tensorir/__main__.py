"""`python -m tensorir`: the command `tensorir`, which is found as it was installed (imports run one way)."""

from __future__ import annotations

import sys
from importlib import metadata


def main() -> None:
    """Run the command; exit code 2 where it is not installed."""
    commands = metadata.entry_points(group="console_scripts", name="tensorir")
    if not commands:
        sys.stderr.write("error[A14]: the command 'tensorir' is not installed.\nhelp: pip install .\n")
        raise SystemExit(2)
    next(iter(commands)).load()()


if __name__ == "__main__":
    main()
