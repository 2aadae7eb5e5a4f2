"""Versions of bytecode: which there are, and how they are written."""

from __future__ import annotations

from tensorir.runtime.errors import Diagnostic, DiagnosticError

__all__ = ["MAGIC", "VERSIONS", "spelled", "version_of"]

Version = tuple[int, int]
VERSIONS: tuple[Version, ...] = ((13, 1), (13, 2), (13, 3))
MAGIC = b"\x7fTileIR\x00"


def spelled(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def version_of(text: object) -> Version:
    """The version that a string names; raises TB05 for one that is not written."""
    for version in VERSIONS:
        if text in (spelled(version), version):
            return version
    known = ", ".join(map(spelled, VERSIONS))
    raise DiagnosticError(Diagnostic("TB05", f"bytecode has no version {text!r}.", help=f"the versions are {known}."))
