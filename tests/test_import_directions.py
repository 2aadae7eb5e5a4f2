"""Imports run one way: tensorir <- lowering <- stencils, and no wing knows another."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("tensorir", "lowering", "stencils")
WINGS = ("iterator", "tir", "tile")
LIFT = ("nests", "accesses", "emission", "storage", "hazards", "loops", "rewrites")


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


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
            wrong = {n for n in imports_of(path) if n.split(".")[0] in ("jax", "jaxlib", "equinox")}
            assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


def test_private_jax_is_imported_by_one_file() -> None:
    private = [p.name for p in files_of("lowering") if any(n.startswith("jax._") for n in imports_of(p))]
    assert private == ["tracing.py"]


@pytest.mark.parametrize("wing", WINGS)
def test_a_wing_knows_no_other_wing(wing: str) -> None:
    others = tuple(f"tensorir.{w}" for w in WINGS if w != wing)
    for path in files_of("tensorir"):
        if path.relative_to(ROOT / "tensorir").parts[0] == wing:
            wrong = {n for n in imports_of(path) if n.startswith(others)}
            assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


@pytest.mark.parametrize("room", LIFT)
def test_a_room_of_the_lift_imports_only_what_stands_before_it(room: str) -> None:
    home, known = ROOT / "tensorir" / "lift", {f"tensorir.lift.{r}" for r in LIFT[: LIFT.index(room) + 1]}
    assert {p.name for p in home.iterdir() if p.is_dir()} - {"__pycache__"} == set(LIFT)
    for path in sorted((home / room).glob("*.py")):
        modules = {".".join(n.split(".")[:3]) for n in imports_of(path) if n.startswith("tensorir.lift")}
        assert modules <= known, f"{path.relative_to(ROOT)} imports {sorted(modules - known)}"


def test_the_core_does_not_import_a_wing_when_it_is_imported() -> None:
    code = "import sys, tensorir; print([m for m in sys.modules if m.split('.')[0] in ('jax', 'xarray', 'equinox')"
    code += " or m.startswith(('tensorir.tir', 'tensorir.tile', 'tensorir.iterator'))])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_calls_of_builtins_are_made_by_the_makers_alone() -> None:
    for package in PACKAGES:
        for path in files_of(package):
            if path.name in ("build.py", "ir.py") or any(w in path.parts for w in WINGS):
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            made = {
                node.func.id
                for node in ast.walk(tree)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            }
            imported = imports_of(path)
            wrong = {n for n in made & {"Call", "Apply"} if f"tensorir.ir.{n}" in imported}
            assert not wrong, f"{path.relative_to(ROOT)} makes {sorted(wrong)} itself"
