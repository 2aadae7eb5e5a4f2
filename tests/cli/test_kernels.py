"""Kernels on the command line: TVMScript files are checked, printed and interpreted, and never executed."""

import numpy as np
import pytest
from command import run

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


def test_options_of_programs_are_refused_for_a_kernel(folder, capsys):
    code, out, err = run(capsys, "run", "kernel.py", "--random", "--steps", "3", "--backend", "jax", "--cast")
    assert (code, out) == (2, "")
    assert err == (
        "error[C10]: 'kernel.py' is a kernel, and --steps, --cast, --backend are not for one.\nhelp: leave them out.\n"
    )
    for command in (["check", "kernel.py", "--fencil", "main"], ["print", "kernel.py", "--ascii"]):
        assert run(capsys, *command)[0] == 2


def test_a_number_that_a_kernel_does_not_have_is_refused(folder, capsys):
    for command in (["run", "kernel.py", "--random"], ["lift", "kernel.py"]):
        code, out, err = run(capsys, *command, "--set", "m=3")
        assert (code, out) == (2, "") and "error[A08]: 'main' has no " in err


SIZED = """
@T.prim_func
def main(a: T.handle, B: T.Buffer((6,), "float32"), factor: T.float32):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    for i in T.serial(n):
        with T.sblock("scale"):
            vi = T.axis.spatial(n, i)
            B[vi * 2] = A[vi] * factor
"""


SIGNED = """
@T.prim_func
def main(B: T.Buffer((1,), "float32"), up: T.bool):
    B[0] = T.if_then_else(up, T.float32(1), T.float32(-1))
"""


@pytest.fixture
def sized(folder):
    (folder / "sized.py").write_text(SIZED, encoding="utf-8")
    (folder / "signed.py").write_text(SIGNED, encoding="utf-8")
    return folder


@pytest.mark.parametrize("text", ["true", "True", "1"])
def test_a_truth_value_is_set(sized, capsys, text):
    assert run(capsys, "run", "signed.py", "--set", f"up={text}", "--random")[:2] == (0, "B: 1, float32, 1.0 to 1.0\n")


def test_one_array_of_a_file_is_given_by_name_and_tells_the_sizes(sized, capsys):
    np.savez("in.npz", height=np.array([1, 2, 3], "float32"), B=np.zeros(6, "float32"))
    arguments = ["run", "sized.py", "-i", "A=in.npz:height", "-i", "B=in.npz", "--set", "factor=0.5", "-o", "out.npz"]
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "") and out.startswith("B: 6, float32, 0.0 to 1.5\n")
    with np.load("out.npz") as data:
        np.testing.assert_array_equal(data["B"], [0.5, 0, 1, 0, 1.5, 0])
    code, _, err = run(capsys, "run", "sized.py", "-i", "A=in.npz:hight", "--random")
    assert code == 2 and err == "error[C05]: 'in.npz' has no variable 'hight'.\nhelp: did you mean 'height'?\n"


AROUND = """
@T.prim_func
def main(A: T.Buffer((n,), dtype)):
    for i in range(n):
        A[i] = A[i] * scale if doubled else A[i]
"""
FACTORY = """
import tilelang
import tilelang.language as T

@tilelang.jit
def scaled(M, N, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype)):
        with T.Kernel(M, threads=N) as bx:
            for i in T.Parallel(N):
                A[bx, i] = A[bx, i] * 2
    return main
"""
NAMES = ("--name", "n=4", "--name", "dtype=float32", "--name", "scale=2.5", "--name", "doubled=true")


