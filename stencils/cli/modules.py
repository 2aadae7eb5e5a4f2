"""Programs that Python modules have: `model.py:step`, or `package.module:step` where that can be imported."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

from tensorir.runtime.errors import DiagnosticError, did_you_mean, refuse
from tensorir.runtime.locations import raised_at


def is_named(program: Path) -> bool:
    """True if a program is one of a module, and no file.

    >>> [is_named(Path(text)) for text in ("model.py:step", "src/model.py:step", "models.ocean:step", "step.fencil")]
    [True, True, True, False]
    """
    return re.fullmatch(r"([\w.]+|.*\.py):\w+", str(program)) is not None and not program.exists()


def named_object(where: str) -> Any:
    """The object that a module has by a name; raises C11 if it has none."""
    module, _, name = where.rpartition(":")
    names = vars(module_of(where))
    if name not in names:
        public = [n for n, value in names.items() if not n.startswith("_") and callable(value)]
        raise refuse("C11", f"'{module}' has no program '{name}'.", did_you_mean(name, public))
    return names[name]


def module_of(where: str) -> Any:
    """The module that `module:program` or `model.py:program` names."""
    module, _, name = where.rpartition(":")
    if not module or not name:
        raise refuse("C11", f"'{where}' names no program.", "write module:program, or model.py:program.")
    if module.endswith(".py"):
        return _load_file(Path(module))
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise refuse("C11", f"there is no module '{error.name}'.", "run where it can be imported.") from None


def _load_file(path: Path) -> Any:
    """A file as a module, which finds its neighbours as a script does."""
    if not path.exists():
        near = did_you_mean(path.name, [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else [])
        raise refuse("F01", f"there is no file '{path}'.", near)
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    place = str(path.resolve())
    known = next((m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == place), None)
    if known is not None:
        return known
    name = path.stem if path.stem not in sys.modules else f"_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise refuse("C11", f"'{path}' imports '{error.name}', which is not there.", "install it.") from None
    except DiagnosticError:
        raise
    except Exception as error:
        del sys.modules[name]
        message = f"'{path}' cannot be executed: {type(error).__name__}: {error}"
        raise refuse("C11", message, at=raised_at(error)) from None
    return module


def operators_in(text: str) -> list[str]:
    """The functions of a file that decorators of this package mark, read and not executed.

    >>> operators_in("import tensorir as ti\\n@ti.field_operator\\ndef lap(h): ...\\n@other\\ndef f(): ...")
    ['lap']
    >>> operators_in("from tvm.script import tir as T\\n@T.prim_func\\ndef f(): ...")
    []
    """
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return []
    ours = {alias.asname or alias.name for node in body if isinstance(node, ast.Import) for alias in node.names
            if alias.name == "tensorir"}  # fmt: skip
    ours |= {alias.asname or alias.name for node in body
             if isinstance(node, ast.ImportFrom) and node.module == "tensorir" for alias in node.names}  # fmt: skip
    return [f.name for f in body if isinstance(f, ast.FunctionDef) and any(_root(d) in ours for d in f.decorator_list)]


def _root(node: ast.expr) -> str:
    """`ti` of `ti.scan_operator(axis=K)`."""
    while not isinstance(node, ast.Name):
        match node:
            case ast.Call(func=inner) | ast.Attribute(value=inner):
                node = inner
            case _:
                return ""
    return node.id
