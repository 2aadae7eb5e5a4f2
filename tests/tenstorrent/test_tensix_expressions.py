"""Random expressions as C++: of every operator, type and nesting, compiled, beside the interpreter of TIR."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.tenstorrent.kernels.header import header
from tensorir.tenstorrent.kernels.printing import Names, cpp, cpp_type
from tensorir.tir import nodes as n
from tensorir.tir.trees import walk

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
TYPES = INTEGERS + FLOATS
COUNT, EACH = 64, 40
NUMBERS = ("0.5", "-3.0", "1.0", "10.0", "-0.0", "6e4", "'inf'", "'-inf'", "'nan'")
PLATFORM = """
#include <cstdint>
uint32_t get_read_ptr(uint32_t); uint32_t get_write_ptr(uint32_t);
void noc_async_read(uint64_t, uint32_t, uint32_t); void noc_async_write(uint32_t, uint64_t, uint32_t);
template <bool> struct InterleavedAddrGen { uint32_t a, b; };
template <typename X> uint64_t get_noc_addr(uint32_t, const X&, uint32_t);
#include "tiles.h"
"""


class Random:
    """Expressions of a type in the words of TVMScript."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one(self, *choices: str) -> str:
        return str(self.rng.choice(choices))

    def of(self, kind: str, depth: int) -> str:
        if depth == 0 or self.rng.random() < 0.1:
            return self.leaf(kind)
        a, b = self.of(kind, depth - 1), self.of(kind, depth - 1)
        match int(self.rng.integers(8)):
            case 0 | 1 | 2:
                return f"({a} {self.one('+', '-', '*')} {b})"
            case 3 if kind in FLOATS:
                return f"({a} / {b})"
            case 3:
                word = self.one("floordiv", "floormod", "truncdiv", "truncmod")
                return f"T.{word}({a}, T.max({b}, T.{kind}(1)))"
            case 4:
                return f"T.{self.one('min', 'max')}({a}, {b})"
            case 5:
                return f"T.{self.one('Select', 'if_then_else')}({self.condition(depth - 1)}, {a}, {b})"
            case 6:
                other = self.one(*TYPES)
                return f"T.Cast({kind!r}, {self.of(other, depth - 1)})"
            case _ if kind in FLOATS and self.rng.random() < 0.3:
                return self.one(f"T.fmod({a}, {b})", f"T.sqrt(T.fabs({a}))")
            case _ if kind in FLOATS:
                return f"T.{self.one('floor', 'ceil', 'trunc', 'fabs', 'nearbyint')}({a})"
            case _:
                return f"T.bitwise_{self.one('and', 'or', 'xor')}({a}, {b})"

    def condition(self, depth: int) -> str:
        kind = self.one(*TYPES)
        compared = f"({self.of(kind, depth)} {self.one('<', '<=', '>', '>=', '==', '!=')} {self.of(kind, depth)})"
        match int(self.rng.integers(5)):
            case 0 if depth > 0:
                return f"T.And({compared}, {self.condition(depth - 1)})"
            case 1 if depth > 0:
                return f"T.Or({self.condition(depth - 1)}, {compared})"
            case 2:
                return f"T.Not({compared})"
            case 3 if kind in FLOATS:
                return f"T.{self.one('isnan', 'isinf', 'isfinite')}({self.of(kind, depth)})"
            case _:
                return compared

    def index(self, depth: int) -> str:
        """A whole number of the loop's variable, of which a bound from below may be known."""
        if depth == 0:
            return self.one("i", "i", f"T.int32({int(self.rng.integers(-5, 9))})")
        a, b = self.index(depth - 1), self.index(depth - 1)
        c = f"T.int32({int(self.rng.integers(2, 7))})"
        return self.one(
            f"({a} + {b})", f"({a} - {c})", f"({a} * {b})", f"T.min({a}, {b})", f"T.max({a}, {c})",
            f"T.floordiv({a}, {c})", f"T.floormod({a}, {c})", f"T.floordiv({a}, {c})", f"T.floormod({a}, {c})",
        )  # fmt: skip

    def leaf(self, kind: str) -> str:
        if self.rng.random() < 0.7:
            return f"{self.one('A', 'B')}_{kind}[i]"
        if self.rng.random() < 0.4:
            return f"T.Cast({kind!r}, {self.index(3)})"
        if kind in FLOATS:
            return f"T.{kind}({self.one(*NUMBERS)})"
        if self.rng.random() < 0.3:
            return f"T.{kind}({self.one(*map(str, (np.iinfo(kind).min, np.iinfo(kind).max)))})"
        low, high = (-128, 127) if kind == "int8" else (0, 255) if kind[0] == "u" else (-1000, 1000)
        return f"T.{kind}({int(self.rng.integers(low, high + 1))})"


