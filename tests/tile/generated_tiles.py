"""Generated kernels on integers: views, pointers, masks, folds, loops, branches, atomics, early exits.

They are text of Tile IR for arrays A (24 elements), B (4 by 16), O (24) and P (16), all of int32, on a grid of up to 6
blocks. Blocks may race: run in their order, each has one meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

SHAPES = ((4,), (2, 4), (4, 4), (8,))
OPS = ("addi", "subi", "muli", "xori", "maxi", "mini", "andi")
PREDICATES = ("less_than", "equal", "greater_than_or_equal", "not_equal")
A_VIEW, O_VIEW = (f"tensor_view<{n}xi32, strides=[1]>" for n in (24, 24))
B_VIEW = "tensor_view<4x16xi32, strides=[16,1]>"
HEADER = f"""entry @generated(%A: tile<ptr<i32>>, %B: tile<ptr<i32>>, %O: tile<ptr<i32>>, %P: tile<ptr<i32>>) {{
%va = make_tensor_view %A, shape = [24], strides = [1] : {A_VIEW}
%vo = make_tensor_view %O, shape = [24], strides = [1] : {O_VIEW}
%vb = make_tensor_view %B, shape = [4, 16], strides = [16, 1] : {B_VIEW}
%bx, %by, %bz = get_tile_block_id : tile<i32>
"""


def tile(shape: tuple[int, ...], element: str = "i32") -> str:
    return f"tile<{''.join(f'{n}x' for n in shape)}{element}>"


@dataclass
class Scope:
    """The names that are known, by shape, and where statements stand."""

    values: dict[tuple[int, ...], list[str]]
    inside: str = ""
    """"for", "loop" or nothing: what continue and break leave."""
    carried: tuple[tuple[int, ...], ...] = ()
    depth: int = 0
    round: str = ""
    """What counts the rounds of the loop."""

    def inner(self, inside: str | None = None, carried: tuple[tuple[int, ...], ...] | None = None) -> Scope:
        return Scope(
            {k: list(v) for k, v in self.values.items()}, self.inside if inside is None else inside,
            self.carried if carried is None else carried, self.depth + 1, self.round,
        )  # fmt: skip

    def add(self, shape: tuple[int, ...], name: str) -> str:
        self.values.setdefault(shape, []).append(name)
        return name


@dataclass
class Writer:
    lines: list[str] = field(default_factory=list[str])
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return f"%n{self.count}"

    def say(self, line: str) -> None:
        self.lines.append(line)


@st.composite
def kernels(draw) -> tuple[str, tuple[int, int]]:
    """The text of a kernel, and the grid that it runs on."""
    w, scope = Writer(), Scope({(): ["%bx", "%by"]})
    for n in (0, 1, 2, 3):
        w.say(f"%c{n} = constant <i32: {n}> : tile<i32>")
        scope.add((), f"%c{n}")
    _statements(draw, w, scope, 8)
    _store(draw, w, scope)
    w.say("return")
    return HEADER + "\n".join(w.lines) + "\n}", draw(
        st.sampled_from(((1, 1), (2, 1), (3, 1), (6, 1), (2, 2), (3, 2), (1, 3)))
    )


def _statements(draw, w: Writer, scope: Scope, most: int) -> bool:
    """Statements; whether the last one ended the region."""
    kinds = ["load", "pointer", "binary", "binary", "compare", "fold", "reshape", "store", "atomic"]
    if scope.depth < 3:
        kinds += ["for", "if", "loop"]
    if scope.depth == 0:
        kinds += ["return"]
    if scope.inside and scope.depth < 4:
        kinds += ["leave"]
    for _ in range(draw(st.integers(1, most))):
        _STATEMENTS[draw(st.sampled_from(kinds))](draw, w, scope)
    return False


def _value(draw, w: Writer, scope: Scope, shape: tuple[int, ...]) -> str:
    """A value of a shape: one that is known, a number, or a broadcast."""
    known = scope.values.get(shape, [])
    kind = draw(st.sampled_from(("known", "known", "number", "spread") if known else ("number", "spread")))
    if kind == "known":
        return draw(st.sampled_from(known))
    name = w.name()
    if kind == "number" or not shape:
        w.say(f"{name} = constant <i32: {draw(st.integers(-3, 7))}> : {tile(shape)}")
        return scope.add(shape, name)
    one = draw(st.sampled_from(scope.values[()]))
    thin = (1,) * len(shape)
    inner = w.name()
    if draw(st.booleans()):
        w.say(f"{inner} = reshape {one} : tile<i32> -> {tile(thin)}")
        w.say(f"{name} = broadcast {inner} : {tile(thin)} -> {tile(shape)}")
        return scope.add(shape, name)
    thin = (*(1,) * (len(shape) - 1), shape[-1])
    row = w.name()
    w.say(f"{row} = iota : {tile(shape[-1:])}")
    w.say(f"{inner} = reshape {row} : {tile(shape[-1:])} -> {tile(thin)}")
    w.say(f"{name} = broadcast {inner} : {tile(thin)} -> {tile(shape)}")
    return scope.add(shape, name)


def _index(draw, w: Writer, scope: Scope) -> str:
    """A scalar that is mostly small."""
    kind = draw(st.sampled_from(("block", "block", "known", "moved", "scaled")))
    if kind == "block":
        return draw(st.sampled_from(("%bx", "%bx", "%by")))
    base = draw(st.sampled_from(scope.values[()]))
    if kind == "known":
        return base
    name = w.name()
    op, c = ("addi", "%c1") if kind == "moved" else ("muli", "%c2")
    w.say(f"{name} = {op} {base}, {c} : tile<i32>")
    return scope.add((), name)


def _load(draw, w: Writer, scope: Scope) -> None:
    shape = draw(st.sampled_from(SHAPES))
    view, name, token = w.name(), w.name(), w.name()
    indices = [_index(draw, w, scope) for _ in shape]
    source = ("%vb", B_VIEW) if len(shape) == 2 else draw(st.sampled_from((("%va", A_VIEW), ("%vo", O_VIEW))))
    extents = "x".join(map(str, shape))
    if draw(st.booleans()):
        kind = f"partition_view<tile=({extents}), padding_value = zero, {source[1]}>"
        w.say(f"{view} = make_partition_view {source[0]} : {kind}")
    else:
        steps = ",".join(str(draw(st.integers(1, n + 1))) for n in shape)
        kind = f"strided_view<tile=({extents}), traversal_strides=[{steps}], padding_value = zero, {source[1]}>"
        w.say(f"{view} = make_strided_view {source[0]} : {kind}")
    w.say(
        f"{name}, {token} = load_view_tko weak {view}[{', '.join(indices)}] : {kind}, tile<i32> -> {tile(shape)}, token"
    )
    scope.add(shape, name)


def _pointers(draw, w: Writer, scope: Scope, array: str, extent: int, shape: tuple[int, ...]) -> tuple[str, str]:
    """Pointers of a shape into an array, and a mask that keeps them inside."""
    at = _value(draw, w, scope, shape)
    thin, wide, spread, moved, limit, mask = (w.name() for _ in range(6))
    ones = (1,) * len(shape)
    w.say(f"{thin} = reshape {array} : tile<ptr<i32>> -> {tile(ones, 'ptr<i32>')}")
    w.say(f"{spread} = broadcast {thin} : {tile(ones, 'ptr<i32>')} -> {tile(shape, 'ptr<i32>')}")
    if draw(st.booleans()):
        scale, blocks, row = w.name(), w.name(), w.name()
        w.say(f"{scale} = muli %bx, %c2 : tile<i32>")
        w.say(f"{row} = reshape {scale} : tile<i32> -> {tile(ones)}")
        w.say(f"{blocks} = broadcast {row} : {tile(ones)} -> {tile(shape)}")
        w.say(f"{wide} = addi {at}, {blocks} : {tile(shape)}")
    else:
        wide = at
    w.say(f"{moved} = offset {spread}, {wide} : {tile(shape, 'ptr<i32>')}, {tile(shape)} -> {tile(shape, 'ptr<i32>')}")
    w.say(f"{limit} = constant <i32: {extent}> : {tile(shape)}")
    w.say(f"{mask} = cmpi less_than {wide}, {limit}, unsigned : {tile(shape)} -> {tile(shape, 'i1')}")
    return moved, mask


def _pointer(draw, w: Writer, scope: Scope) -> None:
    shape = draw(st.sampled_from((*SHAPES, ())))
    array, extent = draw(st.sampled_from((("%A", 24), ("%B", 64), ("%P", 16))))
    moved, mask = _pointers(draw, w, scope, array, extent, shape)
    padding = _value(draw, w, scope, shape)
    name, token = w.name(), w.name()
    kinds = f"{tile(shape, 'ptr<i32>')}, {tile(shape, 'i1')}, {tile(shape)} -> {tile(shape)}, token"
    w.say(f"{name}, {token} = load_ptr_tko weak {moved}, {mask}, {padding} : {kinds}")
    scope.add(shape, name)


def _binary(draw, w: Writer, scope: Scope) -> None:
    shape = draw(st.sampled_from((*SHAPES, (), ())))
    a, b, name = _value(draw, w, scope, shape), _value(draw, w, scope, shape), w.name()
    op = draw(st.sampled_from(OPS))
    sign = draw(st.sampled_from((" signed", " unsigned"))) if op in ("maxi", "mini") else ""
    if draw(st.integers(0, 4)) == 0:
        rest, by = w.name(), draw(st.integers(1, 5))
        w.say(f"{rest} = constant <i32: {by}> : {tile(shape)}")
        op, b = draw(st.sampled_from(("divi", "remi", "shri"))), rest
        sign = draw(st.sampled_from((" signed", " unsigned")))
        modes = ("", " rounding<positive_inf>", *((" rounding<negative_inf>",) if sign == " signed" else ()))
        sign += draw(st.sampled_from(modes)) if op == "divi" else ""
    w.say(f"{name} = {op} {a}, {b}{sign} : {tile(shape)}")
    scope.add(shape, name)


def _condition(draw, w: Writer, scope: Scope, shape: tuple[int, ...]) -> str:
    a, b, name = _value(draw, w, scope, shape), _value(draw, w, scope, shape), w.name()
    kind = f"{draw(st.sampled_from(PREDICATES))} {a}, {b}, {draw(st.sampled_from(('signed', 'unsigned')))}"
    w.say(f"{name} = cmpi {kind} : {tile(shape)} -> {tile(shape, 'i1')}")
    return name


def _compare(draw, w: Writer, scope: Scope) -> None:
    shape = draw(st.sampled_from((*SHAPES, ())))
    c = _condition(draw, w, scope, shape)
    a, b, name = _value(draw, w, scope, shape), _value(draw, w, scope, shape), w.name()
    w.say(f"{name} = select {c}, {a}, {b} : {tile(shape, 'i1')}, {tile(shape)}")
    scope.add(shape, name)


def _fold(draw, w: Writer, scope: Scope) -> None:
    shape = draw(st.sampled_from(SHAPES))
    x, name, dim = _value(draw, w, scope, shape), w.name(), draw(st.integers(0, len(shape) - 1))
    op, identity = draw(st.sampled_from((("addi", 0), ("maxi", -(1 << 31)), ("muli", 1), ("both", 0))))
    a, b, inner = w.name(), w.name(), w.name()
    sign = " signed" if op == "maxi" else ""
    body = f"{inner} = {op} {a}, {b}{sign} : tile<i32>"
    if op == "both":
        more = w.name()
        body = f"{more} = addi {a}, {b} : tile<i32>\n{inner} = xori {more}, %c0 : tile<i32>"
    left = (*shape[:dim], *shape[dim + 1 :])
    head = f"identities=[{identity} : i32] : {tile(shape)}"
    end = f"({a}: tile<i32>, {b}: tile<i32>) {{\n{body}\nyield {inner} : tile<i32>\n}}"
    if draw(st.booleans()):
        w.say(f"{name} = reduce {x} dim={dim} {head} -> {tile(left)} {end}")
        scope.add(left, name)
    else:
        reverse = draw(st.sampled_from(("true", "false")))
        w.say(f"{name} = scan {x} dim={dim} reverse={reverse} {head} -> {tile(shape)} {end}")
        scope.add(shape, name)


def _reshape(draw, w: Writer, scope: Scope) -> None:
    kind = draw(st.sampled_from(("rows", "row", "permute", "product", "cat", "extract")))
    name = w.name()
    if kind == "rows":
        x = _value(draw, w, scope, (8,))
        w.say(f"{name} = reshape {x} : {tile((8,))} -> {tile((2, 4))}")
        scope.add((2, 4), name)
    elif kind == "row":
        x = _value(draw, w, scope, (2, 4))
        w.say(f"{name} = reshape {x} : {tile((2, 4))} -> {tile((8,))}")
        scope.add((8,), name)
    elif kind == "permute":
        x = _value(draw, w, scope, (4, 4))
        w.say(f"{name} = permute {x} [1, 0] : {tile((4, 4))} -> {tile((4, 4))}")
        scope.add((4, 4), name)
    elif kind == "cat":
        a, b = _value(draw, w, scope, (4,)), _value(draw, w, scope, (4,))
        w.say(f"{name} = cat {a}, {b} dim = 0 : {tile((4,))}, {tile((4,))} -> {tile((8,))}")
        scope.add((8,), name)
    elif kind == "extract":
        x, k = _value(draw, w, scope, (8,)), draw(st.sampled_from(("%c0", "%c1", "%bx")))
        w.say(f"{name} = extract {x}[{k}] : {tile((8,))} -> {tile((4,))}")
        scope.add((4,), name)
    else:
        a, b, acc = (_value(draw, w, scope, (4, 4)) for _ in range(3))
        narrow = [w.name(), w.name()]
        for small, x in zip(narrow, (a, b), strict=True):
            w.say(f"{small} = trunci {x} : {tile((4, 4))} -> {tile((4, 4), 'i8')}")
        signs = f"{draw(st.sampled_from(('signed', 'unsigned')))} signed"
        kinds = f"{tile((4, 4), 'i8')}, {tile((4, 4), 'i8')}, {tile((4, 4))}"
        w.say(f"{name} = mmai {narrow[0]}, {narrow[1]}, {acc} {signs} : {kinds}")
        scope.add((4, 4), name)


def _store(draw, w: Writer, scope: Scope) -> None:
    token = w.name()
    if draw(st.booleans()):
        shape = draw(st.sampled_from(((4,), (8,))))
        view, x, index = w.name(), _value(draw, w, scope, shape), _index(draw, w, scope)
        kind = f"partition_view<tile=({shape[0]}), {O_VIEW}>"
        w.say(f"{view} = make_partition_view %vo : {kind}")
        w.say(f"{token} = store_view_tko weak {x}, {view}[{index}] : {tile(shape)}, {kind}, tile<i32> -> token")
        return
    shape = draw(st.sampled_from(((4,), (2, 4), ())))
    array, extent = draw(st.sampled_from((("%O", 24), ("%P", 16))))
    moved, mask = _pointers(draw, w, scope, array, extent, shape)
    x = _value(draw, w, scope, shape)
    kinds = f"{tile(shape, 'ptr<i32>')}, {tile(shape)}, {tile(shape, 'i1')} -> token"
    w.say(f"{token} = store_ptr_tko weak {moved}, {x}, {mask} : {kinds}")


def _atomic(draw, w: Writer, scope: Scope) -> None:
    shape = draw(st.sampled_from(((4,), (8,), ())))
    moved, mask = _pointers(draw, w, scope, "%P", 16, shape)
    x, old, token = _value(draw, w, scope, shape), w.name(), w.name()
    mode = draw(st.sampled_from(("add", "max", "xor")))
    kinds = f"{tile(shape, 'ptr<i32>')}, {tile(shape)}, {tile(shape, 'i1')} -> {tile(shape)}, token"
    w.say(f"{old}, {token} = atomic_rmw_tko relaxed device {moved}, {mode}, {x}, {mask} : {kinds}")
    if not shape and draw(st.booleans()):
        scope.add((), old)


def _for(draw, w: Writer, scope: Scope) -> None:
    shapes = tuple(draw(st.lists(st.sampled_from((*SHAPES, ())), max_size=2)))
    firsts = [_value(draw, w, scope, s) for s in shapes]
    upper = draw(st.sampled_from(("%c2", "%c3", "%bx", "small")))
    if upper == "small":
        # as many rounds as data say, at most 3
        x, upper = draw(st.sampled_from(scope.values[()])), w.name()
        w.say(f"{upper} = andi {x}, %c3 : tile<i32>")
    step, i, result = draw(st.sampled_from(("%c1", "%c2"))), w.name(), w.name()
    inner = scope.inner("for", shapes)
    names = [w.name() for _ in shapes]
    inner.add((), i)
    for s, n in zip(shapes, names, strict=True):
        inner.add(s, n)
    pairs = ", ".join(f"{n} = {f}" for n, f in zip(names, firsts, strict=True))
    carried = f" iter_values({pairs}) -> ({', '.join(map(tile, shapes))})" if shapes else ""
    head = "" if not shapes else f"{result}{f':{len(shapes)}' if len(shapes) > 1 else ''} = "
    w.say(f"{head}for {i} in (%c0 to {upper}, step {step}) : tile<i32>{carried} {{")
    _statements(draw, w, inner, 3)
    _end(draw, w, inner, "continue", shapes, names)
    w.say("}")
    for k, s in enumerate(shapes):
        scope.add(s, f"{result}#{k}" if len(shapes) > 1 else result)


def _end(draw, w: Writer, scope: Scope, word: str, shapes: tuple[tuple[int, ...], ...], names: list[str]) -> None:
    """The end of a region; mostly what is carried is added to."""
    values: list[str] = []
    for s, n in zip(shapes, names, strict=True):
        x = _value(draw, w, scope, s)
        if draw(st.booleans()):
            total = w.name()
            w.say(f"{total} = {draw(st.sampled_from(('addi', 'xori')))} {n}, {x} : {tile(s)}")
            x = total
        values.append(x)
    kinds = f" {', '.join(values)} : {', '.join(map(tile, shapes))}" if shapes else ""
    w.say(f"{word}{kinds}")


def _if(draw, w: Writer, scope: Scope) -> None:
    c = _condition(draw, w, scope, ())
    shapes = tuple(draw(st.lists(st.sampled_from((*SHAPES, ())), max_size=2)))
    result = w.name()
    head = "" if not shapes else f"{result}{f':{len(shapes)}' if len(shapes) > 1 else ''} = "
    kinds = "" if not shapes else f" -> ({', '.join(map(tile, shapes))})"
    w.say(f"{head}if {c}{kinds} {{")
    for k in range(2):
        inner = scope.inner()
        _statements(draw, w, inner, 2)
        values = [_value(draw, w, inner, s) for s in shapes]
        w.say(f"yield {', '.join(values)} : {', '.join(map(tile, shapes))}" if shapes else "yield")
        w.say("} else {" if k == 0 else "}")
    for k, s in enumerate(shapes):
        scope.add(s, f"{result}#{k}" if len(shapes) > 1 else result)


def _leave(draw, w: Writer, scope: Scope) -> None:
    """The next round at once, or the end of the loop, under a condition."""
    c = _condition(draw, w, scope, ())
    w.say(f"if {c} {{")
    inner = scope.inner()
    if draw(st.booleans()):
        _statements(draw, w, inner, 1)
    word = draw(st.sampled_from(("break", "continue"))) if scope.inside == "loop" else "continue"
    values = [_value(draw, w, inner, s) for s in scope.carried]
    if word == "continue" and scope.inside == "loop":
        # the first that is carried counts rounds
        values[0] = w.name()
        w.say(f"{values[0]} = addi {scope.round}, %c1 : tile<i32>")
    kinds = f" {', '.join(values)} : {', '.join(map(tile, scope.carried))}" if scope.carried else ""
    w.say(f"{word}{kinds}")
    w.say("} else {\nyield\n}")


def _loop(draw, w: Writer, scope: Scope) -> None:
    """Rounds until a condition on data holds, three at most."""
    shapes = ((), *draw(st.lists(st.sampled_from((*SHAPES, ())), max_size=1)))
    firsts = ["%c0", *(_value(draw, w, scope, s) for s in shapes[1:])]
    names, result = [w.name() for _ in shapes], w.name()
    inner = scope.inner("loop", shapes)
    inner.round = names[0]
    for s, n in zip(shapes, names, strict=True):
        inner.add(s, n)
    pairs = ", ".join(f"{n} = {f}" for n, f in zip(names, firsts, strict=True))
    kinds = ", ".join(map(tile, shapes))
    head = f"{result}{f':{len(shapes)}' if len(shapes) > 1 else ''} = "
    w.say(f"{head}loop iter_values({pairs}) : {kinds} -> {kinds} {{")
    done, late, enough = _condition(draw, w, inner, ()), w.name(), w.name()
    w.say(f"{late} = cmpi greater_than_or_equal {names[0]}, %c3, signed : tile<i32> -> tile<i1>")
    w.say(f"{enough} = ori {done}, {late} : tile<i1>")
    w.say(f"if {enough} {{\nbreak {', '.join(names)} : {kinds}\n}} else {{\nyield\n}}")
    _statements(draw, w, inner, 2)
    following = w.name()
    w.say(f"{following} = addi {names[0]}, %c1 : tile<i32>")
    values = [following, *(_value(draw, w, inner, s) for s in shapes[1:])]
    w.say(f"continue {', '.join(values)} : {kinds}\n}}")
    for k, s in enumerate(shapes):
        scope.add(s, f"{result}#{k}" if len(shapes) > 1 else result)


def _return(draw, w: Writer, scope: Scope) -> None:
    c = _condition(draw, w, scope, ())
    w.say(f"if {c} {{\nreturn\n}} else {{\nyield\n}}")


_STATEMENTS = {
    "load": _load, "pointer": _pointer, "binary": _binary, "compare": _compare, "fold": _fold, "reshape": _reshape,
    "store": _store, "atomic": _atomic, "for": _for, "if": _if, "leave": _leave, "loop": _loop, "return": _return,
}  # fmt: skip


def arrays(seed: int) -> list[np.ndarray]:
    """What A, B, O and P hold: small numbers."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-4, 9, shape).astype(np.int32) for shape in ((24,), (4, 16), (24,), (16,))]
