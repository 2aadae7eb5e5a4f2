"""An operator per function: what GT4Py reads the source of must be a source."""

from __future__ import annotations

import linecache
from typing import Any

from tests.peers.gt4py.sides import I, gtx

NAMES = "sin cos tan arctan sinh cosh tanh arcsinh sqrt exp log cbrt floor ceil trunc gamma abs"


def _operator(name: str) -> Any:
    source = f"@gtx.field_operator\ndef apply_{name}(x: F) -> F:\n    return {name}(x)\n"
    file = f"<{name}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    known: dict[str, Any] = {"gtx": gtx, "F": gtx.Field[[I], gtx.float64], name: getattr(gtx, name)}
    exec(compile(source, file, "exec"), known)
    return known[f"apply_{name}"]


OPERATORS = {name: _operator(name) for name in NAMES.split()}
