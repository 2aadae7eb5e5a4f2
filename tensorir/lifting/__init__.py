"""The lifts' common part and entry point: `ti.lift(func)` for a function of any wing.

A wing reads its source into a nest of scalar terms (`nests`); storage that is only the source's goes away (`storage`),
and what is wrong is said (`hazards`); dependences between the statements (`accesses`) decide per loop how it runs
(`loops`); what is found is written in the tensor IR's builtins (`emission`), as a person would write it (`rewrites`),
and told in a report. `assemble` is the way through these rooms. `lift` finds the wing that a function belongs to, and
that wing's own `lift`.

>>> import tensorir as ti
>>> module = ti.tir.parse('''
... @T.prim_func
... def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
...     for i in range(8):
...         B[i] = A[7 - i]
... ''')
>>> print(ti.lift(module["main"]).report)
line 4: i: parallel
raised: window: gather(A_0, clamp)(A, 7 - pos(i, add_dim(i, 0, 8, false)))
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, signature
from typing import Any

from tensorir.runtime.errors import did_you_mean, refuse

__all__ = ["lift"]


def lift(func: object, /, **options: Any) -> Any:
    """A function of another IR as a pure tensor program: a callable on arrays, with `fencil` and `report`.

    TIR and Relax functions (`ti.tir.parse(text)["main"]`), programs of iterator IR, and entries of Tile IR modules
    (`entry=`, `grid=`, `args=`); the wing of the function takes the options. Arrays have the shapes and
    element types of the function's buffers. Raises TA01 for anything else, and what the lift proves wrong: races,
    accesses out of bounds, reads of what nobody wrote.

    >>> import tensorir as ti
    >>> module = ti.tir.parse('''
    ... @T.prim_func
    ... def main(A: T.Buffer((3,), "float32"), B: T.Buffer((3,), "float32")):
    ...     for i in range(3):
    ...         B[i] = A[i] + T.float32(1)
    ... ''')
    >>> print(lift(module["main"]))
    main(A: tensor<float32, i[0:3]>, B: tensor<float32, i[0:3]>) {
      B ← A + 1.0f;
    }
    """
    name = _room(type(func))
    if name is None:
        kind = type(func).__name__
        message = f"a function of TIR is lifted, and this is of type {kind}."
        hint = "a fencil is a tensor program already: call it, or compile it." if kind == "Fencil" else ""
        if hasattr(func, "gtir") or hasattr(func, "__gt_itir__"):
            message = "a program of GT4Py has the sizes of its fields, which are not told here."
            hint = "ti.as_jax(program) is a function of arrays; ti.lift(ti.iterator.from_gt4py(program, sizes=...))."
        raise refuse("TA01", message, hint)
    found = import_module(name).lift
    known = signature(found).parameters.values()
    names = [p.name for p in known if p.kind is Parameter.KEYWORD_ONLY]
    for option in options:
        if option not in names and not any(p.kind is Parameter.VAR_KEYWORD for p in known):
            message = f"the lift of a {type(func).__name__} has no option '{option}'."
            help = did_you_mean(option, names) or f"its options are {', '.join(names)}."
            raise refuse("TA07", message, help)
    return found(func, **options)


def _room(kind: type) -> str | None:
    """The package that lifts objects of a type, None where no wing has them."""
    package, _, wing = kind.__module__.partition(".")
    home = f"{package}.{wing.partition('.')[0]}"
    found = find_spec(home) if package == __name__.partition(".")[0] else None
    if found is None or found.submodule_search_locations is None:
        return None
    return f"{home}.lift" if find_spec(f"{home}.lift") is not None else None
