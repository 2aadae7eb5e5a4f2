"""The program that every device runs on its block, in coordinates that count from it; several steps as one.

Several steps of a program as one: what a step gives is what the next one reads, and the types say how wide that is.

>>> import tensorir as ti
>>> f = ti.parse("f(y: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) { y ← x; y[I[1:9]] ← ⟪I, -1⟫(x); }")
>>> print(chained(f, Feedback({"x": 0}, ("y",)), 2).program)
f_2_steps(y: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) {
  y ← let t1 = update(x, subset(⟪I, -1⟫(x), I[1:9])); update(t1, subset(⟪I, -1⟫(t1), I[1:9]));
}

The program that every device runs on its block: the whole one, in coordinates that count from the block's start.

Where the whole program depends on where a point is (a boundary, a part that is written, a coordinate), the local one
asks the coordinate, `I_at`; what lies outside of the whole interval is computed too, and nobody reads it. A shift
across more than half of the interval, as of periodic boundaries, is no halo: the operand is evaluated in another
*frame*, in which point p is the whole's p + offset, and what it reads comes from the device that has it. A fold along a
distributed dim ends a stage: each device folds its block, the devices' results are combined, and the next stage has
what came of it as a parameter.

>>> import tensorir as ti
>>> from tensorir.distribution.partition import Decomposition
>>> f = ti.parse("f(y: tensor<float, I[1:7]>, x: tensor<float, I[0:8]>) { y ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x); }")
>>> print(localised(f, {"I": Decomposition("I", "px", Interval(0, 8), 2)}).stages[0])
f(y: tensor<float, I[0:4]>, x: tensor<float, I[-1:5]>) {
  y ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x);
}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from numpy.typing import NDArray

from tensorir.analysis.domains import domains
from tensorir.distribution.localising import Fold, Frame, Localiser, far, offsets, written_out
from tensorir.distribution.mesh_exchange import LocalMesh, LocalTable, local_mesh
from tensorir.distribution.partition import Decomposition, Part, blocks_of
from tensorir.distribution.refusals import refuse_undistributable, whole_results
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, closure, fencil, free_name, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Var
from tensorir.ir.rewrite import postorder, rewrite_all, substitute_all
from tensorir.ir.substitution import inlined
from tensorir.ir.types import TupleElement


@dataclass(frozen=True, slots=True)
class Feedback:
    """The arrays of a state as parameters of a program, and the result that each comes from in the next one."""

    reads: Mapping[str, int]
    """By parameter, which array of the state it is; others are the same in all steps."""
    following: tuple[str | int, ...]
    """Of each array of the next state, the result that it is, or which array of this state."""


@dataclass(frozen=True, slots=True)
class Chained:
    """Several steps: a program, and where each array of the last state comes from."""

    program: Fencil
    reads: Mapping[str, int]
    following: tuple[str | int, ...]


def chained(program: Fencil, feedback: Feedback, steps: int) -> Chained | None:
    """So many steps as one; None where what a step gives is on other intervals than what the next one reads."""
    slots = state_variables(program, feedback)
    if slots is None:
        return None
    whole = whole_results(program)
    constant = [p for p in program.inputs if p.name not in feedback.reads]
    now: list[Expr | int] = [slots.get(k, k) for k in range(len(feedback.following))]
    for _ in range(steps):
        given: dict[Var, Expr] = {}
        for name, k in feedback.reads.items():
            value = now[k]
            assert not isinstance(value, int)
            given[program[name]] = value
        results = dict(zip(whole, substitute_all(tuple(whole.values()), given), strict=True))
        now = [results[f] if isinstance(f, str) else now[f] for f in feedback.following]
    taken = {v.name for v in (*slots.values(), *constant)}
    outputs: list[tuple[Var, Expr]] = []
    following: list[str | int] = []
    given_back = {v: k for k, v in slots.items()}
    for value, f in zip(now, feedback.following, strict=True):
        if isinstance(value, int):
            following.append(value)
        elif isinstance(value, Var) and value in given_back:
            following.append(given_back[value])
        else:
            name = _last_result(f, feedback)
            target = var(free_name(name, taken), program[name].type)
            outputs.append((target, value))
            following.append(target.name)
    made = inlined([e for _, e in outputs])
    read = frozenset[Var]().union(*(e.free for e in made))
    inputs = [v for v in (*slots.values(), *constant) if v in read]
    pairs = zip([p for p, _ in outputs], made, strict=True)
    several = fencil(
        f"{program.name}_{steps}_steps", [*(p for p, _ in outputs), *inputs], [closure(p, e) for p, e in pairs],
        program.span,
    )  # fmt: skip
    return Chained(several, {v.name: k for k, v in slots.items() if v in read}, tuple(following))


def single_results(program: Fencil) -> tuple[Fencil, dict[str, tuple[str, ...]]]:
    """The program with a result for each member of a tuple, and by result the names of its members in order.

    >>> import tensorir as ti
    >>> f = ti.parse("f(y: tensor<(float, float), I[0:9]>, x: tensor<float, I[0:9]>) { y ← (x, x × x); }")
    >>> print(single_results(f)[0])
    f(y_0: tensor<float, I[0:9]>, y_1: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) {
      let t1 = (x, x × x);
      y_0 ← t1[0];
      y_1 ← t1[1];
    }
    """
    taken = {p.name for p in program.params}
    outputs: list[tuple[Var, Expr]] = []
    names: dict[str, tuple[str, ...]] = {}
    for name, value in whole_results(program).items():
        members = _members(value)
        single = [name] if len(members) == 1 else [free_name(f"{name}_{k}", taken) for k in range(len(members))]
        outputs += [(var(n, m.tensor.on(program[name].type.dims)), m) for n, m in zip(single, members, strict=True)]
        names[name] = tuple(single)
    read = frozenset[Var]().union(*(e.free for _, e in outputs))
    inputs = [p for p in program.params if p in read]
    params = [*(p for p, _ in outputs), *(p for p in inputs if p.name not in {v.name for v, _ in outputs})]
    return fencil(program.name, params, [closure(p, e) for p, e in outputs], program.span), names


def _members(value: Expr) -> list[Expr]:
    """The scalar members of a value, from the first to the last."""
    if not isinstance(value.tensor.element, TupleElement):
        return [value]
    parts = (call("tuple_get", value, static=(k,)) for k in range(len(value.tensor.element.members)))
    return [m for part in parts for m in _members(part)]


def state_variables(program: Fencil, feedback: Feedback) -> dict[int, Var] | None:
    """The parameter that each array of the state is: one that reads it, in this step or in one of those to come.

    None where what a step gives is on other intervals than what the next one reads, or of another type.
    """
    names: dict[int, str] = {}
    for name, k in feedback.reads.items():
        names.setdefault(k, name)
    kinds = {k: program[name].type for k, name in names.items()}
    for _ in feedback.following:
        for after, f in enumerate(feedback.following):
            if isinstance(f, int) and after in kinds:
                kinds.setdefault(f, kinds[after])
                names.setdefault(f, f"{names[after]}_before")
    for name, k in feedback.reads.items():
        if program[name].type.dims.items != kinds[k].dims.items:
            return None
    for after, f in enumerate(feedback.following):
        if after not in kinds:
            continue
        kind = program[f].type if isinstance(f, str) else kinds[f]
        if (kind.element, kind.dims.items) != (kinds[after].element, kinds[after].dims.items):
            return None
    taken = {p.name for p in program.inputs} - set(feedback.reads)
    return {k: var(free_name(names[k], taken), kinds[k]) for k in sorted(kinds)}


def _last_result(f: str | int, feedback: Feedback) -> str:
    """The result that an array of the state was, some steps before."""
    while isinstance(f, int):
        f = feedback.following[f]
    return f


@dataclass(frozen=True, slots=True)
class View:
    """A parameter of the local program: a field of the whole one, on a block and around it."""

    param: Var
    """On intervals that count from the block's start."""
    field: Var
    offsets: Mapping[str, tuple[int, ...]]
    """By distributed dim, the offsets of the frames in which it is read."""


