"""What diagnostics advise, in the words of the command line: `--set n=10` where a script writes `n=10`.

>>> from tensorir.runtime.errors import Diagnostic
>>> spelled(Diagnostic("B01", "the size 'n' is not bound.", help="give it a value: n=10.")).help
'give it a value: --set n=10.'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tensorir.runtime.errors import Diagnostic

__all__ = ["spelled"]

_NAMES = [
    (
        r"parse\(text, names=\{(.*?)\}\)",
        lambda m: re.sub(r"'(\w+)': \.\.\.(?:, )?", r"--name \1=... ", m[1]).rstrip(),
    ),
    (r"by names=", "by --name"),
]
_SPELLINGS: dict[str, list[tuple[str, str | Callable[[re.Match[str]], str]]]] = {
    "A02": [(r"pass \w+\.astype\('\w+'\)", "add --cast")],
    "A11": [
        (r"pass (\w+)=, (tensor<\w+>)", r"write --set \1=1, a \2"),
        (r"pass (\w+)=, (tensor<.*>)", r"write --input \1=arrays.npz, a \2"),
    ],
    "B01": [(r"(\w+)=10\b", r"--set \1=10")],
    "N08": [(r'fencil="(\w+)"', r"--fencil \1")],
    **dict.fromkeys(("TS10", "TS25", "TS35", "TS37", "TS50", "TT02"), _NAMES),
}
"""By the code of a diagnostic what its help says to a script, and what that is on the command line."""


def spelled(found: Diagnostic) -> Diagnostic:
    """A diagnostic whose help names options."""
    help = found.help
    for python, option in _SPELLINGS.get(found.code, ()):
        help = re.sub(python, option, help)
    return replace(found, help=help)
