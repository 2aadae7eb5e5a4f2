"""Writes that need their own earlier values: a scan along the loop that hands these on, or a fold if the last is all.

What is handed on over distances up to d is the state, a tuple where several writes hand something on, and the rest is
decided anew inside of a step. Where the first rounds find what was there before, the state begins as that.
"""

# islpy has no types of its own that say enough.
# pyright: basic

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tensorir.integers.affine import number, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.integers.sets import isl
from tensorir.ir.build import call, function, literal, reduce, scan, var
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import INT32, TensorType, TupleElement
from tensorir.lifting.dataflow.flow import Source, domain_of
from tensorir.lifting.dataflow.statements import Statement, Uncovered
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.emission.tensors import cut, filled, position, shifted, spread
from tensorir.lifting.nests.linear import settled
from tensorir.lifting.nests.terms import Term
from tensorir.lifting.schedule.placed import Made, with_indices
from tensorir.lifting.schedule.run import FAR, Decided, Run
from tensorir.lifting.schedule.stepping import Memory, asked_between_rounds, behind, looped, memories_of

MOST_KEPT = 4
"""How many times what the source keeps a scan may keep."""

MOST_REPEATED = 2
"""How many times what its writes hand on the state of a fold may be."""

Slot = tuple[int, int]
"""A write and how many rounds ago."""


Starts = dict[int, dict[Slot, Term]]
"""What the state begins as, by the reads that ask for it."""


@dataclass(slots=True)
class _Fed:
    """Inputs of rounds, one part at a time: as parameters of a fold, or, in steps, looked up."""

    dim: str
    step: Expr | None
    params: list[Var] = field(default_factory=list[Var])
    args: list[Expr] = field(default_factory=list[Expr])
    known: dict[Expr, Var] = field(default_factory=dict[Expr, Var])

    def now(self, x: Expr, name: str) -> Expr:
        """The part of a tensor that a round gets."""
        if self.step is not None:
            return call("gather", x, self.step, static=((self.dim,), "clamp"))
        if x not in self.known:
            p = var(name, x.tensor.on(x.tensor.dims.without(self.dim)))
            self.params.append(p)
            self.args.append(x)
            self.known[x] = p
        return self.known[x]


def _packed(parts: Sequence[Expr]) -> Expr:
    return parts[0] if len(parts) == 1 else call("make_tuple", *parts)


def step_along(run: Run, members: Sequence[int], dim: str) -> frozenset[int]:
    """Make the tensors of all writes among the members, which hand values on along a loop.

    Gives back what has to step along with them, if there is any: then nothing is made.
    """
    return _Recurrence(run, frozenset(members), dim).make()