@dataclass(frozen=True, slots=True)
class Combined:
    """A fold in parts: the result of each device's block, and the combination of all devices' results."""

    param: Var
    """In the stages after it."""
    op: str
    dim: str
    level: int
    """The stage that gives it."""


WHOLE = Dims()
"""The whole block: no dim is cut."""


@dataclass(frozen=True, slots=True)
class Subblock:
    """A part of every block, and the program of its results, which reads parts of the views."""

    dims: Dims
    """Along the dims that are cut."""
    program: Fencil
    positions: Mapping[str, Var]
    """As those of the block have them, on the points that are read here."""
    results: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    """By parameter, the result of an earlier part that it is; that one is on the whole block by then."""


@dataclass(frozen=True, slots=True)
class Localised:
    """The programs of a device, one after the other, each with the folds of those before it."""

    program: Fencil
    parts: Mapping[str, Part]
    stages: tuple[Fencil, ...]
    views: tuple[View, ...]
    positions: Mapping[str, Var]
    """By distributed dim, the parameter that has the coordinates in the whole."""
    combined: tuple[Combined, ...]
    whole: Mapping[str, Expr]
    """The results of the whole program."""
    mesh: LocalMesh | None = None
    """The points of an unstructured mesh, where dims of one are distributed."""
    tables: tuple[LocalTable, ...] = ()
    """The tables that lead from a distributed dim of the mesh to another."""
    subblocks: tuple[Subblock, ...] = ()
    """The last stage in parts that cover the block: an interior, which reads own points alone, and strips around it."""

    @property
    def on_every_device(self) -> dict[str, Dims]:
        """By result, the local points that are points of the whole on each device, and not padding on some."""
        return {
            p.name: Dims(tuple((d, self.parts[d].common(i) if d in self.parts else i) for d, i in p.type.dims.items))
            for p in self.program.results
        }


