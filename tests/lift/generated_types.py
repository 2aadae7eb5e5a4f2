"""Functions of TIR made at random: buffers of several types and ranks, casts, views, vectors, blocks with predicates.

Loops may start below 0, have steps or no rounds; values have names; each element is inside of its buffer.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["typed_arrays", "typed_program"]

TYPES = ("int8", "uint8", "int16", "int32", "int32", "int64", "uint32")
Reach = dict[str, tuple[int, int]]
"""The least and the greatest value of each loop's variable."""


def typed_program(seed: int) -> str:
    """The text of a function of A to D, of the types and shapes that the seed tells, and I (places)."""
    maker = _Maker(random.Random(seed), _declared(seed))
    head = ", ".join(f'{name}: T.Buffer({shape}, "{dtype}")' for name, (shape, dtype) in maker.buffers.items())
    maker.block({}, 0, "    ")
    return f"@T.prim_func\ndef main({head}):\n" + "\n".join(maker.lines) + "\n"


def typed_arrays(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    given: list[Any] = []
    for shape, dtype in _declared(seed).values():
        given.append(np.asarray(rng.integers(0 if dtype[0] == "u" else -6, 9, shape), dtype))
    return given


def _declared(seed: int) -> dict[str, tuple[tuple[int, ...], str]]:
    r = random.Random(seed)
    types = [r.choice(TYPES) for _ in range(r.choice([1, 2, 3]))]
    shapes = [tuple(r.choice([1, 2, 3, 3, 4, 5]) for _ in range(r.choice([0, 1, 1, 2, 2, 3]))) for _ in "ABCD"]
    found = {name: (shape, r.choice(types)) for name, shape in zip("ABCD", shapes, strict=True)}
    return {**found, "I": ((r.randint(2, 5),), "int32")}


@dataclass
class _Maker:
    r: random.Random
    buffers: dict[str, tuple[tuple[int, ...], str]]
    values: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    lines: list[str] = field(default_factory=list[str])
    names: int = 0

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def block(self, loops: Reach, depth: int, indent: str) -> None:
        """A few statements, whose names end with them."""
        values, buffers = list(self.values), dict(self.buffers)
        for _ in range(self.r.choice([1, 2, 2])):
            self.statement(loops, depth, indent)
        self.values, self.buffers = values, buffers

    def statement(self, loops: Reach, depth: int, indent: str) -> None:
        chance = self.r.random()
        if depth < 3 and chance < (0.7 if not depth else 0.3):
            self.loop(loops, depth, indent)
        elif depth < 4 and chance < 0.4:
            self.lines.append(f"{indent}if {self.condition(loops)}:")
            self.block(loops, depth + 1, indent + "    ")
        elif depth < 3 and chance < 0.47:
            self.tiles(loops, depth, indent)
        elif depth < 3 and chance < 0.56:
            self.view(loops, depth, indent)
        elif chance < 0.64:
            self.vector(loops, indent)
        elif chance < 0.72:
            name, (_, dtype) = self.name("v"), self.r.choice(list(self.buffers.values()))
            self.lines.append(f"{indent}{name}: T.{dtype} = {self.value(dtype, loops, 1)}")
            self.values.append((name, dtype))
            self.store(loops, indent)
        else:
            self.store(loops, indent)

    def loop(self, loops: Reach, depth: int, indent: str) -> None:
        r, name, count = self.r, self.name("i"), self.r.choice([1, 2, 3, 4, 5])
        low, step = r.choice([0, 0, 0, -2, 1]), r.choice([1, 1, 1, 2, 3])
        last = low + (count - 1) // step * step
        ranges = [(f"{low}, {low + count}, {step}" if step != 1 else f"{low}, {low + count}", (low, last))] * 4
        ranges += [("0", (0, 0)), (f"I[{r.randint(0, 1)}] % 4", (0, 2))]
        for outer, (first, end) in loops.items():
            ranges += [(f"{outer}, {end + 1}", (first, end)), (f"{outer} - 1, {outer} + 2", (first - 1, end + 1))]
        bounds, reach = r.choice(ranges)
        self.lines.append(f"{indent}for {name} in range({bounds}):")
        self.block({**loops, name: reach}, depth + 1, indent + "    ")

    def tiles(self, loops: Reach, depth: int, indent: str) -> None:
        """A block in tiles, the last of which a predicate cuts short."""
        outer, inner, place = self.name("o"), self.name("t"), self.name("p")
        extent, size = self.r.choice([1, 3, 4, 5]), self.r.choice([2, 3])
        self.lines += [
            f"{indent}for {outer}, {inner} in T.grid({-(-extent // size)}, {size}):",
            f'{indent}    with T.sblock("{self.name("b")}"):',
            f"{indent}        {place} = T.axis.spatial({extent}, {outer} * {size} + {inner})",
            f"{indent}        T.where({outer} * {size} + {inner} < {extent})",
            f"{indent}        T.reads()",
            f"{indent}        T.writes()",
        ]
        values, self.values = self.values, []
        self.block({place: (0, extent - 1)}, depth + 2, indent + "        ")
        self.values = values

    def view(self, loops: Reach, depth: int, indent: str) -> None:
        """Another name for a buffer, of another shape, or for a part of it."""
        r, name = self.r, self.name("V")
        sources = [b for b in self.buffers.items() if b[0][0] in "ABCD" and b[1][0]]
        if not sources:
            return self.store(loops, indent)
        source, (shape, dtype) = r.choice(sources)
        total = int(np.prod(shape))
        if r.random() < 0.5:
            new = r.choice([(total,), (1, total), (total, 1), shape[::-1]])
            self.lines.append(f'{indent}{name} = T.decl_buffer({new}, "{dtype}", data={source}.data)')
        else:
            new = tuple(r.randint(1, n) for n in shape)
            strides = tuple(int(np.prod(shape[k + 1 :])) for k in range(len(shape)))
            parts = [self.part(extent, n, loops) for extent, n in zip(new, shape, strict=True)]
            self.lines += [
                f'{indent}with T.sblock("{self.name("b")}"):',
                f"{indent}    T.reads()",
                f"{indent}    T.writes()",
                f'{indent}    {name} = T.match_buffer({source}[{", ".join(parts)}], {new}, "{dtype}", '
                f"strides={strides}, offset_factor=1)",
            ]
            indent += "    "
        before, self.buffers = self.buffers, {**self.buffers, name: (new, dtype)}
        self.block(loops, depth + 1, indent)
        self.buffers = before

    def part(self, extent: int, size: int, loops: Reach) -> str:
        starts = [v for v, (low, high) in loops.items() if low >= 0 and high + extent <= size]
        start = self.r.choice([*starts, str(self.r.randint(0, size - extent))])
        return f"{start}:{start} + {extent}"

    def vector(self, loops: Reach, indent: str) -> None:
        """Lanes along the last axis, forwards, backwards or apart."""
        r = self.r
        wide = {b: (s, t) for b, (s, t) in self.buffers.items() if s and s[-1] >= 2 and b != "I"}
        if not wide:
            return self.store(loops, indent)
        target = r.choice(list(wide))
        dtype = wide[target][1]
        lanes = r.choice([2, 4]) if wide[target][0][-1] >= 4 else 2
        sources = [b for b, (s, t) in wide.items() if t == dtype and s[-1] >= lanes]

        def ramp(name: str) -> str:
            *outer, size = wide[name][0]
            step = r.choice([s for s in (1, 1, -1, 2) if (lanes - 1) * abs(s) < size])
            span = (lanes - 1) * step
            base = r.randint(max(0, -span), size - 1 - max(0, span))
            return f"{name}[{', '.join([*(self.place(n, loops) for n in outer), f'T.Ramp({base}, {step}, {lanes})'])}]"

        value = ramp(r.choice(sources))
        value = r.choice([value, f"{value} + {ramp(r.choice(sources))}"])
        self.lines.append(f"{indent}{ramp(target)} = {value}")

    def store(self, loops: Reach, indent: str) -> None:
        r = self.r
        name = r.choice([b for b in self.buffers if b != "I"])
        dtype, target = self.buffers[name][1], self.element(name, loops)
        value = self.value(dtype, loops, r.choice([0, 1, 2]))
        value = r.choice([value, value, f"{target} {r.choice('+-*')} {value}", f"T.max({target}, {value})"])
        self.lines.append(f"{indent}{target} = {value}")

    def element(self, name: str, loops: Reach) -> str:
        return f"{name}[{', '.join(self.place(n, loops) for n in self.buffers[name][0]) or '()'}]"

    def place(self, size: int, loops: Reach) -> str:
        """An index inside of an axis."""
        r = self.r
        found = [(str(r.randint(0, size - 1)), 0, 0)]
        for name, (low, high) in loops.items():
            more = r.randint(0, 3)
            found += [(name, low, high)] * 3
            found += [
                (f"{name} + {more}", low + more, high + more), (f"{name} // 2", low // 2, high // 2),
                (f"{name} * 2 + {more}", low * 2 + more, high * 2 + more),
                (f"{size - 1} - {name}", size - 1 - high, size - 1 - low),
                (f"({name} + 1) % {size}", 0, 0), (f"T.max(T.min({name}, {size - 1}), 0)", 0, 0),
                (f"I[{name} % {self.buffers['I'][0][0]}] % {size}", 0, 0),
            ]  # fmt: skip
        return r.choice([text for text, low, high in found if low >= 0 and high < size])

    def value(self, dtype: str, loops: Reach, depth: int) -> str:
        r = self.r
        if not depth:
            named = [v for v, t in self.values if t == dtype]
            own = [b for b, (_, t) in self.buffers.items() if t == dtype]
            other = r.choice([*self.buffers])
            found = [self.number(dtype, r.randint(0, 5)), f'T.Cast("{dtype}", {self.element(other, loops)})']
            found += [self.element(r.choice(own), loops)] * 4 if own else []
            found += [r.choice(named)] * 3 if named else []
            return r.choice(found)
        a, b = (self.value(dtype, loops, depth - 1) for _ in range(2))
        by = self.number(dtype, r.choice([2, 3, 5]))
        return r.choice(
            [
                f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"T.max({a}, {b})", f"T.min({a}, {b})",
                f"T.floordiv({a}, {by})", f"T.floormod({a}, {by})", f"T.truncdiv({a}, {by})", f"T.truncmod({a}, {by})",
                f"T.bitwise_and({a}, {b})", f"T.bitwise_xor({a}, {b})", f"T.shift_right({a}, {self.number(dtype, 1)})",
                f"T.Select({self.condition(loops)}, {a}, {b})", f"T.if_then_else({self.condition(loops)}, {a}, {b})",
            ]
        )  # fmt: skip

    def number(self, dtype: str, value: int) -> str:
        return str(value) if dtype == "int32" else f"T.{dtype}({value})"

    def condition(self, loops: Reach) -> str:
        r = self.r
        _, dtype = r.choice(list(self.buffers.values()))
        data = f"{self.value(dtype, loops, 0)} {r.choice(['<', '<=', '==', '!='])} {self.value(dtype, loops, 0)}"
        if not loops:
            return data
        name, other = r.choice(list(loops)), r.choice(list(loops))
        return r.choice([data, f"{name} < {r.randint(0, 3)}", f"{name} != {other}", f"{name} % 2 == 0 and {data}"])