def values(kind: str, rng: np.random.Generator) -> Any:
    if kind in FLOATS:
        return (rng.standard_normal(COUNT) * 10.0 ** rng.integers(-2, 3, COUNT)).astype(
            ti.tir.dtypes.DataType.parse(kind).element.numpy
        )
    ends = np.iinfo(kind)
    found = rng.integers(ends.min, ends.max, COUNT, dtype=kind, endpoint=True)
    found[: COUNT // 2] = rng.integers(0 if kind[0] == "u" else -9, 10, COUNT // 2)
    return found


def source(kind: str, expressions: list[str]) -> str:
    buffers = [f'{x}_{t}: T.Buffer(({COUNT},), "{t}")' for t in TYPES for x in "AB"]
    results = f'out: T.Buffer(({len(expressions)}, {COUNT}), "{kind}")'
    stores = [f"        out[{k}, i] = {e}" for k, e in enumerate(expressions)]
    head = f"@T.prim_func\ndef main({', '.join([*buffers, results])}):\n    for i in T.serial({COUNT}):\n"
    return head + "\n".join(stores) + "\n"


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not here")
def test_random_expressions_compute_in_cpp_what_they_do_in_tir(tmp_path: Path) -> None:
    random, rng = Random(0), np.random.default_rng(1)
    arrays = [values(t, rng) for t in TYPES for _ in "AB"]
    files, expected, texts = [PLATFORM], {}, {}
    for kind in TYPES:
        texts[kind] = [random.of(kind, 1 + k % 4) for k in range(EACH)]
        func = ti.tir.parse(source(kind, texts[kind]))["main"]
        made = np.zeros((EACH, COUNT), ti.tir.dtypes.DataType.parse(kind).element.numpy)
        expected[kind] = ti.tir.interpret(func, *arrays, made)[-1]
        buffers = {b: b.name for b in func.buffer_map.values()}
        loop = next(node for node in walk(func.body) if isinstance(node, n.For))
        names = Names(buffers=buffers, least={loop.loop_var: 0})
        stores = [node.value for node in walk(func.body) if isinstance(node, n.BufferStore)]
        tiles = [
            f"    const Tile<{cpp_type(b.dtype)}, {', '.join(str(e) for e in b.shape)}> {b.name}(given[{k}]);"
            for k, b in enumerate(buffers)
        ]
        lines = [f"        out({k}, i) = {cpp(value, names)};" for k, value in enumerate(stores)]
        files.append(f'extern "C" void run_{kind}(void** given) {{\n' + "\n".join(tiles))
        files.append(f"    for (int32_t i = 0; i < {COUNT}; ++i) {{\n" + "\n".join(lines) + "\n    }\n}")
    (tmp_path / "tiles.h").write_text(header(32, 32))
    (tmp_path / "unit.cpp").write_text("\n".join(files))
    command = ["g++", "-std=c++20", "-O0", "-shared", "-fPIC", f"-I{tmp_path}", str(tmp_path / "unit.cpp")]
    built = subprocess.run(
        [*command, "-o", str(tmp_path / "unit.so")], capture_output=True, text=True, timeout=300, check=False
    )
    assert built.returncode == 0, built.stderr[:3000]
    library = ctypes.CDLL(str(tmp_path / "unit.so"))
    for kind in TYPES:
        found = np.zeros_like(expected[kind])
        given = [a.ctypes.data for a in (*arrays, found)]
        getattr(library, f"run_{kind}")((ctypes.c_void_p * len(given))(*given))
        for k, text in enumerate(texts[kind]):
            mine, theirs = (a[k].astype(np.float64) if kind in FLOATS else a[k] for a in (found, expected[kind]))
            np.testing.assert_array_equal(mine, theirs, err_msg=f"{kind}: {text}")