@dataclass(slots=True)
class _Recurrence:
    run: Run
    members: frozenset[int]
    dim: str
    writes: list[Statement] = field(init=False)
    inside: frozenset[int] = field(init=False)
    """The members, and the reads of what was there before."""
    slots: list[Slot] = field(init=False)
    memories: list[Memory] = field(init=False)
    """What is kept by element where values come from rounds at differing distances."""
    in_steps: bool = field(init=False)
    """Whether this runs as a loop: the states of all rounds would take more than what the source keeps."""
    asked_everywhere: set[str] = field(init=False)
    """The buffers of which anybody asks for other states than the last one."""
    interval: Interval = field(init=False)
    state: dict[str, Interval] = field(init=False)
    """The box of the state, from 0 on along each dim."""
    names: dict[int, dict[str, str]] = field(init=False)
    """The dims of the state that those of each write are."""
    lows: dict[int, dict[str, int]] = field(init=False)

    def make(self) -> frozenset[int]:
        run = self.run
        self.members |= self.absorbed()
        ordered = sorted(self.members)
        self.writes = [run.statements[m] for m in ordered if not run.statements[m].is_read]
        self.inside = self.members | {r for w in self.writes for r in run.reads_of(w)}
        stored: set[str] = set()
        while True:
            found = self.attempt(stored)
            if isinstance(found, frozenset):
                if found and found <= self.members:
                    raise Uncovered("values between rounds of which a scatter of all rounds makes something")
                return found
            stored |= found

    def attempt(self, stored: set[str]) -> frozenset[int] | set[str]:
        run = self.run
        while True:
            if further := self.ask(stored):
                return further
            self.arrange()
            if not (by_element := self.limit()):
                break
            stored.update(by_element)
        starts = self.starts()
        counter = var(run.fresh(self.dim), TensorType(INT32))
        first, last = self.interval.start, self.interval.stop - 1
        now = counter if not self.in_steps or not first else call("plus", counter, literal(first, INT32))
        inner = run.emitter.inside({}, {self.dim: now}, {self.dim: (first, last)})
        fed = _Fed(self.dim, now if self.in_steps else None)
        begun: dict[int, Term | None] = dict.fromkeys(starts)
        for m in self.memories:
            begun.update(m.begun)
        given = self.given(inner, begun, fed)
        slots, kept = self.variables(), [m.variable(run) for m in self.memories]
        carried = [*slots, *kept]
        states = {
            **self.states(inner, slots),
            **{k: v for m, x in zip(self.memories, kept, strict=True) for k, v in m.states(inner, x)},
        }
        step = replace(
            run, emitter=inner, steps=(*run.steps, self.dim), states=states,
            stepping=self.inside, given=given, begun=begun, made={}, known={}, terms={}, decided=[],
            nested=set(), in_place={},
        )  # fmt: skip
        if further := step.schedule(step, sorted(self.inside)):
            return further
        if more := step.nested & {run.statements[w].buffer.name for w, _ in self.slots}:
            return more
        run.nested |= step.nested
        run.decided += step.decided
        new = [self.next(step, slot) for slot in self.slots]
        new += [m.after(step, self.interval) for m in self.memories]
        if self.in_steps:
            found = self.run_in_steps(inner, counter, carried, new, starts)
        else:
            new = [inner.asserting(new[0]), *new[1:]]
            found = self.fold(counter, carried, new, starts, fed)
        handed = ", ".join(sorted({run.statements[w].buffer.name for w, _ in self.slots}))
        told = ("reduction", f"folds into {handed}, in the order of the loop")
        if self.memories:
            handed = ", ".join(sorted({run.statements[w].buffer.name for m in self.memories for w in m.writes}))
            told = ("sequential", f"{handed} hands its elements on")
        if self.everywhere:
            told = ("scan", f"{handed} hands its last elements on")
        run.decided += [Decided(self.dim, told[0], w, told[1]) for w in self.writes]
        for (w, d), x in zip(self.slots, found[: len(self.slots)], strict=True):
            if d == 1:
                self.keep(w, x)
        for m, x in zip(self.memories, found[len(self.slots) :], strict=True):
            m.keep(run, x)
        return frozenset()

    @property
    def everywhere(self) -> bool:
        return bool(self.asked_everywhere)

    def variables(self) -> list[Var]:
        """The carry: one tensor, of a tuple for several values; in steps, one for each."""
        run, elements = self.run, [self.run.statements[w].buffer.element for w, _ in self.slots]
        if self.in_steps:
            return [
                var(run.fresh(f"{run.statements[w].buffer.name}_now"), TensorType(e, Dims(tuple(self.box(w).items()))))
                for (w, _), e in zip(self.slots, elements, strict=True)
            ]
        element = elements[0] if len(elements) == 1 else TupleElement(tuple(elements))
        return [var(run.fresh("state"), TensorType(element, Dims(tuple(self.state.items()))))]

    def fold(self, counter: Var, carried: Sequence[Var], new: Sequence[Expr], starts: Starts, fed: _Fed) -> list[Expr]:
        """The slots' final values of a fold, or those after each round of a scan."""
        body, init = _packed(new), _packed(self.first(starts))
        params, args = [*fed.params, counter], [*fed.args, position(self.dim, self.interval)]
        used = [k for k, p in enumerate(params) if p in body.free] or [len(params) - 1]
        f = function([*carried, *(params[k] for k in used)], body)
        of = [args[k] for k in used]
        x = scan(f, True, init, *of, dim=self.dim) if self.everywhere else reduce(f, init, *of, dim=self.dim)
        return [x] if len(self.slots) == 1 else [call("tuple_get", x, static=(k,)) for k in range(len(self.slots))]

    def run_in_steps(
        self, inner: Emitter, counter: Var, carried: Sequence[Var], new: Sequence[Expr], starts: Starts
    ) -> list[Expr]:
        """The same as a loop over what is carried, of which gradients keep no more than they need."""
        first = [*self.first(starts), *(m.first(self.run) for m in self.memories)]
        loop = next(loop for loop in self.writes[0].loops if loop.dim == self.dim)
        return looped(self.run, inner, [counter, *carried], new, first, loop.span, None, len(self.interval))

    def absorbed(self) -> frozenset[int]:
        """Values that only their own round needs, if all rounds of them together would take too much memory:
        rounds compute it themselves, so attention keeps no row of scores.
        """
        run, found = self.run, set[int]()
        pending = sorted({r for m in self.members for r in run.reads_of(run.statements[m])} | self.members)
        while pending:
            r = pending.pop()
            for w in {s.writer for s in run.flow.get(r, ()) if s.writer is not None} - self.members - found:
                if self.is_own(w, found):
                    reads = {k for k in run.reads_of(run.statements[w]) if k not in run.given}
                    found |= {w} | {k for k in reads if any(s.writer == w for s in run.flow[k])}
                    pending += sorted(reads)
        return frozenset(found)

    def is_own(self, write: int, found: Collection[int]) -> bool:
        """True if rounds ask for what they write themselves, and nobody else does, and it is too much to keep."""
        run, w = self.run, self.run.statements[write]
        if self.dim not in w.names or write in run.stepping or not isinstance(run.made.get(write), Made):
            return False
        if prod(len(i) for i in run.box(w).values()) <= MOST_KEPT * run.kept + 1024:
            return False
        k = w.names.index(self.dim)
        own = self.members | {write, *found}
        for r, source in run.askers(write):
            users = run.users.get(r, ())
            if not users or any(u not in own for u in users) or source.at[k] != variable(self.dim):
                return False
        return True

    # What is asked for

    def ask(self, stored: Collection[str]) -> frozenset[int]:
        """The distance in rounds at which each write is read; a reader outside may need more than the final value.

        Some buffers are `stored`: kept by element. Gives back who asks for elements of them between rounds.
        """
        run, depth = self.run, dict[int, int]()
        outside = run.read_outside(self.inside)
        boxes = [run.boxes_of(w)[self.dim] for w in self.writes]
        self.interval = Interval(min(i.start for i in boxes), max(i.stop for i in boxes))
        self.asked_everywhere = set[str]()
        far = {s.writer for r in self.inside for s in run.flow.get(r, ()) if s.writer in self.members
               and not run.before(r, s) and run.distance(s, self.dim) == FAR}  # fmt: skip
        stored = {*stored, *(run.statements[w].buffer.name for w in far if w is not None)}
        kept = [w for w in self.writes if w.buffer.name in stored]
        if late := asked_between_rounds(run, self.dim, kept, self.inside):
            return behind(run, self.dim, late)
        self.memories = memories_of(run, self.dim, kept, self.inside)
        for w in self.writes:
            if w.buffer.name in stored:
                continue
            k = w.names.index(self.dim)
            for r, source in run.askers(w.number):
                if r in self.inside and run.statements[r].is_read and not run.before(r, source):
                    d = run.distance(source, self.dim)
                    if d < 0:
                        raise Uncovered("a dependence that goes backwards")
                    depth[w.number] = max(depth.get(w.number, 0), d)
                # rounds around hand on what later ones of them read of this one
                if r not in self.inside or r in outside or run.before(r, source):
                    depth[w.number] = max(depth.get(w.number, 0), 1)
                    last = self.interval.stop - 1
                    asked = (m.range() for m in (source.relation, run.wanted(r, source.relation)))
                    if not any(m.is_empty() or m.dim_min_val(k).to_str() == str(last) for m in asked):
                        self.asked_everywhere.add(w.buffer.name)
        self.slots = [(w.number, d + 1) for w in self.writes for d in range(depth.get(w.number, 0))]
        return frozenset()

    def arrange(self) -> None:
        """The dims of the state: of several writes those of one name are one, and those of one extent."""
        run = self.run
        stepping = {w for w, _ in self.slots}
        boxes = {
            w.number: {n: i for n, i in run.box(w).items() if n != self.dim}
            for w in self.writes
            if w.number in stepping
        }
        hulls: dict[str, Interval] = {}
        for box in boxes.values():
            for n, i in box.items():
                hulls[n] = hulls.get(n, i) | i
        self.state, self.names, self.lows = {}, {}, {}
        for w, box in sorted(boxes.items(), key=lambda found: -len(found[1])):
            names: dict[str, str] = {}
            for n in box:
                free = (s for s, i in self.state.items() if len(i) == len(hulls[n]) and s not in names.values())
                s = n if n in self.state and n not in names.values() else next(free, n)
                self.state.setdefault(s, Interval(0, len(hulls[n])))
                names[n] = s
            self.names[w] = names
            self.lows[w] = {n: hulls[n].start for n in box}

    def limit(self) -> Collection[str]:
        """A fold keeps its states, too, where a gradient is asked for: what is too much for that runs in steps.

        Gives back the buffers that have to be kept by element instead.
        """
        size = prod(len(i) for i in self.state.values()) * len(self.interval) * len(self.slots)
        too_much = size > MOST_KEPT * self.run.kept + 1024
        # of what nobody asks for, what must hold inside is left
        seen = any(r not in self.inside for w in self.writes for r, _ in self.run.askers(w.number))
        unseen = self.run.emitter.checked and not seen
        # a fold has one box for all of its state
        own = sum(prod(len(i) for i in self.box(w).values()) for w, _ in self.slots)
        uneven = not self.everywhere and MOST_REPEATED * own * len(self.interval) < size
        # the checks of a loop say in which round they fail
        by_round = self.run.masked and self.run.emitter.checked and not self.everywhere
        self.in_steps = bool(self.memories) or not self.slots or unseen or uneven or by_round or (
            too_much and not self.everywhere
        )  # fmt: skip
        return self.asked_everywhere if self.memories or too_much else ()

    def allow(self, size: int) -> None:
        """The bound on memory for all rounds at once: a few times the source's own."""
        if size > MOST_KEPT * self.run.kept + 1024:
            raise Uncovered("rounds that would keep more than the source does")

    # What a step is given

    def given(self, inner: Emitter, begun: Collection[int], fed: _Fed) -> dict[int, Made]:
        """Values of reads inside that no member has written, one round at a time."""
        run, given = self.run, dict[int, Made]()
        for number_ in sorted(self.inside - set(begun)):
            r = run.statements[number_]
            if not r.is_read or not self.others(r):
                continue
            whole = {**run.box(r), **dict(r.own)}
            if self.dim in whole:
                whole[self.dim] = self.interval
            x = cut(run.emitter.emit(run.term(r, self.members), whole), whole)
            rest = {n: i for n, i in whole.items() if n != self.dim}
            if self.dim in x.tensor.dims:
                self.allow(x.tensor.dims.size)
                x = fed.now(x, run.fresh(f"{r.buffer.name}_now"))
            given[number_] = run.keep(inner, r.buffer.name, x, rest)
        return given

    def others(self, r: Statement) -> list[Source]:
        return [s for s in self.run.flow[r.number] if s.writer not in self.members or self.run.before(r.number, s)]

    # The state

    def box(self, w: int) -> dict[str, Interval]:
        """The dims of the state that a write has."""
        return {s: self.state[s] for s in self.names[w].values()}

    def states(self, inner: Emitter, carried: Sequence[Var]) -> dict[Slot, Made]:
        found: dict[Slot, Made] = {}
        for k, (w, d) in enumerate(self.slots):
            x: Expr = carried[k] if self.in_steps else carried[0]
            x = call("tuple_get", x, static=(k,)) if not self.in_steps and len(self.slots) > 1 else x
            made = self.run.keep(inner, f"s{w}_{d}", self.own(w, x), self.box(w))
            lows = self.lows[w]
            found[w, d] = replace(made, indices=tuple(variable(n).minus(number(lows[n])) for n in self.names[w]))
        return found

    def own(self, w: int, x: Expr) -> Expr:
        """A part of the state without the dims that others have."""
        lacking = [s for s in self.state if s in x.tensor.dims and s not in self.names[w].values()]
        zeros = [literal(0, INT32)] * len(lacking)
        return call("gather", x, *zeros, static=(tuple(lacking), "clamp")) if lacking else x

    def over(self, emitter: Emitter, w: int, term: Term) -> Expr:
        """A term for each iteration of a write, on the box of the state."""
        own, lows = self.names[w], self.lows[w]
        box = {n: self.state[s].shifted(-lows[n]) for n, s in own.items()}
        x = cut(emitter.emit(settled(term, emitter.scope(box)), box), box)
        for n in own:
            x = shifted(x, n, lows[n])
        moved = {n: s for n, s in own.items() if n != s and n in x.tensor.dims}
        if moved:
            x = call("rename", x, static=(tuple(moved.items()),))
        return spread(x, self.box(w) if self.in_steps else self.state)

    def next(self, step: Run, slot: Slot) -> Expr:
        w, d = slot
        made = step.made[w] if d == 1 else step.states[w, d - 1]
        return self.over(step.emitter, w, made.at({}, {}))

    def starts(self) -> Starts:
        """Initial values of the state, by the reads that need them: in their first rounds, and only there, they read
        what was there before at the same place.
        """
        found: Starts = {}
        known: dict[Slot, Term] = {}
        for number_ in sorted(self.members):
            r = self.run.statements[number_]
            own = self.start_of(r) if r.is_read else None
            if own is not None and all(known.get(slot, term) == term for slot, term in own.items()):
                found[number_] = own
                known.update(own)
        return found

    def start_of(self, r: Statement) -> dict[Slot, Term] | None:
        run = self.run
        carried = [s for s in run.flow[r.number] if s.writer in self.members and not run.before(r.number, s)]
        source = carried[0] if len(carried) == 1 else None
        if source is None or source.writer is None:
            return None
        w = run.statements[source.writer]
        d = run.distance(source, self.dim)
        same = [variable(n) if n != self.dim else variable(n).minus(number(d)) for n in w.names]
        # what is kept by element begins as all of it
        if (w.number, d) not in self.slots or w.names != r.names or list(source.at) != same:
            return None
        domain, k = domain_of(r), r.names.index(self.dim)
        late = domain.lower_bound_val(isl().dim_type.set, k, isl().Val(self.interval.start + d))
        if not late.is_equal(source.domain) or r.number in run.given:
            return None
        scope = {n: (i.start, i.stop - 1) for n, i in run.boxes_of(r).items()}
        term = settled(run.term(r, self.members), {**run.emitter.ranges, **scope})
        return {
            (w.number, back): settled(
                with_indices(term, {self.dim: number(self.interval.start + d - back)}, scope),
                {**run.emitter.ranges, **scope},
            )
            for back in range(1, d + 1)
        }

    def first(self, starts: Starts) -> list[Expr]:
        known = {slot: term for own in starts.values() for slot, term in own.items()}
        parts: list[Expr] = []
        for slot in self.slots:
            w, _ = slot
            if slot in known:
                parts.append(self.over(self.run.emitter, w, known[slot]))
            else:
                box = self.box(w) if self.in_steps else self.state
                parts.append(filled(0, self.run.statements[w].buffer.element, box))
        return parts

    # What comes out

    def keep(self, w: int, x: Expr) -> None:
        own, lows, x = self.names[w], self.lows[w], self.own(w, x)
        back = {s: n for n, s in own.items() if n != s and s in x.tensor.dims}
        if back:
            x = call("rename", x, static=(tuple(back.items()),))
        box = {**({self.dim: self.interval} if self.everywhere else {}), **{n: self.state[s] for n, s in own.items()}}
        made = self.run.keep(self.run.emitter, self.run.statements[w].buffer.name, x, box)
        begin = {**{n: i.start for n, i in box.items()}, **lows}
        self.run.made[w] = replace(made, indices=tuple(variable(n).minus(number(begin[n])) for n in box))
