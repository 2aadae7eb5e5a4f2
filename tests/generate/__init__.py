"""A generator of well-typed programs over all builtins, with data that fits them."""

from .programs import Case, programs

__all__ = ["Case", "programs"]
