"""What editors and type checkers see of `tensorir` is what there is: the stub `__init__.pyi` beside `dir(ti)`."""

import ast
import importlib
import inspect
import json
import os
import pkgutil
import re
import runpy
import shutil
import subprocess
import sys
import warnings
from operator import attrgetter
from pathlib import Path
from types import FunctionType

import pytest

import lowering.loops.iterate
import tensorir as ti
from tensorir.fieldview import MATHEMATICS
from tensorir.ir.types import SCALARS

STUB = ast.parse(Path(ti.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
DEFINED = {n.name: n for n in STUB.body if isinstance(n, ast.FunctionDef)}
IMPORTED = {
    alias.asname: node.module for node in STUB.body if isinstance(node, ast.ImportFrom) for alias in node.names
    if alias.asname
}  # fmt: skip
DECLARED = {
    n.target.id for n in STUB.body
    if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name) and not re.match(r"_[A-Z]", n.target.id)
}  # fmt: skip
SHORT = {
    t.id: ast.unparse(n.value) for n in STUB.body if isinstance(n, ast.Assign) for t in n.targets
    if not t.id.startswith("_")
}  # fmt: skip
CLASSES = {n.name: n for n in STUB.body if isinstance(n, ast.ClassDef)}


def parameters(function):
    """Names with how they are passed, of a definition in the stub."""
    a = function.args
    kinds = [(p.arg, "/") for p in a.posonlyargs] + [(p.arg, "") for p in a.args] + [(p.arg, "*") for p in a.kwonlyargs]
    return kinds, a.vararg and a.vararg.arg, a.kwarg and a.kwarg.arg


def there(function):
    """The same of a function."""
    words = {inspect.Parameter.POSITIONAL_ONLY: "/", inspect.Parameter.KEYWORD_ONLY: "*"}
    found = inspect.signature(function).parameters.values()
    plain = [p for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    rest = {p.kind: p.name for p in found}
    kinds = [(p.name, words.get(p.kind, "")) for p in plain]
    return kinds, rest.get(inspect.Parameter.VAR_POSITIONAL), rest.get(inspect.Parameter.VAR_KEYWORD)


def test_the_stub_has_the_names_that_there_are():
    assert sorted({*DEFINED, *IMPORTED, *DECLARED, *CLASSES, *SHORT}) == dir(ti) == ti.__all__


@pytest.mark.parametrize("name", DEFINED)
def test_a_function_of_the_stub_is_called_and_described_as_the_function_is(name):
    function = getattr(ti, name)
    assert parameters(DEFINED[name]) == there(function)
    # of functions that are defined beside the stub editors find the text themselves
    text = None if function.__module__ == "tensorir" else re.split(r"\n+>>>", inspect.getdoc(function))[0].rstrip()
    assert ast.get_docstring(DEFINED[name]) == text


def test_a_module_with_a_short_name_is_that_module():
    assert SHORT == {"tt": "tenstorrent"}
    assert ti.tt is ti.tenstorrent


@pytest.mark.parametrize("name", IMPORTED)
def test_what_the_stub_imports_is_what_there_is(name):
    found = getattr(ti, name)
    assert found.__doc__
    assert found is getattr(importlib.import_module(IMPORTED[name]), name)


def test_the_methods_of_a_field_are_those_of_the_stub():
    stated = {n.name for n in CLASSES["Field"].body if isinstance(n, ast.FunctionDef)}
    own = {n for n, v in vars(ti.Field).items() if isinstance(v, FunctionType | property | classmethod)}
    private = {n for n in own if n.startswith("_") and not n.startswith("__")}
    assert (
        own - private - {"__repr__", "__hash__", "__eq__"}
        <= stated
        <= {*own, "__init__", "__class_getitem__", "__call__"}
    )


def test_iterate_takes_what_the_backend_takes():
    assert inspect.signature(ti.iterate) == inspect.signature(lowering.loops.iterate.iterate)


def test_a_name_stays_what_it_is_when_a_module_of_that_name_is_imported():
    for module in pkgutil.iter_modules(ti.__path__):
        if module.name in dir(ti):
            importlib.import_module(f"tensorir.{module.name}")
    modules = {name for name in dir(ti) if inspect.ismodule(getattr(ti, name))}
    assert modules == {
        "boundary", "build", "config", "inspect", "iterator", "passes", "reference", "tenstorrent", "tile", "tir", "tt",
    }  # fmt: skip


BEFORE = {
    "caches": "config.caches", "compiler_options": "config.compiler_options",
    "keep_compilations": "config.keep_compilations", "kept_memory": "config.kept_memory",
    "DEFAULT_PASSES": "passes.DEFAULT_PASSES", "Pipeline": "passes.Pipeline", "explain": "passes.explain",
    "restrict": "passes.restrict", "dirichlet": "boundary.dirichlet", "linear": "boundary.extrapolate",
    "neumann": "boundary.neumann", "periodic": "boundary.periodic", "from_xarray": "as_field",
    "positional": "drop_indexes",
}  # fmt: skip
"""Names of release 0.1 and those of now."""


@pytest.mark.parametrize("old", BEFORE)
def test_an_old_name_is_the_new_one_and_says_so_once_at_each_place(old):
    places = compile(f"for _ in range(3): values.append(ti.{old})\nvalues.append(ti.{old})", "user.py", "exec")
    names = {"values": [], "ti": ti}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        exec(places, names)
    assert all(value is attrgetter(BEFORE[old])(ti) for value in names["values"])
    assert old not in dir(ti)
    text = f"ti.{old} is ti.{BEFORE[old]} now, and the old name goes with release 0.3."
    said = [(w.category, str(w.message), w.filename, w.lineno) for w in warned]
    assert said == [(DeprecationWarning, text, "user.py", line) for line in (1, 2)]


def test_a_name_that_python_has_too_stays_python_s_in_the_file_of_the_package():
    assert ti.bool is SCALARS["bool"]
    assert inspect.signature(ti.iterate, eval_str=True).parameters["checkpoint"].annotation == bool | int


def test_every_row_of_the_tables_of_mathematics_and_element_types_is_a_public_name():
    assert {*MATHEMATICS, *SCALARS} <= {*dir(ti)}
    assert all(getattr(ti, name) is row for name, row in {**MATHEMATICS, **SCALARS}.items())


USER = """import numpy as np
import xarray as xr

import tensorir as ti

I, J = ti.dims("I J")


@ti.field_operator
def rise(h: ti.Field[[I, J], ti.float64]) -> ti.Field[[I, J], ti.float64]:
    inner = ti.extend(h, {I: 1}, ti.boundary.periodic())
    steps = inner(I + 1) - 2.0 * inner + ti.sqrt(inner(I - 1) ** 2)
    return ti.where((steps > 0.0) & ti.isfinite(steps), steps, ti.maximum(0.0, -steps))


@ti.field_operator
def twice(h: ti.Field, dt: float):
    return dt * rise(rise(h)), h


def energy(h: xr.DataArray, dt: float) -> float:
    return float((rise(h) * dt).sum())


a = xr.DataArray(np.zeros((3, 3)), dims=("I", "J"))
f = ti.zeros({I: 3})
reveal_type(ti.extend(a, {I: 1}, ti.boundary.periodic()))
reveal_type(ti.with_boundary(f, {I: 1}, (ti.boundary.periodic(), ti.boundary.neumann())))
reveal_type(rise(a))
reveal_type(rise(h=f, domain={I: (0, 2)}))
reveal_type(rise(np.zeros((3, 3))))
reveal_type(twice(a, 0.5))
reveal_type(f(I + 1) * 2 - f)
reveal_type(f.sum(I))
reveal_type(ti.map_blocks(rise, a))
reveal_type(ti.iterate(rise, a, 3))
reveal_type(ti.iterate(lambda x: x, {"a": a}, 3, keep=True))
reveal_type(ti.iterate(rise, f, 3, keep=lambda x: x.shape))
reveal_type(ti.grad(energy)(a, 0.5))
reveal_type(ti.value_and_grad(energy)(a, dt=0.5))
reveal_type(ti.jit(energy)(a, 0.5))
print(ti.extnd)
"""
REVEALED = [
    "DataArray", "Field", "DataArray", "Field", "ndarray[tuple[int, int], dtype[float64]]",
    "tuple[DataArray, DataArray]", "Field", "Field", "DataArray", "DataArray",
    "tuple[dict[str, DataArray], dict[str, DataArray]]", "tuple[Field, tuple[int, ...]]", "DataArray",
    "tuple[float, DataArray]", "float",
]  # fmt: skip

UNANNOTATED = """# pyright: basic
from typing import NamedTuple

import numpy as np
import xarray as xr

import tensorir as ti

I, K = ti.dims("I K")


@ti.field_operator
def rise(h):
    return h(I + 1) - h


@ti.field_operator
def chosen(h, g, dt=0.5):
    if h is g:
        return dt
    return ti.where(h > 0.0, ti.sqrt(rise(h)), 0.0)


@ti.field_operator
def two(h, dt=0.5):
    return dt * h, 1.0


@ti.field_operator
def both(h):
    return two(h)


@ti.scan_operator(axis=I, init=0.0)
def total(state, x):
    return state + x


@ti.scan_operator(axis=I, init=(0.0, 1.0))
def totals(state, x):
    return state[0] + x, state[1] * x


@ti.program
def step(h, out):
    chosen(h, h(I + 1), out=out, domain={I: (0, 3)})


@ti.program(backend=None)
def twice(h, out):
    step(h, out)


a = xr.DataArray(np.ones(4), dims=("I",))
f = ti.ones({I: 4})
reveal_type(rise(a))
reveal_type(rise(h=f))
reveal_type(chosen(f, f))
reveal_type(chosen(a, rise(a)))
reveal_type(two(a))
reveal_type(both(f))
reveal_type(total(a))
reveal_type(totals(f))
reveal_type(step(a, out=xr.zeros_like(a)))
reveal_type(step(f, ti.zeros({I: 4}))["out"])
reveal_type(twice)
reveal_type(ti.coord(a.assign_coords(I=[0.0, 1.0, 2.0, 4.0]), "I"))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What pyright says of a file, by the name of the file."""
    folder = tmp_path_factory.mktemp("user")
    texts = {"user": USER, "unannotated": UNANNOTATED}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    # an editable install is an import hook, which pyright does not run
    config = {"extraPaths": [str(Path(ti.__file__).parents[1])], "typeCheckingMode": "strict"}
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    run = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *(f"{name}.py" for name in texts)]
    said = subprocess.run(run, capture_output=True, text=True, cwd=folder).stdout
    lines = [line.partition(" - ") for line in said.splitlines() if " - " in line]
    return {name: [line for place, _, line in lines if f"{name}.py" in place] for name in texts}


def revealed(lines):
    return [re.sub(r'^information: Type of ".*" is "(.*)"$', r"\1", line) for line in lines]


def test_pyright_knows_what_comes_back_and_which_names_there_are(told):
    assert revealed(told["user"][: len(REVEALED)]) == REVEALED
    assert (
        told["user"][-1] == 'error: "extnd" is not a known attribute of module "tensorir" (reportAttributeAccessIssue)'
    )


def kind(value):
    """The type of a value as pyright writes it."""
    match value:
        case tuple():
            return f"tuple[{', '.join(map(kind, value))}]"
        case dict():
            return f"dict[str, {kind(next(iter(value.values())))}]"
        case _:
            return type(value).__name__


def test_of_functions_without_annotations_pyright_knows_what_comes_back(told, tmp_path):
    found = []
    (tmp_path / "unannotated.py").write_text(UNANNOTATED)
    runpy.run_path(str(tmp_path / "unannotated.py"), {"reveal_type": lambda value: found.append(kind(value))})
    assert revealed(told["unannotated"]) == found


@pytest.mark.nightly
def test_every_public_symbol_has_a_known_type(tmp_path):
    """Of an installed package, as pyright asks for it; what other packages leave untyped does not count."""
    package = Path(ti.__file__).parent
    skipped = shutil.ignore_patterns("__pycache__", "*.md")
    shutil.copytree(package, tmp_path / "tensorir", ignore=skipped)
    run = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--verifytypes", "tensorir"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    said = subprocess.run([*run, "--ignoreexternal"], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert "Type completeness score: 100%" in said.stdout, said.stdout[-3000:]
