"""Limiters of advection as GT4Py's operators: of slopes, of parabolas, and of fluxes through the edges of a mesh.

Slope limiters are functions of the ratio of successive differences (Sweby, SIAM J. Numer. Anal. 21, 1984); the
semi-monotone ones keep a column's piecewise parabolas above their neighbours' smallest value (Colella and Woodward,
J. Comput. Phys. 54, 1984); the positive definite one scales what leaves a cell to what is in it (Zalesak, J. Comput.
Phys. 31, 1979).
"""

from __future__ import annotations

from gt4py.next import abs, maximum, minimum, neighbor_sum, where

from tests.peers.gt4py.sides import C2E, LOCAL, C2EDim, Cell, Edge, I, K, gtx

E2CDim = gtx.Dimension("E2C", kind=LOCAL)
E2C = gtx.FieldOffset("E2C", source=Cell, target=(Edge, E2CDim))

Ratio = gtx.Field[[I], gtx.float64]
Column = gtx.Field[[Cell, K], gtx.float64]
Flags = gtx.Field[[Cell, K], gtx.int32]
Flux = gtx.Field[[Edge, K], gtx.float64]
Outward = gtx.Field[[Cell, C2EDim], gtx.float64]


@gtx.field_operator
def minmod(r: Ratio) -> Ratio:
    return maximum(0.0, minimum(1.0, r))


@gtx.field_operator
def superbee(r: Ratio) -> Ratio:
    return maximum(0.0, maximum(minimum(2.0 * r, 1.0), minimum(r, 2.0)))


@gtx.field_operator
def monotonised_central(r: Ratio) -> Ratio:
    return maximum(0.0, minimum(minimum(2.0 * r, 0.5 * (1.0 + r)), 2.0))


@gtx.field_operator
def van_leer(r: Ratio) -> Ratio:
    return where(r > 0.0, 2.0 * r / (1.0 + r), 0.0)


@gtx.field_operator
def semi_monotone_slope(q: Column, slope: Column) -> Column:
    """The slope, at most twice what the value is above its smallest neighbour's."""
    least = minimum(q(K - 1), minimum(q, q(K + 1)))
    size = minimum(abs(slope), 2.0 * (q - least))
    return where(slope >= 0.0, size, 0.0 - size)


@gtx.field_operator
def semi_monotone_parabola(limited: Flags, face: Column, q: Column) -> tuple[Column, Column]:
    """Values at the upper and the lower face: constant below both faces, else one face's slope made 0."""
    return where(
        limited != 0,
        where(
            q < minimum(face, face(K + 1)),
            (q, q),
            where(face > face(K + 1), (3.0 * q - 2.0 * face(K + 1), face(K + 1)), (face, 3.0 * q - 2.0 * face)),
        ),
        (face, face(K + 1)),
    )


@gtx.field_operator
def positive_definite(mass: Column, flux: Flux, outward: Outward) -> Flux:
    """Fluxes scaled so that no more leaves a cell than is in it."""
    leaving = neighbor_sum(maximum(0.0, flux(C2E) * outward), axis=C2EDim)
    factor = minimum(1.0, mass / (leaving + 1.0e-30))
    return where(flux > 0.0, flux * factor(E2C[0]), flux * factor(E2C[1]))