def test_names_from_around_a_kernel_are_given_by_name(folder, capsys):
    (folder / "around.py").write_text(AROUND, encoding="utf-8")
    np.savez("in.npz", A=np.arange(4, dtype="float32"))
    code, _, err = run(capsys, "run", "around.py", *NAMES, "-i", "in.npz", "-o", "out.npz")
    assert (code, err) == (0, "")
    with np.load("out.npz") as data:
        assert data["A"].tolist() == [0, 2.5, 5, 7.5]
    assert run(capsys, "check", "around.py", *NAMES)[1].endswith("main: well-formed\n")
    assert 'A: T.Buffer((4,), "float32")' in run(capsys, "print", "around.py", *NAMES)[1]
    (folder / "factory.py").write_text(FACTORY, encoding="utf-8")
    code, out, err = run(capsys, "lift", "factory.py", "--name", "M=2", "--name", "N=8", "--name", "dtype='float16'")
    assert (code, err) == (0, "") and "tensor<float16, blockIdx_x[0:2], i[0:8]>" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "around.py", *NAMES, "--name", "scal=3"],
         "error[TS38]: nothing in around.py asks for the name 'scal'.\nhelp: did you mean 'scale'?\n"),
        (["check", "around.py", *NAMES, "--name", "q=3"],
         "error[TS38]: nothing in around.py asks for the name 'q'.\n"
         "help: leave it out, or write it as the text does.\n"),
        (["run", "around.py", "--name", "n=4,5x"],
         "error[C04]: '--name n=4,5x' gives neither a number nor a string.\n"
         "help: write --name n=128, or --name n=float16.\n"),
        (["lift", "around.py", "--name", "n"], "error[C04]: '--name n' gives no value.\nhelp: write --name n=128.\n"),
        (["tt", "factory.py", "--name", "dtype=float16"],
         "factory.py:6:12: error[TS37]: 'scaled' is a kernel for given M, N.\n  def scaled(M, N, dtype=\"float32\"):\n"
         "             ^\nhelp: give their values: --name M=... --name N=....\n"),
        (["check", "p.fencil", "--name", "n=4"],
         "error[C10]: 'p.fencil' is a program, and --name is not for one.\nhelp: leave it out.\n"),
    ],
)  # fmt: skip
def test_a_name_that_is_wrong_or_missing_is_told(folder, capsys, arguments, message):
    for name, text in (("around.py", AROUND), ("factory.py", FACTORY), ("p.fencil", "")):
        (folder / name).write_text(text, encoding="utf-8")
    assert run(capsys, *arguments) == (2, "", message)


def test_arrays_that_no_parameter_takes_are_refused(sized, capsys):
    np.savez("other.npz", q=np.zeros(3, "float32"))
    code, out, err = run(capsys, "run", "kernel.py", "--random", "-i", "other.npz")
    assert (code, out) == (2, "")
    assert err.startswith("error[C05]: no variable of 'other.npz' has the name of a parameter: it has q, and 'main'")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "sized.py", "--random", "--set", "n=-2"],
         "error[C04]: the size 'n' is -2.\nhelp: a size is 0 or more.\n"),
        (["run", "sized.py", "--random", "--set", "n=3"],
         "error[A11]: 'factor' of 'main' is not given.\nhelp: write --set factor=1.\n"),
        (["run", "sized.py", "--random", "--set", "factor=1"],
         "error[C08]: the size 'n' of 'A' is not known.\nhelp: say it: --set n=8.\n"),
        (["run", "sized.py", "--random", "--set", "n=1.5"],
         "error[C04]: '--set n=1.5' gives no whole number.\nhelp: write --set n=8.\n"),
        (["run", "sized.py", "--random", "--set", "n=3000000000"],
         "error[C04]: '--set n=3000000000' is beyond int32.\nhelp: its numbers are -2,147,483,648 to 2,147,483,647.\n"),
        (["run", "signed.py", "--random", "--set", "up=2"],
         "error[C04]: '--set up=2' is beyond bool.\nhelp: its numbers are 0 to 1.\n"),
        (["run", "signed.py", "--random", "--set", "up=yes"],
         "error[C04]: '--set up=yes' gives no truth value.\nhelp: write --set up=true.\n"),
        (["lift", "sized.py"], "error[C08]: the size 'n' is not known.\nhelp: say it: --set n=8.\n"),
        (["lift", "sized.py", "--set", "n=-2"], "error[C04]: '--set n=-2' gives no size.\nhelp: write --set n=100.\n"),
        (["lift", "sized.py", "--set", f"n={10**19}"],
         f"error[C04]: '--set n={10**19}' is beyond int64.\nhelp: write --set n=100.\n"),
    ],
)  # fmt: skip
def test_what_a_kernel_cannot_be_called_with_is_told(sized, capsys, arguments, message):
    assert run(capsys, *arguments) == (2, "", message)


def test_a_kernel_is_lifted_at_sizes_without_its_other_numbers(sized, capsys):
    code, out, err = run(capsys, "lift", "sized.py", "--set", "n=3")
    assert (code, err) == (0, "") and "[0:3]>, B: tensor<float32, i[0:6]>" in out
