"""The pages of the API, by what one wants to do: each public name with the first sentence of its docstring.

`GROUPS` says where a name stands; all else is read off the package, so that no page can be older than it. A test holds
that every name has one place.

>>> said("periodic", "tensorir.fieldview.boundary").name, said("extend").name
('ti.boundary.periodic', 'ti.extend')
>>> said("float32").sentence
'Floats of 32 bits.'
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorir as ti
from tensorir.ir.types import Scalar

__all__ = ["GROUPS", "Said", "members", "page_of", "reference", "said", "unplaced", "without_sentence"]

GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Open data": (
        "DataArrays and Datasets go in as they are; fields are made of other arrays.",
        (
            "Field",
            "as_field",
            "zeros",
            "ones",
            "full",
            "drop_indexes",
            "coord",
            "Dimension",
            "dims",
            "staggered",
            "c_grid",
            "Interval",
            "TensorType",
            "tensor",
            "tensorir.xarray",
            "stencils.data",
        ),
    ),
    "Write operators": (
        "Functions on fields ([a first stencil](../notebooks/01_first_stencil.ipynb)).",
        ("field_operator", "scan_operator", "program", "where", "concat_where", "broadcast", "astype"),
    ),
    "Mathematics": (
        "On fields, inside of operators and on Fields themselves.",
        (
            "abs",
            "sign",
            "minimum",
            "maximum",
            "sqrt",
            "rsqrt",
            "cbrt",
            "power",
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log10",
            "log1p",
            "sin",
            "cos",
            "tan",
            "arcsin",
            "arccos",
            "arctan",
            "arctan2",
            "radians",
            "sinh",
            "cosh",
            "tanh",
            "arcsinh",
            "arccosh",
            "arctanh",
            "erf",
            "erfc",
            "lgamma",
            "floor",
            "ceil",
            "round",
            "trunc",
            "floordiv",
            "fmod",
            "isfinite",
            "isinf",
            "isnan",
            "xor",
            "clz",
            "popcount",
        ),
    ),
    "Element types": (
        "In annotations and casts; nothing is promoted unasked.",
        (
            "bool",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "float16",
            "bfloat16",
            "float32",
            "float64",
            "float8_e4m3",
            "float8_e4m3fn",
            "float8_e5m2",
        ),
    ),
    "Boundaries": (
        "Halos, and what stands in them ([boundaries and domains](../notebooks/03_boundaries_and_domains.ipynb)).",
        ("extend", "with_boundary", "boundary"),
    ),
    "Write programs as text": (
        "The notation of [the language](../docs/language.md), and its nodes.",
        ("parse", "Fencil", "fencil", "build", "stencils.library"),
    ),
    "Run and compile": (
        "Calls run by themselves; what is compiled, kept and exported can be said.",
        (
            "compile",
            "jit",
            "load",
            "map_blocks",
            "loop_plan",
            "config",
            "passes",
            "reference",
            "__version__",
        ),
    ),
    "Folds": (
        "Along dims of a field, inside of operators ([coordinates and folds](../docs/language.md)).",
        ("sum", "mean", "max", "min", "any", "all"),
    ),
    "Differentiate": (
        "Gradients with the labels of their arguments; JAX's own transformations take operators, too.",
        ("grad", "value_and_grad"),
    ),
    "Loops in time": (
        "Steps inside of XLA, with snapshots, checkpoints and dates.",
        ("iterate", "Interrupted"),
    ),
    "Meshes": (
        "Neighbour tables and what is folded over them ([meshes](../notebooks/05_unstructured_meshes.ipynb)).",
        ("FieldOffset", "as_offset", "neighbor_sum", "max_over", "min_over", "can_deref", "stencils.meshes"),
    ),
    "Many devices": (
        "Blocks and halos ([one program on many devices](../docs/many_devices.md)).",
        ("distribute", "partition"),
    ),
    "Look inside": (
        "Intermediates, pictures and reasons ([looking inside](../notebooks/02_looking_inside.ipynb)).",
        ("inspect", "Diagnostic", "DiagnosticError"),
    ),
    "Whether programs are equal": (
        "Of any two languages that are read here ([equality](../docs/equality.md)).",
        ("equivalent",),
    ),
    "Lift TIR and TileLang": (
        "TVM's loops as tensor programs ([lifting TIR](../notebooks/07_lifting_tir.ipynb)).",
        ("lift", "tir"),
    ),
    "Lift Tile IR": (
        "CUDA's tiles, also on other devices ([tile kernels](../docs/tiles.md)).",
        ("tile",),
    ),
    "Run programs of GT4Py": (
        "A backend of GT4Py, and its programs as functions of JAX ([GT4Py](../docs/gt4py.md)).",
        ("as_jax", "iterator"),
    ),
    "Tenstorrent": (
        "Kernels for grids of cores ([kernels of tiles](../docs/tensix.md)).",
        ("tt", "tenstorrent"),
    ),
}
"""By the task, what it is about, and its names; one with a point is a module that is imported by itself."""


@dataclass(frozen=True)
class Said:
    """What the pages say of a name: how it is written, the object's full name, and the first sentence on it."""

    name: str
    path: str
    sentence: str
    module: bool = False


