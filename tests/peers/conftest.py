"""TVM reads TVMScript without the source line of every frame of pytest's stack at every function that it reads."""

from __future__ import annotations

import inspect
import sys
from types import SimpleNamespace

import pytest

READ = 2
"""The frame whose line the parser reads, to tell whether a function stands in a class; of others it reads variables."""


def stack(context: int = 1) -> list[inspect.FrameInfo]:
    """`inspect.stack`, with the source line of one frame: to look up each takes longer than TVM takes for the rest."""
    found: list[inspect.FrameInfo] = []
    frame = sys._getframe(1)
    while frame is not None:
        if len(found) == READ:
            at = inspect.getframeinfo(frame, context)
            found.append(inspect.FrameInfo(frame, at.filename, at.lineno, at.function, at.code_context, at.index))
        else:
            code = frame.f_code
            found.append(inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None))
        frame = frame.f_back
    return found


@pytest.fixture(autouse=True, scope="session")
def _short_stacks():
    with pytest.MonkeyPatch.context() as patch:
        if "tvm" in sys.modules:
            quick = SimpleNamespace(**{**vars(inspect), "stack": stack})
            for name in ("tvm.tirx.script.parser.entry", "tvm.script.parser.ir.entry", "tvm.relax.script.parser.entry"):
                patch.setattr(f"{name}.inspect", quick)
        yield
