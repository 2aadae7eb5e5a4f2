"""Random kernels of tiles: nests, folds, copies and loops on a few blocks that all are filled before."""

from __future__ import annotations

import random

__all__ = ["random_kernel"]

TILES, VECTORS = ("y0", "y1", "y2"), ("w0", "w1")
TEXT = """
@T.prim_func
def main(A: T.Buffer((96, 64)), B: T.Buffer((32, 64)), V: T.Buffer((96,)), Y: T.Buffer((96, 64))):
    for bx in T.thread_binding(3, thread="blockIdx.x"):
        with T.sblock("tilelang_root"):
{allocations}
            T.copy(T.region(A[bx * 32, 0], 1, 32, 64), T.region(a[0, 0], 2, 32, 64))
            T.copy(T.region(B[0, 0], 1, 32, 64), T.region(b[0, 0], 2, 32, 64))
            T.copy(T.region(V[bx * 32], 1, 32), T.region(v[0], 2, 32))
{body}
            for i in T.parallel(32):
                for j in T.parallel(64):
                    y0[i, j] = y0[i, j] + y1[i, j] * w0[i] - y2[i, j] + w1[i]
            T.copy(T.region(y0[0, 0], 1, 32, 64), T.region(Y[bx * 32, 0], 2, 32, 64))
"""


def random_kernel(seed: int) -> str:
    """A kernel whose values stay near 1, so that what units cut off stays small."""
    return _Kernel(random.Random(seed)).text()


class _Kernel:
    def __init__(self, choices: random.Random) -> None:
        self.choices, self.lines = choices, []

    def text(self) -> str:
        kinds = {
            "a": "32, 64",
            "b": "32, 64",
            "v": "32,",
            **dict.fromkeys(TILES, "32, 64"),
            **dict.fromkeys(VECTORS, "32,"),
        }
        allocations = [
            f'            {x} = T.sblock_alloc_buffer(({e}), scope="local.fragment")' for x, e in kinds.items()
        ]
        for name in (*TILES, *VECTORS):
            place = f"{name}[0, 0], 2, 32, 64" if name in TILES else f"{name}[0], 2, 32"
            self.line(12, f"T.fill(T.region({place}), T.float32({self.choices.choice([0.0, 0.5, -0.25])}))")
        for _ in range(self.choices.randint(3, 8)):
            self.statement(12, loops=1)
        return TEXT.format(allocations="\n".join(allocations), body="\n".join(self.lines))

    def line(self, indent: int, text: str) -> None:
        self.lines.append(" " * indent + text)

    def statement(self, indent: int, loops: int) -> None:
        one = self.choices.choice
        match self.choices.choices(("tile", "vector", "fold", "loop", "copy"), (10, 4, 2, 3, 2))[0]:
            case "tile":
                self.line(indent, "for i in T.parallel(32):")
                self.line(indent + 4, "for j in T.parallel(64):")
                self.line(indent + 8, f"{one(TILES)}[i, j] = T.tanh({self.value(self.choices.randint(1, 3), True)})")
            case "vector":
                self.line(indent, "for i in T.parallel(32):")
                self.line(indent + 4, f"{one(VECTORS)}[i] = T.tanh({self.value(self.choices.randint(1, 2), False)})")
            case "fold":
                places = f"T.region({one(TILES)}[0, 0], 1, 32, 64), T.region({one(VECTORS)}[0], 3, 32)"
                kind = one(("sum", "max"))
                self.line(indent, f'T.reduce({places}, "{kind}", 1, T.bool({one(("True", "False"))}))')
            case "loop" if loops:
                self.line(indent, f"for n{len(self.lines)} in T.serial({self.choices.randint(1, 3)}):")
                self.line(indent + 4, "T.copy(T.region(B[0, 0], 1, 32, 64), T.region(b[0, 0], 2, 32, 64))")
                for _ in range(self.choices.randint(1, 3)):
                    self.statement(indent + 4, loops - 1)
            case _:
                x, y = self.choices.sample(TILES, 2)
                self.line(indent, f"T.copy(T.region({x}[0, 0], 1, 32, 64), T.region({y}[0, 0], 2, 32, 64))")

    def value(self, depth: int, wide: bool) -> str:
        """An expression of elements: of tiles, of vectors along rows, and of numbers."""
        one = self.choices.choice
        if depth == 0:
            if self.choices.random() < 0.2:
                return f"T.float32({one([0.5, -1.0, 2.0, 0.0, 1.0, 0.25])})"
            vector = not wide or self.choices.random() < 0.25
            return f"{one((*VECTORS, 'v'))}[i]" if vector else f"{one((*TILES, 'a', 'b'))}[i, j]"
        a, b = self.value(depth - 1, wide), self.value(self.choices.randint(0, depth - 1), wide)
        forms = (
            "({a} + {b})", "({a} - {b})", "({a} * {b})", "({a} / (T.abs({b}) + T.float32(1.5)))", "T.max({a}, {b})",
            "T.min({a}, {b})", "T.tanh({a})", "T.abs({a})", "(T.float32(0.0) - {a})",
            "T.exp(T.min({a}, T.float32(1.0)))", "T.max({a}, T.float32(0.0))",
            # choices between values that are next to each other where the condition changes
            "T.if_then_else({a} < {b}, {a}, {b})", "T.if_then_else(not ({a} <= T.float32(0.0)), {a}, -{a})",
        )  # fmt: skip
        return one(forms).format(a=a, b=b)