def said(name: str, module: str = "tensorir") -> Said:
    """A public name of a module."""
    value = importlib.import_module(name) if "." in name else getattr(importlib.import_module(module), name)
    prefix = next((f"ti.{n}" for n in dir(ti) if inspect.ismodule(m := getattr(ti, n)) and m.__name__ == module), "ti")
    written = name if "." in name else f"{prefix}.{name}"
    if isinstance(value, Scalar):
        return Said(written, "tensorir.ir.types.Scalar", _sentence(_below_assignment(module, name)))
    if inspect.ismodule(value):
        return Said(written, value.__name__, _sentence(value.__doc__), module=True)
    if inspect.isclass(value) or inspect.isfunction(value):
        home = value.__module__
        known = hasattr(sys.modules[home], value.__name__)
        return Said(written, f"{home}.{value.__name__}" if known else f"{module}.{name}", _sentence(value.__doc__))
    return Said(written, f"{module}.{name}", _sentence(_below_assignment(module, name)))


def members(module: str) -> tuple[str, ...]:
    """The public names of a module, or the methods of the one class that it is about."""
    return tuple(importlib.import_module(module).__all__)


def _sentence(text: str | None) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = " ".join((text or "").strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z`\d])", paragraph, maxsplit=1)[0]


def _below_assignment(module: str, name: str) -> str | None:
    """The text below the assignment to a name, in the module that it comes from; the stub speaks for `tensorir`."""
    source = Path(inspect.getsourcefile(importlib.import_module(module)) or "")
    stub = source.with_suffix(".pyi")
    tree = ast.parse((stub if stub.exists() else source).read_text(encoding="utf-8"))
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        match node:
            case ast.ImportFrom(module=str(home), names=names) if name in {a.asname or a.name for a in names}:
                return _below_assignment(home, next(a.name for a in names if (a.asname or a.name) == name))
            case ast.Assign(targets=[ast.Name(id=target)]) | ast.AnnAssign(target=ast.Name(id=target)):
                match after:
                    case ast.Expr(value=ast.Constant(value=str(text))) if target == name:
                        return text
                    case _:
                        pass
            case _:
                pass
    return None


def page_of(title: str) -> str:
    """The file of a task's page.

    >>> page_of("Run programs of GT4Py")
    'run_programs_of_gt4py.md'
    """
    return f"{re.sub('[^a-z0-9]+', '_', title.lower())}.md"


def reference(folder: Path) -> None:
    """One page for each task with the entries of its names, and one that lists them all."""
    pages = folder / "api"
    pages.mkdir(parents=True)
    index = [
        "# The API\n",
        "What `import tensorir as ti` gives, by what one wants to do; each name leads to its entry.\n",
    ]
    for title, (about, names) in GROUPS.items():
        file = page_of(title)
        found = [said(name) for name in names]
        page = [f"# {title}\n", f"{about}\n"]
        index += [f"## [{title}](api/{file})\n", f"{about.replace('](../', '](')}\n", *_table(found, f"api/{file}")]
        for one in {one.path: one for one in found if one.module}.values():
            inner = [said(member, one.path) for member in members(one.path)]
            index += [f"\n`{one.name}`: {one.sentence}\n", *_table(inner, f"api/{file}")]
            found += inner
        page += [_entry(one) for one in {one.path: one for one in found}.values()]
        (pages / file).write_text("\n".join(page), encoding="utf-8")
        index.append("")
    (folder / "api.md").write_text("\n".join(index), encoding="utf-8")


def _entry(one: Said) -> str:
    """What mkdocstrings puts an entry for; those of a module's names stand by themselves."""
    return f"::: {one.path}\n" + "    options:\n      members: false\n" * one.module


def _table(found: list[Said], page: str) -> list[str]:
    def cell(text: str) -> str:
        return text.replace("|", "\\|")

    rows = [f"| [`{one.name}`]({page}#{one.path}) | {cell(one.sentence)} |" for one in found]
    return ["| name | what it is |", "|---|---|", *rows]


def unplaced() -> tuple[set[str], set[str]]:
    """Public names that have no place in `GROUPS`, and names there that are not public."""
    placed = {name for _, names in GROUPS.values() for name in names if "." not in name}
    return set(dir(ti)) - placed, placed - set(dir(ti))


def without_sentence() -> list[str]:
    """Names of which the pages would say nothing."""
    names: list[Any] = [said(name) for _, names in GROUPS.values() for name in names]
    for one in list(names):
        if one.module:
            names += [said(member, one.path) for member in members(one.path)]
    return [one.name for one in names if not one.sentence]
