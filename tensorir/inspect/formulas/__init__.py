r"""The equations of a program, in LaTeX: what it computes at one point, derived from the program itself.

A shift is an index with an offset, a neighbour table a sum over the neighbours, a scan a recurrence from a level to
the next. What `let` binds, and what is used several times, is a line of its own, and so is what does not fit into one;
what has no notation in mathematics (`loop`, `cond`, `blocked`, `sort`, `top_k`, `argreduce`, `scatter`) keeps its name,
as an operator on whole tensors. Slots in which a table holds -1 are left out of sums and recurrences. The length is
linear in the distinct nodes.

>>> import tensorir as ti
>>> f = ti.parse('''heat(h: tensor<float, I[0:n]>, r: tensor<float>) {
...   h[I[1:n-1]] ← h + r × (⟪I, 1⟫(h) - 2.0 × h + ⟪I, -1⟫(h)); }''')
>>> print(latex(f))
\begin{aligned}
h_{i} &\leftarrow h_{i} + r \, \left(h_{i+1} - 2 h_{i} + h_{i-1}\right) && 1 \le i < n-1
\end{aligned}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensorir.binding.programs import program_of
from tensorir.inspect.formulas.writer import equations
from tensorir.ir.nodes import Fencil
from tensorir.text.printer import unparse

__all__ = ["Equations", "latex"]


@dataclass(frozen=True, slots=True)
class Equations:
    """The equations of a program as LaTeX: notebooks set them, `str` gives the text."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        count = self.text.count("\n") - 1
        return f"<equations: {count} line{'s' * (count != 1)} of LaTeX>"

    def _repr_latex_(self) -> str:
        return f"$$\n{self.text}\n$$"


def latex(program: Any) -> Equations:
    r"""The equations of a program as LaTeX, an `aligned` with a line for each closure and intermediate.

    The program is a fencil, with sizes or without, a bound, compiled or lifted one, or an operator that was called. An
    arrow stands where a closure stores into what was read or stored before. Raises I05 for an operator that was not
    called.

    >>> import tensorir as ti
    >>> print(latex(ti.parse("f(out: tensor<float, I[0:4]>, x: tensor<float, I[0:5]>) { out ← ⟪I, 1⟫(x) / 2.0; }")))
    \begin{aligned}
    \mathit{out}_{i} &= \frac{x_{i+1}}{2} && 0 \le i < 4
    \end{aligned}
    """
    stated = program_of(program)
    return Equations(equations(unparse(stated) if isinstance(stated, Fencil) else stated.program))
