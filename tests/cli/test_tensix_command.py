"""`tensorir tt`: a kernel of TileLang as files for a grid of cores, simulated; `tensorir run` on the same text."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from stencils.cli import main

sys.path.insert(0, str(Path(__file__).parent.parent / "tenstorrent"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tilelang"))
from tensix_kernels import chain, matmul, softmax
from tile_kernels import text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "matmul.py").write_text(matmul(), encoding="utf-8")
    return tmp_path


def call(*words):
    """The exit code of a command."""
    try:
        main(list(words))
    except SystemExit as end:
        return end.code or 0
    return 0


def test_the_files_of_a_kernel_are_written_and_it_is_simulated(folder, capsys):
    assert call("tt", "matmul.py", "--cores", "4", "--out", "programs", "--random") == 0
    said = capsys.readouterr().out
    assert "main: 6 tiles on 4 of 4 cores" in said and "CB_A: 2 tiles, blocks of 1" in said
    assert "simulated: " in said and "without a fault" in said and "C: 64 × 96, float32" in said
    names = {"compute.cpp", "reader.cpp", "writer.cpp", "main.cpp", "tiles.h", "tt.plan.json"}
    assert {p.name for p in (folder / "programs").iterdir()} == names
    plan = json.loads((folder / "programs" / "tt.plan.json").read_text(encoding="utf-8"))
    assert plan["num_cores"] == 4 and plan["tiles_per_core"] == [[0, 2], [2, 2], [4, 1], [5, 1]]
    assert call("tt", "matmul.py", "--out", "programs") == 2
    assert "compute.cpp' is there already" in capsys.readouterr().err
    assert call("tt", "matmul.py", "--out", "programs", "--overwrite") == 0


def test_programs_of_a_card_are_written_with_what_they_cost(folder, capsys):
    assert (
        call("tt", "matmul.py", "--cores", "6", "--card", "wormhole", "--mcast", "--out", "programs", "--random") == 0
    )
    said = capsys.readouterr().out
    assert "6 cores of a wormhole: " in said and "binds" in said and "without a fault" in said
    names = {"compute.cpp", "reader.cpp", "writer.cpp", "host.cpp", "metal.plan.json"}
    assert {p.name for p in (folder / "programs").iterdir()} == names
    plan = json.loads((folder / "programs" / "metal.plan.json").read_text(encoding="utf-8"))
    assert plan["multicast"] == {"A_block": "row", "B_block": "column"}
    assert call("tt", "matmul.py", "--card", "grayskull") == 2
    assert "error[TN18]: there is no card 'grayskull'; there are wormhole and blackhole." in capsys.readouterr().err


def test_the_kernel_is_printed_before_and_after_each_pass(folder, capsys):
    assert call("tt", "matmul.py", "--passes") == 0
    said = capsys.readouterr().out
    starts = [said.index(f"\n{name}: ") for name in ("defaults", "schedule", "shard", "persistent")]
    assert starts == sorted(starts)
    assert said.count("@T.prim_func") == 5 and said.count('thread="blockIdx.x"') == 4


def test_sizes_are_set_before_tiles_are_given_to_cores(folder, capsys):
    (folder / "dynamic.py").write_text(text("dynamic"), encoding="utf-8")
    assert call("tt", "dynamic.py", "--set", "m=21", "--random") == 0
    said = capsys.readouterr().out
    assert "main: 3 tiles on 3 of 64 cores" in said and "B: 21 × 16, float32" in said
    assert call("tt", "dynamic.py") == 2
    assert "error[TN02]" in capsys.readouterr().err
    assert call("tt", "dynamic.py", "--set", "k=21") == 2
    assert "'k'" in capsys.readouterr().err


def test_arrays_come_from_files(folder, capsys):
    arrays = {"A": np.ones((64, 64), "f4"), "B": np.full((64, 96), 0.5, "f4"), "C": np.zeros((64, 96), "f4")}
    np.savez("in.npz", **arrays)
    assert call("tt", "matmul.py", "--input", "in.npz", "--order", "writer first") == 0
    assert "C: 64 × 96, float32, 32.0 to 32.0" in capsys.readouterr().out
    arrays["A"][0, 0] = np.nan
    np.savez("in.npz", **arrays)
    for command in ("tt", "run"):
        assert call(command, "matmul.py", "--input", "in.npz") == 0
        said = capsys.readouterr().out
        assert "C: 64 × 96, float32" in said and "A: 64" not in said


def test_the_text_of_tilelang_runs_by_itself(folder, capsys):
    assert call("run", "matmul.py", "--random", "--checked") == 0
    assert capsys.readouterr().out.startswith("C: 64 × 96, float32")


@pytest.mark.parametrize(
    ("source", "words", "message"),
    [
        (matmul(), ["--cores", "0"], "error[TN04]: tiles are given to 0 cores, and there is at least one."),
        (softmax(64, 40), ["--capacity", "1"], "k.py:9:13: error[TN10]: CB_X holds 1 tile, and a block has 2"),
        (
            chain(64, 64).replace("Y[by * 32, bx", "X[by * 32, 0"),
            [],
            "k.py:15:17: error[TN09]: 'X' is loaded and stored",
        ),
        (matmul().replace("T.gemm", "T.gem"), [], "k.py"),
        (matmul(), ["--random", "--order", "fast"], "error[TN12]: there is no order 'fast'"),
        (matmul(), ["--order", "fast"], "error[TN12]: there is no order 'fast'"),
        (matmul(), ["--random", "--seed", "-3"], "equal to 0"),
        (text("dynamic"), ["--set", "m=3000000000"], "error[C04]: '--set m=3000000000' is beyond int32."),
    ],
)
def test_bad_input_is_named_with_its_line(folder, capsys, source, words, message):
    (folder / "k.py").write_text(source, encoding="utf-8")
    assert call("tt", "k.py", *words) == 2
    assert message in capsys.readouterr().err


def test_a_program_is_no_kernel(folder, capsys):
    (folder / "p.fencil").write_text("f() { }", encoding="utf-8")
    assert call("tt", "p.fencil") == 2
    assert "is no kernel of tiles" in capsys.readouterr().err