def localised(
    program: Fencil, parts: Mapping[str, Part], tables: Mapping[str, NDArray[Any]] | None = None
) -> Localised:
    """The program of a block, or of a part of a mesh with these tables; raises D04 for what cannot be distributed."""
    whole = whole_results(written_out(program, list(parts)))
    refuse_undistributable(whole.values(), parts)
    mesh = local_mesh(list(whole.values()), parts, tables or {})
    places = {} if mesh is None else {d: mesh.whole(d) for d in mesh.numbers}
    # first on intervals that are wide enough for anything, to see what is read, and then on that
    shifts = [(d, k) for n in postorder(*whole.values()) if isinstance(n, Call) for d, k in offsets(n) if d in parts]
    reach = 1 + sum(abs(k) for d, k in shifts if not far(d, k, parts))
    wide = {**{d: Interval(-reach, p.size + reach) for d, p in blocks_of(parts).items()}, **places}
    results = {p.name for p in program.results}
    first = Localiser(parts, lambda _, dim: wide[dim], {}, set(results), mesh)
    read = _read(_stages(program, whole, first))
    merged = _merged(first)
    boxes = _united(read, merged)

    def box(name: str, dim: str) -> Interval:
        if dim in places:
            return places[dim]
        block = Interval(0, parts[dim].size)
        return boxes[name][dim] | block if name in boxes else block

    names = {(v.name, frame): merged.get(own.name, own.name) for (v, frame), own in first.views.items()}
    second = Localiser(parts, box, names, {*results, *names.values()}, mesh, first.tables)
    stages = _stages(program, whole, second)
    inputs = {p.name for stage in stages for p in stage.inputs}
    divided: tuple[Subblock, ...] = ()
    if len(stages) == 1 and mesh is None and not any(_has_effects(n) for n in postorder(*whole.values())):
        divided = _subblocks(program, whole, second, names, wide, boxes)
    return Localised(
        program, parts, stages, tuple(v for v in _views(second) if v.param.name in inputs),
        {d: v for d, v in second.positions.items() if v.name in inputs},
        tuple(Combined(f.param, f.op, f.dim, f.level) for f in second.folds), whole,
        mesh, tuple(t for t in second.tables.values() if t.param.name in inputs), divided,
    )  # fmt: skip


# The block in parts: an interior that reads own points alone, and strips around it.
#
# The interior waits for no message, and no block is copied to stand beside its halo. Strips are as wide as halos, and
# as boundaries of the whole that lie near: conditions on positions are decided in the interior, on all devices alike.


def _is_far(node: Expr, parts: Mapping[str, Part]) -> bool:
    """True for what is read across a periodic boundary."""
    return isinstance(node, Call) and any(d in parts and far(d, k, parts) for d, k in offsets(node))


def _has_effects(node: Expr) -> bool:
    """True for what would be said more than once, or checked on other points."""
    return isinstance(node, Call) and (TABLE[node.op].effect or TABLE[node.op].checks)


