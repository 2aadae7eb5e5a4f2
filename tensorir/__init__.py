"""A typed, functional tensor IR with named dimensions and integer intervals."""

from __future__ import annotations

import importlib
from typing import Any

from tensorir.errors import Diagnostic, DiagnosticError

__all__ = ["Diagnostic", "DiagnosticError", "tir"]

_ON_FIRST_USE = {"tir": "tensorir.tir"}


def __getattr__(name: str) -> Any:
    if name in _ON_FIRST_USE:
        return importlib.import_module(_ON_FIRST_USE[name])
    raise AttributeError(f"module 'tensorir' has no attribute {name!r}")
