"""Two programs of files compared on the command line, with the counterexample as a file."""

import numpy as np
import pytest

from stencils.cli import main

FENCIL = "scale(y: tensor<float32, I[0:n]>, x: tensor<float32, I[0:n]>) { y ← x × 2.0f; }"
KERNEL = """
@T.prim_func
def {}(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        B[i] = {}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.fencil").write_text(FENCIL, encoding="utf-8")
    kernels = KERNEL.format("twice", "A[i] + A[i]") + KERNEL.format("wrong", "A[i] * T.float32(2.5)")
    (tmp_path / "kernels.py").write_text(kernels, encoding="utf-8")


def run(capsys, *arguments):
    code = 0
    try:
        main(["equal", *arguments])
    except SystemExit as end:
        code = end.code or 0
    told = capsys.readouterr()
    return code, told.out, told.err


def test_programs_of_two_languages_are_equal(capsys):
    code, out, err = run(capsys, "scale.fencil", "kernels.py:twice", "--size", "n=7")
    assert (code, out, err) == (0, "equal over the reals at n = 7\n", "")


CONSTANT = (
    "@T.prim_func\ndef f(A: T.Buffer(({n},)), B: T.Buffer(({n},))):\n    for i in range({n}):\n        B[i] = {value}\n"
)


def test_constants_go_to_the_kernels_that_ask_for_them(tmp_path, capsys):
    (tmp_path / "one.py").write_text(CONSTANT.format(n="N", value="A[i] * T.float32(2)"), encoding="utf-8")
    (tmp_path / "two.py").write_text(CONSTANT.format(n="M", value="A[i] + A[i]"), encoding="utf-8")
    given = ("--name", "N=8", "--name", "M=8")
    assert run(capsys, "one.py", "two.py", *given) == (0, "equal over the reals\n", "")
    code, _, err = run(capsys, "one.py", "two.py", *given, "--name", "Q=1")
    assert code and err.startswith("error[TS38]: nothing in one.py asks for the name 'Q'.\n")
    code, _, err = run(capsys, "scale.fencil", "scale.fencil", "--name", "n=7")
    assert code and err.startswith("error[C10]: 'scale.fencil' is no kernel (.py), and --name is not for one.\n")


def test_a_counterexample_is_told_and_written(capsys):
    code, out, _ = run(capsys, "scale.fencil:scale", "kernels.py:wrong", "--out", "found.npz")
    assert code == 1
    assert out == "different at n = 1: y[0] is 2.0 and 2.5.\nx = [1.0]\nwritten to found.npz\n"
    assert np.load("found.npz")["x"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("scale.fencil", "kernels.py"),
         "error[C07]: 'kernels.py' has several functions: twice, wrong.\nhelp: say which: --func twice.\n"),
        (("scale.fencil", "kernels.py:twice", "--match", "x=Q"),
         "error[TL04]: the second program has no parameter 'Q' to match.\nhelp: its parameters are A, B.\n"),
        (("scale.fencil", "kernels.py:twice", "--match", "q"),
         "error[C04]: '--match q' gives no name.\nhelp: write --match x=a.\n"),
        (("scale.fencil", "kernels.py:twice", "--size", "m=3"),
         "error[A04]: the size 'n' is not given.\nhelp: give it: sizes={'n': 8}.\n"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(arguments, told, capsys):
    code, _, err = run(capsys, *arguments)
    assert (code, err) == (2, told)
