"""What installers are promised: floors that `make test-oldest` tries, a version, a light core, and what is lacking."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tensorir
import tensorir as ti

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
OLDEST = dict(re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / "tests" / "oldest.txt").read_text(encoding="utf-8"), re.M))
PROMISED = [*PROJECT["dependencies"], *EXTRAS["cli"], *EXTRAS["plot"], *EXTRAS["export"]]
FLOORS = [re.fullmatch(r"([\w-]+)>=([\d.]+)(;.*)?", text) for text in PROMISED]


@pytest.mark.parametrize("floor", FLOORS, ids=lambda m: m[1])
def test_a_floor_is_the_version_that_is_tried(floor):
    tried = OLDEST[floor[1]].split(".")
    promised = floor[2].split(".")
    assert tried[: len(promised)] == promised


def test_the_version_is_a_version_and_the_newest_of_the_changes():
    assert re.fullmatch(r"\d+\.\d+\.\d+", ti.__version__)
    changes = re.findall(r"^## ([\d.]+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert changes[0] == ti.__version__


def test_a_tag_of_this_commit_is_its_version():
    run = subprocess.run(["git", "tag", "--points-at", "HEAD", "v*"], cwd=ROOT, capture_output=True, text=True)
    assert set(run.stdout.split()) <= {f"v{ti.__version__}"}


def imported(package: str) -> set[str]:
    """What the files of a package import outside of functions, but for what stands on a peer."""
    found: set[str] = set()
    for path in (ROOT / package).rglob("*.py"):
        if "cli" in path.parts or path.stem.startswith("gt4py"):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found |= {name.partition(".")[0] for name in names}
    return found


@pytest.mark.parametrize("package", ["tensorir", "lowering", "stencils"])
def test_what_is_imported_at_once_is_a_dependency_of_the_core(package):
    known = {re.match(r"[\w-]+", d)[0].replace("-", "_") for d in PROJECT["dependencies"]}
    ours = {"tensorir", "lowering", "stencils"}
    assert imported(package) - set(sys.stdlib_module_names) - ours <= known


WITHOUT = """
import sys
sys.modules[{0!r}] = None
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == {0!r} else find(name, *rest)
from stencils.cli import main
main({1!r})
"""
LACKING = {
    "typer": (["check", "a.fencil"], "commands need typer", "cli"),
    "rich": (["check", "a.fencil"], "commands need rich", "cli"),
    "netCDF4": (["run", "a.fencil", "--input", "x.nc", "--out", "y.npz"], "files in NetCDF need netCDF4", "cli"),
    "matplotlib": (["run", "a.fencil", "--input", "x.npz", "--plot", "p.png"], "pictures need matplotlib", "plot"),
}


@pytest.mark.parametrize("library", LACKING)
def test_a_command_says_which_library_it_lacks_and_how_to_get_it(library, tmp_path):
    arguments, what, extra = LACKING[library]
    (tmp_path / "a.fencil").write_text("f(o: tensor<float, I[0:2]>, x: tensor<float, I[0:2]>) { o ← x; }")
    (tmp_path / "x.nc").write_bytes(b"CDF")
    code = "import numpy; numpy.savez('x.npz', x=numpy.ones(2))\n" + WITHOUT.format(library, arguments)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    said = f"error[C12]: {what}, which is not installed.\nhelp: pip install 'tensorir[{extra}]'\n"
    assert (run.stderr, run.returncode) == (said, 2)


def test_what_is_cited_is_the_version_that_there_is():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", cited, re.MULTILINE)[1] == tensorir.__version__


HELP = """
import sys
from stencils.cli import main
try:
    main(["--help"])
finally:
    print("loaded:", sorted({"jax", "xarray", "matplotlib", "zarr"} & set(sys.modules)))
"""


def test_the_help_of_the_command_line_waits_for_no_library_of_arrays():
    run = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout.splitlines()[-1] == "loaded: []", run.stderr


UNINSTALLED = """
from importlib import metadata
metadata.entry_points = lambda **group: ()
import tensorir as ti
print(ti.parse("f(y: tensor<float>, x: tensor<float>) { y ← x + x; }")(x=1.5)["y"])
"""


def test_a_checkout_on_the_path_of_imports_finds_its_own_backends():
    run = subprocess.run([sys.executable, "-c", UNINSTALLED], cwd=ROOT, capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("3.0\n", "")


def test_files_that_pytest_collects_have_names_of_their_own():
    # of two with one name pytest collects the first, and an error of the other ends no run
    tests = Path(__file__).parent
    folders = {p.parent for p in tests.rglob("__init__.py")}
    names = [p.name for p in tests.rglob("*.py") if p.parent not in folders and p.name != "conftest.py"]
    assert sorted(names) == sorted(set(names))
