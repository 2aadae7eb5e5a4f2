"""Imports run one way: tensorir <- lowering <- stencils, and a wing knows those alone that it stands on."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("tensorir", "lowering", "stencils")
WINGS = {"iterator": (), "tir": (), "tile": (), "relax": ("tir",), "tenstorrent": ("tir",)}
"""The wings, each with those that it stands on."""
LIFT = (
    "nests", "region", "accesses", "emission", "dataflow", "storage", "hazards", "loops", "rewrites", "schedule",
    "batched",
)  # fmt: skip


def _statements(nodes: Iterable[ast.AST], typed: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Statements, the inner ones too, without their expressions; and whether type checkers alone look at them."""
    for node in nodes:
        typed_here = typed or getattr(getattr(node, "test", None), "id", "") == "TYPE_CHECKING"
        yield node, typed_here
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(node, part, ()), typed_here)


@cache
def _imports(path: Path) -> tuple[tuple[ast.Import | ast.ImportFrom, bool], ...]:
    nodes = _statements(ast.parse(path.read_text(encoding="utf-8")).body, False)
    return tuple((node, typed) for node, typed in nodes if isinstance(node, ast.Import | ast.ImportFrom))


@cache
def imports_of(path: Path, run: bool = False) -> set[str]:
    """The imports of a file; with `run`, without those for type checkers alone."""
    names: set[str] = set()
    for node, typed in _imports(path):
        if run and typed:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def files_of(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_stands_before_it(package: str) -> None:
    later = PACKAGES[PACKAGES.index(package) + 1 :]
    for path in files_of(package):
        wrong = {name for name in imports_of(path) if name.split(".")[0] in (*later, "tests")}
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


def test_only_the_lowering_imports_jax() -> None:
    for package in ("tensorir", "stencils"):
        for path in files_of(package):
            wrong = {n for n in imports_of(path, run=True) if n.split(".")[0] in ("jax", "jaxlib", "equinox")}
            assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


def test_private_jax_is_imported_by_one_file() -> None:
    private = [p.name for p in files_of("lowering") if any(n.startswith("jax._") for n in imports_of(p))]
    assert private == ["tracing.py"]


@pytest.mark.parametrize("wing", WINGS)
def test_a_wing_knows_those_that_it_stands_on(wing: str) -> None:
    others = {f"tensorir.{w}" for w in WINGS if w != wing and w not in WINGS[wing]}
    for path in files_of("tensorir"):
        if path.relative_to(ROOT / "tensorir").parts[0] == wing:
            wrong = {n for n in imports_of(path) if ".".join(n.split(".")[:2]) in others}
            assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


@pytest.mark.parametrize("room", LIFT)
def test_a_room_of_the_lift_imports_only_what_stands_before_it(room: str) -> None:
    home, known = ROOT / "tensorir" / "lifting", {f"tensorir.lifting.{r}" for r in LIFT[: LIFT.index(room) + 1]}
    assert {p.name for p in home.iterdir() if p.is_dir()} - {"__pycache__"} == set(LIFT)
    for path in sorted((home / room).glob("*.py")):
        modules = {".".join(n.split(".")[:3]) for n in imports_of(path) if n.startswith("tensorir.lifting")}
        assert modules <= known, f"{path.relative_to(ROOT)} imports {sorted(modules - known)}"


def modules() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in (p for package in PACKAGES for p in files_of(package)):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported() -> dict[str, set[str]]:
    """The modules that each module imports, also inside of functions and for annotations."""
    known = modules()
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        wanted: set[str] = set()
        for node, _ in _imports(path):
            if isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
            elif node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                wanted |= {n if n in known else node.module for n in inner}
        graph[name] = {w for w in wanted if w in known and w != name}
    return graph


def import_graph() -> dict[str, set[str]]:
    """The imports of modules, with the package files that come with them."""
    graph = imported()
    for name, wanted in graph.items():
        packages = {w[:k] for w in wanted for k in range(len(w)) if w[k] == "." and not name.startswith(f"{w[:k]}.")}
        graph[name] = {w for w in wanted | packages if w in graph and w != name}
    return graph


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that reach each other; what imports, or is imported by, nothing that is left is no part."""
    graph = dict(graph)
    while True:
        imported = {b for a in graph for b in graph[a]}
        ends = {a for a in graph if a not in imported or not any(b in graph for b in graph[a])}
        if not ends:
            break
        graph = {a: graph[a] - ends for a in graph if a not in ends}
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen, stack = set[str](), list(graph[start])
        while stack:
            name = stack.pop()
            if name not in seen:
                seen.add(name)
                stack.extend(graph[name])
        reached[start] = seen
    return [{b for b in reached[a] if a in reached[b]} for a in graph if a in reached[a]]


def test_no_files_import_each_other() -> None:
    assert circles(import_graph()) == []


def layers() -> dict[str, int]:
    """The layer of each package or module that the page of layers names, from the ground up."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Layers of the core")[2].partition("|---|---|---|\n")[2].partition("\n\n")[0]
    rows = [re.findall(r"`([\w.]+)`", row.split("|")[2]) for row in table.splitlines()]
    return {f"tensorir.{name}": k for k, names in enumerate(rows) for name in names}


