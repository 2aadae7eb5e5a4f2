"""Kernels made at random: threads with memory of their own and memory that they share, barriers, shuffles, loops.

Where that is asked for, threads leave loops, and the kernel, and go round by round as long as their own data say.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

__all__ = ["kernel"]

HEAD = """@T.prim_func
def main(A: T.Buffer(({0},), "int32"), B: T.Buffer(({0},), "int32")):
    for b in T.thread_binding({1}, thread="blockIdx.x"):
        for t in T.thread_binding({2}, thread="threadIdx.x"):
            L = T.alloc_buffer((1,), "int32", scope="local")
            M = T.alloc_buffer((1,), "int32", scope="local")
            S = T.alloc_buffer(({2},), "int32", scope="shared")
            L[0] = 0
            M[0] = t
            S[t] = A[b * {2} + t]
"""
INSIDE = " " * 12


@dataclass
class _Maker:
    r: random.Random
    threads: int
    leaving: bool = False
    left: bool = False
    """Whether some threads may have left the kernel: there is no barrier and no shuffle from here on."""
    loops: int = 0
    """In how many loops the text is."""
    lines: list[str] = field(default_factory=list[str])

    def value(self, depth: int = 0) -> str:
        match self.r.randint(0, 6 if depth < 2 else 2):
            case 0:
                return f"A[b * {self.threads} + t]"
            case 1:
                return "L[0]"
            case 2:
                return "M[0]"
            case 3:
                return f"({self.value(depth + 1)} + {self.value(depth + 1)})"
            case 4:
                return f"({self.value(depth + 1)} * {self.r.randint(-2, 3)})"
            case 5:
                return f"S[{self.place()}]"
            case _:
                return f"T.max({self.value(depth + 1)}, {self.value(depth + 1)})"

    def place(self) -> str:
        moved = f"(t + {self.r.randint(1, 3)}) % {self.threads}"
        return self.r.choice(["t", moved, f"{self.threads - 1} - t", "0", "t // 2"])

    def own(self) -> str:
        return self.r.choice("LM")

    def statements(self, indent: str, depth: int, count: int) -> None:
        for _ in range(count):
            self.statement(indent, depth)

    def statement(self, indent: str, depth: int) -> None:
        r = self.r
        match r.randint(0, 9):
            case 0 | 1 | 2:
                self.lines.append(f"{indent}{self.own()}[0] = {self.value()}")
            case 3 | 4:
                self.lines.append(f"{indent}S[t] = {self.value()}")
            case 5 if not self.left:
                way, by, width = r.choice(["down", "up", "xor"]), r.choice([1, 2, 3, 4]), r.choice([4, 8, 32])
                shuffle = f"T.tvm_warp_shuffle_{way}(-1, {self.own()}[0], {by}, {width}, 32)"
                self.lines.append(f"{indent}{self.own()}[0] = {shuffle}")
            case 6 if self.leaving and depth < 3 and r.random() < 0.7:
                self.leave(indent, depth)
            case 6 if depth < 2:
                self.lines.append(f"{indent}for k{depth} in range({r.randint(1, 3)}):")
                self.inside(indent, depth, r.randint(1, 3))
            case 7 if depth < 2:
                self.lines.append(f"{indent}if {self.condition()}:")
                self.statements(indent + "    ", depth + 1, r.randint(1, 2))
            case 8 if depth == 0 and not self.left:
                self.lines.append(f'{indent}T.tvm_storage_sync("shared")')
            case _:
                self.lines.append(f"{indent}B[b * {self.threads} + t] = {self.value()}")

    def inside(self, indent: str, depth: int, count: int) -> None:
        """The body of a loop."""
        self.loops += 1
        self.statements(f"{indent}    ", depth + 1, count)
        self.loops -= 1

    def condition(self) -> str:
        return self.r.choice(["t < 2", "t % 2 == 0", "t == 0", f"A[b * {self.threads} + t] > 0", "L[0] > 3"])

    def leave(self, indent: str, depth: int) -> None:
        """A while, or a way out of a loop or of the kernel."""
        r = self.r
        if depth < 2 and r.random() < 0.6:
            counter = f"W{len(self.lines)}"
            self.lines.append(f'{indent}{counter} = T.alloc_buffer((1,), "int32", scope="local")')
            self.lines.append(f"{indent}{counter}[0] = {r.choice(['0', 't % 3', 't'])}")
            self.lines.append(f"{indent}while {counter}[0] < {r.choice(['3', 't', 'T.min(L[0], 4)'])}:")
            self.lines.append(f"{indent}    {counter}[0] = {counter}[0] + {r.choice([1, 2])}")
            self.inside(indent, depth, r.randint(1, 2))
        else:
            self.lines.append(f"{indent}if {self.condition()}:")
            self.lines += [f"{indent}    {self.own()}[0] = {self.value()}"] * r.randint(0, 1)
            way = (
                r.choice(["break", "continue"]) if self.loops and r.random() < 0.6 else "T.evaluate(T.thread_return())"
            )
            self.left = self.left or "return" in way
            self.lines.append(f"{indent}    {way}")


def kernel(seed: int, leaving: bool = False) -> tuple[str, int]:
    """The text of a kernel, and how many elements both of its arguments have."""
    r = random.Random(seed)
    blocks, threads = r.choice([1, 2, 3]), r.choice([4, 5, 8, 32])
    maker = _Maker(r, threads, leaving)
    maker.statements(INSIDE, 0, r.randint(3, 9))
    maker.lines.append(f"{INSIDE}B[b * {threads} + t] = L[0] + M[0] * 3")
    return HEAD.format(blocks * threads, blocks, threads) + "\n".join(maker.lines) + "\n", blocks * threads
