"""The commands on Tile IR: text and bytecode."""

import numpy as np
import pytest

import tensorir.tile as tile
from stencils.cli import main

TEXT = """entry @twice(%p: tile<ptr<f32>>, %n: tile<i32>, %s: tile<i32>) {
  %v = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(4), tensor_view<?xf32, strides=[1]>>
  %i, %j, %k = get_tile_block_id : tile<i32>
  %x, %t = load_view_tko weak %w[%i]
    : partition_view<tile=(4), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<4xf32>, token
  %y = addf %x, %x : tile<4xf32>
  %u = store_view_tko weak %y, %w[%i] token = %t
    : tile<4xf32>, partition_view<tile=(4), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
  return
}
"""


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.mlir").write_text(TEXT, encoding="utf-8")
    np.savez(tmp_path / "in.npz", p=np.arange(8, dtype=np.float32))
    return tmp_path


def call(*words):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as end:
        main(list(words))
    return end.value.code


def test_a_kernel_is_checked_printed_and_converted(kernel, capsys):
    assert call("check", "k.mlir") == 0
    assert capsys.readouterr().out == "twice: well-formed\n"
    assert call("convert", "k.mlir", "k.tileirbc", "--version", "13.1") == 0
    assert call("convert", "k.tileirbc", "again.mlir") == 0
    assert tile.parse((kernel / "again.mlir").read_text(encoding="utf-8")) == tile.parse(TEXT)
    capsys.readouterr()
    assert call("print", "k.tileirbc") == 0
    assert tile.parse(capsys.readouterr().out) == tile.parse(TEXT)


@pytest.mark.parametrize("name", ("k.mlir", "k.tileirbc"))
def test_a_kernel_runs_on_arrays_from_files(kernel, capsys, name):
    assert call("convert", "k.mlir", "k.tileirbc") == 0
    if name == "k.tileirbc":
        np.savez(kernel / "in.npz", arg0=np.arange(8, dtype=np.float32))
    assert call("run", name, "--input", "in.npz", "--grid", "2", "--checked", "--out", "out.npz") == 0
    (after,) = np.load(kernel / "out.npz").values()
    assert after.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert "8, float32, 0.0 to 14.0" in capsys.readouterr().out


def test_numbers_are_set_and_a_wrong_run_ends_with_1(kernel, capsys):
    assert call("run", "k.mlir", "--input", "in.npz", "--set", "n=16", "--set", "s=1", "--grid", "4") == 1
    assert "error[TH01]: load_view_tko reads element 8 of '%p' in block (2, 0, 0)" in capsys.readouterr().err
    assert call("run", "k.mlir", "--input", "in.npz", "--set", "q=1") == 2
    assert "error[A08]: 'twice' has no parameter 'q'." in capsys.readouterr().err
    assert call("run", "k.mlir", "--input", "p=in.npz:p", "--set", "p=1") == 2
    assert "error[C04]: 'p' is given by '--input p=in.npz:p' and by '--set p=1'." in capsys.readouterr().err
    assert call("run", "k.mlir", "--input", "p=in.npz:p", "--grid", "2") == 0
    assert call("run", "k.mlir", "--input", "in.npz", "--grid", "two") == 2
    assert "error[C11]: '--grid two' is no grid." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--set", "n=0xe"], 0, ""),
        (["--set", "n=0XE"], 0, ""),
        (["--set", "n=1E1"], 0, ""),
        (["--set", "n=1e"], 2, "error[C04]: '--set n=1e' gives no number.\nhelp: write --set n=8.\n"),
        (["--set", "n=0xg"], 2, "error[C04]: '--set n=0xg' gives no number.\nhelp: write --set n=8.\n"),
        (["--grid", ""], 2, "error[C11]: '--grid ' is no grid.\nhelp: write --grid 4,1,1.\n"),
        (["--set", "n=3", "--set", "n=4"], 2,
         "error[C04]: '--set n=' is given twice, as 3 and as 4.\nhelp: leave one out.\n"),
    ],
)  # fmt: skip
def test_numbers_of_a_kernel_are_read_as_they_are_written(kernel, capsys, words, code, message):
    np.savez(kernel / "in.npz", p=np.arange(16, dtype=np.float32))
    assert call("run", "k.mlir", "--input", "in.npz", "--set", "s=1", *words) == code
    assert capsys.readouterr().err == message


def test_what_is_wrong_is_told_with_its_place(kernel, capsys):
    (kernel / "k.mlir").write_text(TEXT.replace("addf", "addi"), encoding="utf-8")
    assert call("check", "k.mlir") == 2
    assert capsys.readouterr().err.startswith("k.mlir:7:22: error[TM47]: addi takes a tile of integers")
    (kernel / "k.tileirbc").write_bytes(b"no bytecode")
    assert call("check", "k.tileirbc") == 2
    assert capsys.readouterr().err.startswith("k.tileirbc: byte 0x0: error[TB01]")
    assert call("convert", "k.mlir", "k.txt") == 2
    assert "error[F03]: 'k.txt' ends in '.txt', and Tile IR is written." in capsys.readouterr().err


def test_a_kernel_is_lifted_for_the_shapes_of_its_arrays(kernel, capsys):
    assert call("lift", "k.mlir", "--grid", "2", "--set", "p=8") == 0
    assert capsys.readouterr().out == (
        "twice(p: tensor<float32, p_0[0:8]>) {\n  p ← p + p;\n}\n\nline 1: block bx: parallel\n"
    )
    assert call("lift", "k.mlir", "--grid", "2") == 2
    assert "error[C08]: the shape of 'p' is not known." in capsys.readouterr().err
    assert call("lift", "k.mlir", "--set", "p=wide") == 2
    assert "error[C04]: '--set p=wide' gives no shape." in capsys.readouterr().err
