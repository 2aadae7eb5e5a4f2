"""Names between backticks lead somewhere: in docstrings and comments of the packages, and in pages.

A path is one of the repository, or the end of one. A name with points, of `ti` or of a package, is found by imports. A
plain name in a docstring or a comment stands in the code of its file, of its folder or of a file that it imports, or is
public: a name of `ti`, a builtin, a pass, Python's, JAX's, NumPy's or xarray's. After "see" it is defined or imported
there, or a module of the folder.
"""

import ast
import builtins
import gc
import importlib
import keyword
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tensorir.ir.builtins import TABLE
from tensorir.passes import PASSES
from tests.documents.links import FENCE, ROOT

HOMES = ("tensorir", "lowering", "stencils", "tests")
LISTED = ["git", "ls-files", "-co", "--exclude-standard"]
LISTED += ["*.py", "*.md", "*.ipynb", "*.toml", "*.txt", "*.pyi", "*.fencil"]
FILES = [
    ROOT / name for name in subprocess.check_output(LISTED, cwd=ROOT, text=True).splitlines() if (ROOT / name).exists()
]
CODE = {path for path in FILES if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in HOMES[:3]}
PAGES = [path for path in FILES if path.suffix == ".md" and path.name != "CHANGELOG.md"]
BACKTICKED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PATH = re.compile(rf"(?:{'|'.join((*HOMES, 'docs', 'notebooks'))})/[\w./*-]+|[\w./*-]*\w\.(?:py|md|ipynb|toml|pyi)")
DOTTED = re.compile(rf"((?:{'|'.join(HOMES)}|ti)(?:\.\w+)+)(?:\(.*\))?")
PLAIN = re.compile(r"(_?[A-Za-z]\w*)(?:\(\))?")
PUBLIC = {
    *dir(ti), *TABLE, *PASSES, *(a.__name__ for a in PASSES.values()), *dir(builtins), *keyword.kwlist,
    *keyword.softkwlist, *dir(jax), *dir(jax.lax), *dir(np), *dir(xr), "jnp", "let", *HOMES,
}  # fmt: skip
ELSEWHERE = {
    # names of other systems
    "SplitHostDevice", "XLA_FFI_CallFrame", "cupy", "cutile_call", "expf", "hexp", "rsub_unary_tile",
    "thread_extent", "virtual_thread", "xla_gpu",
    # dims and parameters of examples
    "I_at", "I_out", "LAT", "_NB_0", "_NB_Edge", "arg0", "float32xvscalex4", "i", "main_1", "out_0",
    "out_1", "state_1", "wind_0", "xHalf",
}  # fmt: skip


@cache
def statements(path: Path) -> list[ast.AST]:
    """The module, its statements and theirs, without expressions, of which there are ten times as many."""
    gc.disable()  # looking for garbage takes three times as long as all trees
    nodes: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    gc.enable()
    for node in nodes:
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            inner = getattr(node, name, ())
            nodes += inner if isinstance(inner, list) else ()
    return nodes


@cache
def docstrings(path: Path) -> list[ast.Constant]:
    """Texts that stand as statements of modules, classes and functions: also those below an assignment."""
    scopes = (n for n in statements(path) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef))
    texts = (statement.value for scope in scopes for statement in scope.body if isinstance(statement, ast.Expr))
    return [text for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str)]


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """What a file says to its readers, with the line where it stands."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield 1, FENCE.sub("", source)
    else:
        yield from ((text.lineno, str(text.value)) for text in docstrings(path))
        lines = enumerate(source.splitlines(), start=1)
        yield from ((number, line) for number, line in lines if line.lstrip().startswith("#"))


@cache
def identifiers(path: Path) -> frozenset[str]:
    """The words in the code of a file and in its strings but for docstrings."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for text in docstrings(path):
        assert text.end_lineno is not None
        lines[text.lineno - 1 : text.end_lineno] = [""] * (text.end_lineno - text.lineno + 1)
    code = "\n".join(re.sub(r"(^|  )\s*# .*", "", line) for line in lines)
    return frozenset(re.findall(r"\w+", code)) | {path.stem if path.stem != "__init__" else path.parent.name}


def near(path: Path) -> set[Path]:
    """The files of a folder, those that the file imports, and for the file of a package all below it."""
    package = path.name == "__init__.py"
    files = {p for p in CODE if p.parent == path.parent or (package and path.parent in p.parents)}
    for node in statements(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            bases = [ROOT.joinpath(*name.split(".")) for name in names]
            files |= {p for base in bases for p in (base.with_suffix(".py"), base / "__init__.py")} & CODE
    if path.relative_to(ROOT).as_posix() in ("tensorir/__init__.py", "tensorir/backends.py"):  # what stands behind them
        files |= {p for p in CODE if ROOT / "lowering" in p.parents}
    return files


ENDS = {
    "/".join(name.parts[k:])
    for name in {p.relative_to(ROOT) for path in FILES for p in (path, path.parent)}
    for k in range(len(name.parts))
}
"""Paths of files and of the folders that hold them, whole or from some folder on."""


@cache
def importable(name: str) -> bool:
    """A module, or a name that is reached from one."""
    first, *rest = re.sub(r"^ti\b", "tensorir", name).split(".")
    value, path = importlib.import_module(first), first
    for part in rest:
        path = f"{path}.{part}"
        try:
            value = getattr(value, part) if hasattr(value, part) else importlib.import_module(path)
        except ImportError:
            return False
    return True


def defined(path: Path) -> set[str]:
    """The functions, classes and imports of a file, and the modules beside it."""
    names = {p.stem for p in path.parent.iterdir()}
    for node in statements(path):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=imported) | ast.ImportFrom(names=imported):
                names |= {alias.asname or alias.name for alias in imported}
            case _:
                pass
    return names


def dead(path: Path) -> Iterator[str]:
    """The references of a file that lead nowhere."""
    known = [PUBLIC, ELSEWHERE, *map(identifiers, [path, *near(path)] if path.suffix == ".py" else ())]
    for line, text in texts(path):
        for match in BACKTICKED.finditer(text):
            reference = match[1]
            if PATH.fullmatch(reference):
                alive = reference.rstrip("/") in ENDS or any(ROOT.glob(reference))
            elif dotted := DOTTED.fullmatch(reference):
                alive = importable(dotted[1])
            elif path.suffix == ".py" and (plain := PLAIN.fullmatch(reference)):
                seen = re.search(r"\b[Ss]ee\s+$", text[: match.start()])
                alive = any(plain[1] in names for names in ([defined(path)] if seen else known))
            else:
                alive = True
            if not alive:
                at = line + text[: match.start()].count("\n")
                yield f"{path.relative_to(ROOT)}:{at}: `{reference}`"


@pytest.mark.parametrize("files", [CODE, PAGES], ids=["docstrings and comments", "pages"])
def test_references_lead_somewhere(files: list[Path]) -> None:
    assert [reference for path in files for reference in dead(path)] == []