def test_layers_import_only_what_the_page_puts_before_them() -> None:
    known = layers()

    def layer(module: str) -> int:
        name = module
        while name not in known and "." in name:
            name = name.rpartition(".")[0]
        assert name in known, f"{module} stands in no layer of docs/architecture.md"
        return known[name]

    pairs = [(a, b) for a, names in imported().items() for b in sorted(names)]
    inner = [(a, b) for a, b in pairs if a.startswith("tensorir.") and b.startswith("tensorir.")]
    assert [(a, b) for a, b in inner if layer(b) > layer(a)] == []


def test_a_circle_is_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [{"b", "c"}, {"b", "c"}]


def test_every_extension_point_and_every_class_that_is_drawn_names_a_function() -> None:
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules().items()}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    calls = [n.args for n in nodes if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "ExtensionPoint"]
    drawn = [n.value for n in nodes if isinstance(n, ast.AnnAssign) and getattr(n.target, "id", "") == "_drawn_by"]
    places = [(ast.literal_eval(module), ast.literal_eval(name)) for _, module, name in calls]
    assert len(places) > 25 and len(drawn) > 15
    for module, name in [*places, *(ast.literal_eval(d).split(":") for d in drawn if d is not None)]:
        defined = {n.name for n in trees[module].body if isinstance(n, ast.FunctionDef)}
        taken = {a.name for n in trees[module].body if isinstance(n, ast.ImportFrom) for a in n.names}
        assert name in defined | taken, f"{module} has no {name}"


BARE = {"tensorir", "tensorir.runtime", "tensorir.runtime.assembly", "tensorir.runtime.memory"}
HELP = BARE | {"stencils", "stencils.cli", "stencils.cli.app", "stencils.cli.terminal", "tensorir.runtime.errors"}
HEAVY = {"cf_xarray", "dask", "equinox", "islpy", "jax", "jaxlib", "ml_dtypes", "netCDF4", "numpy", "xarray", "zarr"}


@pytest.mark.parametrize(
    "statement, ours",
    [("import tensorir", BARE), ("from stencils.cli import main; main(['--help'])", HELP)],
    ids=["import tensorir", "tensorir --help"],
)
def test_what_starts_loads_only_what_it_needs(statement: str, ours: set[str]) -> None:
    code = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {statement}"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.split()
    assert {m for m in loaded if m.split(".")[0] in PACKAGES} == ours
    assert not {m for m in loaded if m.split(".")[0] in HEAVY}


def test_calls_of_builtins_are_made_by_the_makers_alone() -> None:
    for package in PACKAGES:
        for path in files_of(package):
            if path.name in ("build.py", "ir.py") or any(w in path.parts for w in WINGS):
                continue
            makers = {n for n in ("Call", "Apply") if f"tensorir.ir.nodes.{n}" in imports_of(path)}
            if not makers:
                continue
            made = {
                node.func.id
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            }
            wrong = made & makers
            assert not wrong, f"{path.relative_to(ROOT)} makes {sorted(wrong)} itself"
