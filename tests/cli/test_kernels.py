"""Kernels on the command line: TVMScript files are checked, printed and interpreted, and never executed."""

import numpy as np
import pytest

from stencils.cli import main

KERNEL = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.serial(8):
        with T.sblock("double"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text(KERNEL, encoding="utf-8")
    return tmp_path


def run(capsys, *arguments):
    code = 0
    try:
        main(list(arguments))
    except SystemExit as end:
        code = end.code or 0
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_kernel_is_checked_and_printed(folder, capsys):
    code, out, err = run(capsys, "check", "kernel.py")
    assert (code, err) == (0, "") and out.endswith("main: well-formed\n")
    code, out, _ = run(capsys, "print", "kernel.py")
    assert code == 0 and "B[vi] = A[vi] * T.float32(2" in out


RELAX = """
@R.function
def main(x: R.Tensor((2, "n"), "float32"), y: R.Tensor((2, "n"), "float32")):
    lv = R.add(x, y)
    gv = (lv, R.sum(lv))
    return gv
"""


def test_a_function_of_relax_runs_on_random_arrays_and_says_its_results(folder, capsys):
    (folder / "model.py").write_text(RELAX, encoding="utf-8")
    code, out, err = run(capsys, "run", "model.py", "--random", "--set", "n=3")
    assert (code, err) == (0, "")
    assert [line.partition(", ")[0] for line in out.splitlines()] == ["result0: 2 × 3", "result1: a number"]
    code, _, err = run(capsys, "run", "model.py", "--random")
    assert code == 2 and "the size 'n' of 'x' is not known" in err


def test_a_kernel_is_interpreted_on_given_and_on_random_arrays(folder, capsys):
    a = np.arange(8, dtype="float32")
    np.savez("in.npz", A=a, B=np.zeros(8, "float32"))
    code, out, err = run(capsys, "run", "kernel.py", "--input", "in.npz", "--out", "out.npz", "--checked")
    assert (code, err) == (0, "") and out.startswith("B: 8, float32, 0.0 to 14.0\n")
    with np.load("out.npz") as data:
        np.testing.assert_array_equal(data["B"], 2 * a)
    assert run(capsys, "run", "kernel.py", "--random")[0] == 0


@pytest.mark.parametrize(
    ("text", "arguments", "code"),
    [
        (KERNEL.replace("T.axis.spatial(8, i)", "T.axis.spatial(8, j)"), ["check"], 2),
        ("import os\nos.remove('kernel.py')\n", ["check"], 2),
        (KERNEL, ["run"], 2),
        (KERNEL.replace("A[vi] *", "A[vi + 1] *"), ["run", "--random", "--checked"], 1),
    ],
)
def test_a_bad_kernel_is_refused_and_never_executed(folder, capsys, text, arguments, code):
    (folder / "kernel.py").write_text(text, encoding="utf-8")
    command, *options = arguments
    got, _, err = run(capsys, command, "kernel.py", *options)
    assert got == code and "error[" in err and "Traceback" not in err
    assert (folder / "kernel.py").exists()


def test_of_several_functions_one_that_exists_is_suggested(folder, capsys):
    two = KERNEL.replace("def main", "def f") + KERNEL.replace("def main", "def g")
    (folder / "two.py").write_text(two, encoding="utf-8")
    code, _, err = run(capsys, "run", "two.py", "--random")
    assert code == 2 and "help: say which: --func f." in err
