"""The programs that come with the package, each a file of the notation with a page of documentation at its top.

>>> names()[:3]
('advection_third_order', 'advection_upwind', 'biharmonic')
>>> print(documentation("laplacian").splitlines()[0])
Five-point Laplacian
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tensorir.runtime.errors import did_you_mean

if TYPE_CHECKING:
    from tensorir.ir.nodes import Fencil

__all__ = ["documentation", "load", "names", "text"]

_FOLDER = files("stencils") / "programs"
_SUFFIX = ".fencil"


def names() -> tuple[str, ...]:
    """The names of all programs, in alphabetical order.

    >>> "hdiff" in names()
    True
    """
    texts = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in texts if name.endswith(_SUFFIX)))


def text(name: str) -> str:
    """The text of a program, with its documentation.

    >>> text("hdiff").splitlines()[-1]
    '}'
    """
    known = names()
    if name not in known:
        raise ValueError(f"there is no program {name!r}: {did_you_mean(name, known)}")
    return (_FOLDER / f"{name}{_SUFFIX}").read_text(encoding="utf-8")


def documentation(name: str) -> str:
    """The page at the top of a program: what it computes, its equation, dims, parameters, boundary and source.

    >>> "Boundary" in documentation("heat").splitlines()
    True
    """
    page = []
    for line in text(name).splitlines():
        if not line.startswith("//"):
            break
        page.append(line.removeprefix("//").removeprefix(" "))
    return "\n".join(page)


def load(name: str, **options: Any) -> Fencil:
    """The program as a fencil; options are those of `tensorir.parse`."""
    import tensorir

    return tensorir.parse(text(name), **options)