def _subblocks(
    program: Fencil, whole: Mapping[str, Expr], local: Localiser, names: Mapping[tuple[str, Frame], str],
    wide: Mapping[str, Interval], boxes: Mapping[str, Dims],
) -> tuple[Subblock, ...]:  # fmt: skip
    """The parts of a block with their programs, of which `boxes` has what the whole block reads; none if it is one."""
    blocks = blocks_of(local.parts)
    at = {d: boxes[v.name][d] for d, v in local.positions.items() if v.name in boxes}
    places = {v.name for v in local.positions.values()}
    fields = [dims for name, dims in boxes.items() if name not in places]
    interiors = {
        d: _interior(part, [dims[d] for dims in fields if d in dims], at.get(d), local.bounds.get(d, ()))
        for d, part in blocks.items()
    }
    divided: list[Subblock] = []
    nodes = list(postorder(*whole.values()))
    for dims in _divided(interiors, {d: part.size for d, part in blocks.items()}):
        own = {
            p.name: whole[p.name]
            for p in program.results
            if all(d in p.type.dims or i == interiors[d] for d, i in dims.items)
        }
        if not own:
            continue
        asked: dict[str, list[Interval]] = {}
        for d, i in at.items():
            here = dims.get(d) or Interval(0, blocks[d].size)
            reach = Interval(here.start + i.start, here.stop + i.stop - blocks[d].size)
            asked[d] = [reach.shifted(-blocks[d].start(k)) for k in range(blocks[d].parts)]
        made = partial(_subblock, program, local.parts, names, wide, dims, asked)
        inner = all(i == interiors[d] for d, i in dims.items)
        several = _one_by_one(own, names) if inner and not any(_is_far(n, local.parts) for n in nodes) else []
        some = [made(value, read) for value, read in several]
        divided += some if some and all(_reads_blocks(s, local.parts) for s in some) else [made(own, {})]
    return tuple(divided)


def _one_by_one(
    whole: Mapping[str, Expr], names: Mapping[tuple[str, Frame], str]
) -> list[tuple[dict[str, Expr], dict[Var, str]]]:
    """Each result by itself, of those before it, which are stored; none where no result is read by another.

    The interior would else be computed anew for each: it is no result by itself, as that of a program is.
    """
    taken = {*whole, *names.values()}
    stored: dict[int, Expr] = {}
    read: dict[Var, str] = {}
    each: list[tuple[dict[str, Expr], dict[Var, str]]] = []
    for name, value in whole.items():
        (own,) = rewrite_all((value,), lambda _: None, dict(stored))
        each.append(({name: own}, {v: n for v, n in read.items() if v in own.free}))
        if isinstance(value, Call):
            param = var(free_name(name, taken), value.tensor)
            stored[id(value)], read[param] = param, name
    return each if any(some for _, some in each) else []


def _reads_blocks(part: Subblock, parts: Mapping[str, Part]) -> bool:
    """True if the earlier results that a part reads are those of the block, and not of points beside it."""
    params = [p for p in part.program.inputs if p.name in part.results]
    points = [(parts[d], i) for p in params for d, i in p.type.dims.items if d in parts]
    return all(Interval(0, block.size).covers(i) for block, i in points)


def _interior(part: Decomposition, read: Sequence[Interval], at: Interval | None, bounds: Iterable[int]) -> Interval:
    """The points of a block that read own points alone, on each device; all where strips were larger than these.

    `read` has what is read for a block, `at` the points at which it has conditions, and `bounds` where those change.
    """
    size, fewest = part.size, min(len(block) for block in part.blocks())
    low = max([0, *(-i.start for i in read)])
    high = size - fewest + max([0, *(i.stop - size for i in read)])
    if at is not None:
        for bound in (bound - part.start(k) for bound in bounds for k in range(part.parts)):
            if 4 * bound <= size:
                low = max(low, bound - at.start)
            elif 4 * (size - bound) <= size:
                high = max(high, at.stop - bound)
    return Interval(low, size - high) if 2 * (low + high) <= size else Interval(0, size)


def _divided(interiors: Mapping[str, Interval], sizes: Mapping[str, int]) -> list[Dims]:
    """The parts of a block: strips along the first dim, and what is between them divided along the next one.

    >>> for dims in _divided({"I": Interval(1, 8), "J": Interval(2, 6)}, {"I": 8, "J": 8}):
    ...     print(dims)
    I[0:1]
    I[1:8], J[0:2]
    I[1:8], J[6:8]
    I[1:8], J[2:6]
    """
    parts: list[Dims] = []
    within = Dims()
    for dim, interior in interiors.items():
        strips = [Interval(0, interior.start), Interval(interior.stop, sizes[dim])]
        parts += [within.with_interval(dim, strip) for strip in strips if strip]
        if any(strips):
            within = within.with_interval(dim, interior)
    return [*parts, within] if parts else []


