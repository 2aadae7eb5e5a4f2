"""Generated regions of int32: loops, windows, conditions, carried values, reads and writes that stay inside."""

from hypothesis import strategies as st

from tensorir.integers.affine import Affine, number, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Expr, Literal, Var
from tensorir.ir.types import INT32, TensorType
from tensorir.lifting.region.nodes import (
    Bound,
    Buffer,
    Carried,
    Condition,
    For,
    If,
    Let,
    Node,
    Read,
    Region,
    Rule,
    Write,
)

EXTENT = 24
BUFFERS = (
    Buffer("A", INT32, (("a", EXTENT),), True),
    Buffer("B", INT32, (("b", EXTENT),), True),
    Buffer("C", INT32, (("c", EXTENT), ("d", EXTENT)), True),
    Buffer("s", INT32, ()),
    Buffer("t", INT32, (("e", EXTENT),)),
)
OPS = ("plus", "minus", "max", "multiplies")


class Names:
    """Fresh names."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"


@st.composite
def regions(draw, windows: bool = True, most_depth: int = 2) -> Region:
    """A region; without `windows` all values are of rank 0."""
    fresh = Names()
    body = draw(_bodies(fresh, (), (), most_depth, windows))
    return Region("generated", BUFFERS, body)


@st.composite
def _bodies(draw, fresh, loops, known, depth, windows) -> tuple[Node, ...]:
    found: list[Node] = []
    values: list[Var] = list(known)
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(("statement", "statement", "loop", "if"))) if depth else "statement"
        if kind == "loop":
            node = draw(_loops(fresh, loops, tuple(values), depth, windows))
            found.append(node)
            values += [c.result for c in node.carried]
        elif kind == "if" and loops:
            body = draw(_bodies(fresh, loops, tuple(values), depth - 1, windows))
            other = draw(_bodies(fresh, loops, tuple(values), 0, windows)) if draw(st.booleans()) else ()
            found.append(If((draw(_bounds(loops)),), body, other))
        else:
            found += draw(_statements(fresh, loops, tuple(values), windows))
    return tuple(found)


@st.composite
def _loops(draw, fresh, loops, known, depth, windows) -> For:
    dim = fresh("i")
    start = number(draw(st.integers(0, 1)))
    stop = number(draw(st.integers(2, 4)))
    if loops and draw(st.integers(0, 3)) == 0:
        stop = variable(draw(st.sampled_from(loops))).plus(number(1))
    carried = ()
    if draw(st.integers(0, 3)) == 0:
        inside = Var(fresh("v"), TensorType(INT32))
        first = draw(_operands([v for v in known if not v.type.dims]))
        carried = (inside, first)
    inner = (*known, *carried[:1])
    body = draw(_bodies(fresh, (*loops, dim), inner, depth - 1, windows))
    made = ()
    if carried:
        inside, first = carried
        value = call(draw(st.sampled_from(OPS)), inside, Var(dim, TensorType(INT32)))
        made = (Carried(inside, first, value, Var(fresh("v"), TensorType(INT32))),)
    return For(dim, start, stop, body, Rule.IN_ORDER, made)


@st.composite
def _statements(draw, fresh, loops, known, windows) -> list[Node]:
    own = (fresh("x"),) if windows and draw(st.integers(0, 3)) == 0 else ()
    kind = TensorType(INT32, Dims(tuple((d, Interval(0, 2)) for d in own)))
    found: list[Node] = []
    operands: list[Expr] = [draw(_operands([v for v in known if not v.type.dims]))]
    for _ in range(draw(st.integers(0, 2))):
        buffer = draw(st.sampled_from([b for b in BUFFERS if not own or b.dims]))
        here = own if buffer.dims else ()
        where = (draw(_bounds(loops)),) if loops and draw(st.integers(0, 5)) == 0 else ()
        read = Read(Var(fresh("v"), kind), buffer, draw(_maps(buffer, loops, here)), where)
        found.append(read)
        operands.append(read.result)
    value = operands[0]
    for other in operands[1:]:
        value = call(draw(st.sampled_from(OPS)), value, other)
    if loops and draw(st.booleans()):
        value = call("plus", value, Var(draw(st.sampled_from(loops)), TensorType(INT32)))
    if own and not value.tensor.dims:
        value = call("add_dim", value, static=(own[0], 0, 2))
    if not isinstance(value, Var | Literal) and draw(st.booleans()):
        let = Let(Var(fresh("v"), value.tensor), value)
        found.append(let)
        value = let.result
    buffer = draw(st.sampled_from([b for b in BUFFERS if not own or b.dims]))
    where = (draw(_bounds(loops)),) if loops and draw(st.integers(0, 5)) == 0 else ()
    found.append(Write(buffer, draw(_maps(buffer, loops, own)), value, where))
    return found


@st.composite
def _operands(draw, known) -> Expr:
    if known and draw(st.booleans()):
        return draw(st.sampled_from(known))
    return literal(draw(st.integers(-3, 3)), INT32)


@st.composite
def _maps(draw, buffer, loops, own) -> tuple[Affine, ...]:
    found: list[Affine] = []
    for k in range(len(buffer.dims)):
        a = number(draw(st.integers(0, 4)))
        for name in draw(st.lists(st.sampled_from(loops), unique=True, max_size=2)) if loops else ():
            a = a.plus(variable(name).times(draw(st.sampled_from((1, 1, 1, 2)))))
        found.append(a.plus(variable(own[0]).times(draw(st.integers(1, 2)))) if own and k == 0 else a)
    return tuple(found)


@st.composite
def _bounds(draw, loops) -> Condition:
    a = variable(draw(st.sampled_from(loops))).times(draw(st.sampled_from((1, 1, -1, 2))))
    if draw(st.integers(0, 2)) == 0:
        a = a.minus(variable(draw(st.sampled_from(loops))))
    return Bound(a.plus(number(draw(st.integers(-2, 3)))), draw(st.integers(0, 3)) == 0)
