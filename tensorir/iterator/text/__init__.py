"""The notation of iterator IR: printed as GT4Py prints it, and parsed back."""

from __future__ import annotations

from tensorir.iterator.text.parser import parse
from tensorir.iterator.text.printer import show

__all__ = ["parse", "show"]