def _subblock(
    program: Fencil, parts: Mapping[str, Part], names: Mapping[tuple[str, Frame], str], wide: Mapping[str, Interval],
    dims: Dims, asked: Mapping[str, Sequence[Interval]], whole: Mapping[str, Expr], read: Mapping[Var, str],
) -> Subblock:  # fmt: skip
    """The program of a part of every block, where conditions on positions are for the points that are asked for.

    `read` has the earlier results that it reads.
    """
    taken = {*(p.name for p in program.results), *names.values()}
    first = Localiser(parts, lambda _, dim: wide[dim], names, set(taken), asked=asked)
    boxes = _read(_stages(program, whole, first, dims))

    def box(name: str, dim: str) -> Interval:
        return boxes[name][dim] if name in boxes else Interval(0, parts[dim].size)

    second = Localiser(parts, box, names, set(taken), asked=asked)
    (stage,) = _stages(program, whole, second, dims)
    results = {own.name: read[v] for (v, _), own in second.views.items() if v in read and own in stage.inputs}
    return Subblock(dims, stage, {d: v for d, v in second.positions.items() if v in stage.inputs}, results)


def _united(read: Mapping[str, Dims], merged: Mapping[str, str]) -> dict[str, Dims]:
    """The points that are read of views, where several are one."""
    boxes: dict[str, Dims] = {}
    for name, dims in read.items():
        own = merged.get(name, name)
        boxes[own] = Dims(tuple((d, i | boxes[own][d]) for d, i in dims.items)) if own in boxes else dims
    return boxes


def _stages(program: Fencil, whole: Mapping[str, Expr], local: Localiser, on: Dims = WHOLE) -> tuple[Fencil, ...]:
    """A program for each round of folds, and the last one for results on the block, or on a part of it."""
    parts = local.parts
    made = {name: local.local(value) for name, value in whole.items()}
    levels: dict[int, list[tuple[Var, Expr]]] = {}
    for fold in local.folds:
        levels.setdefault(fold.level, []).append((_result(fold), fold.partial))
    last = 1 + max(levels, default=-1)
    for p in (p for p in program.results if p.name in whole):
        block = ((d, Interval(0, parts[d].size) if d in parts else i) for d, i in p.type.dims.items)
        dims = Dims(tuple((d, on.get(d) or i) for d, i in block))
        levels.setdefault(last, []).append((var(p.name, p.type.on(dims), p.span), made[p.name]))
    return tuple(_stage(program, levels[k], local, k < last) for k in range(last + 1))


def _result(fold: Fold) -> Var:
    """The name of a stage's fold, by which later stages know it."""
    return fold.param


def _stage(program: Fencil, outputs: Sequence[tuple[Var, Expr]], local: Localiser, folds: bool) -> Fencil:
    free = frozenset[Var]().union(*(e.free for _, e in outputs))
    given = [v for v in dict.fromkeys([*local.views.values(), *local.positions.values()]) if v in free]
    given += [t.param for t in local.tables.values() if t.param in free]
    given += [f.param for f in local.folds if f.param in free]
    name = f"folds_of_{program.name}" if folds else program.name
    return fencil(name, [*(p for p, _ in outputs), *given], [closure(p, e) for p, e in outputs], program.span)


def _read(stages: Sequence[Fencil]) -> dict[str, Dims]:
    """By name, the hull of what is read of each parameter for the blocks of the results."""
    read: dict[str, Dims] = {}
    for stage in reversed(stages):
        asked = {p.name: dict(read[p.name].items) for p in stage.results if p.name in read}
        for name, points in domains(stage, asked or None, boxes=True).params.items():
            if points:
                hull = points.hull
                read[name] = Dims(tuple((d, i | read[name][d]) for d, i in hull.items)) if name in read else hull
    return read


def _merged(local: Localiser) -> dict[str, str]:
    """Views that are one: those of a field in frames in which no point of it stands where another does."""
    found: dict[str, str] = {}
    fields: dict[Var, list[tuple[Frame, Var]]] = {}
    for (field, frame), own in local.views.items():
        fields.setdefault(field, []).append((frame, own))
    for field, some in fields.items():
        offsets = _offsets([frame for frame, _ in some], field, local.parts)
        if all(b - a >= len(field.type.dims[d]) for d, each in offsets.items() for a, b in pairwise(each)):
            found.update((own.name, some[0][1].name) for _, own in some)
    return found


def _offsets(frames: Sequence[Frame], field: Var, parts: Mapping[str, Part]) -> dict[str, tuple[int, ...]]:
    have = [d for d in field.type.dims if d in parts]
    return {d: tuple(sorted({dict(frame).get(d, 0) for frame in frames})) for d in have}


def _views(local: Localiser) -> list[View]:
    found: dict[str, list[tuple[Var, Frame, Var]]] = {}
    for (field, frame), own in local.views.items():
        found.setdefault(own.name, []).append((field, frame, own))
    return [
        View(some[0][2], some[0][0], _offsets([frame for _, frame, _ in some], some[0][0], local.parts))
        for some in found.values()
    ]
