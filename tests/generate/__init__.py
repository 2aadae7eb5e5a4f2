"""A generator of well-typed programs over all builtins, with data that fits them."""

from .programs import Case, made, programs

__all__ = ["Case", "made", "programs"]
