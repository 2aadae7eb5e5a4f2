"""What each library program must compute, written in NumPy from the equation on its page.

A function per program, under its name; it takes the program's inputs by name and returns its outputs by name. None of
them imports anything of the project, and none is written as the program is: systems are solved as dense matrices, mesh
operators go vertex by vertex, stencils point by point.
"""

from __future__ import annotations

import numpy as np


def _points(shape, margin):
    return np.ndindex(*(size - 2 * margin for size in shape))


def laplacian(inp):
    out = np.empty((inp.shape[0] - 2, inp.shape[1] - 2))
    for i, j in np.ndindex(out.shape):
        p, q = i + 1, j + 1
        out[i, j] = inp[p + 1, q] + inp[p - 1, q] + inp[p, q + 1] + inp[p, q - 1] - 4 * inp[p, q]
    return {"out": out}


def biharmonic(inp):
    weights = {(0, 0): 20, (1, 1): 2, (1, -1): 2, (-1, 1): 2, (-1, -1): 2}
    weights |= dict.fromkeys([(1, 0), (-1, 0), (0, 1), (0, -1)], -8)
    weights |= dict.fromkeys([(2, 0), (-2, 0), (0, 2), (0, -2)], 1)
    out = np.empty((inp.shape[0] - 4, inp.shape[1] - 4))
    for i, j in np.ndindex(out.shape):
        out[i, j] = sum(w * inp[i + 2 + a, j + 2 + b] for (a, b), w in weights.items())
    return {"out": out}


def hdiff(inp, coeff):
    out = inp.copy()
    for k in range(inp.shape[2]):
        out[:, :, k] = _limited_diffusion(inp[:, :, k], coeff[:, :, k])
    return {"out": out}


def terrain_filter(inp, strength):
    return {"out": _limited_diffusion(inp, np.full(inp.shape, strength))}


def _limited_diffusion(f, coeff):
    def lap(i, j):
        return f[i + 1, j] + f[i - 1, j] + f[i, j + 1] + f[i, j - 1] - 4 * f[i, j]

    def flux(i, j, di, dj):
        rise = lap(i + di, j + dj) - lap(i, j)
        return 0.0 if rise * (f[i + di, j + dj] - f[i, j]) > 0 else rise

    out = f.copy()
    for i, j in _points(f.shape, 2):
        p, q = i + 2, j + 2
        leaving = flux(p, q, 1, 0) - flux(p - 1, q, 1, 0) + flux(p, q, 0, 1) - flux(p, q - 1, 0, 1)
        out[p, q] = f[p, q] - coeff[p, q] * leaving
    return out


def advection_upwind(inp, u, v, dt, dx, dy):
    out = inp.copy()
    for i, j in _points(inp.shape, 1):
        p, q = i + 1, j + 1
        east = inp[p, q] - inp[p - 1, q] if u[p, q] > 0 else inp[p + 1, q] - inp[p, q]
        north = inp[p, q] - inp[p, q - 1] if v[p, q] > 0 else inp[p, q + 1] - inp[p, q]
        out[p, q] = inp[p, q] - dt * (u[p, q] * east / dx + v[p, q] * north / dy)
    return {"out": out}


def advection_third_order(inp, u, v, dt, dx, dy):
    def one_way(a, b, c, d):  # the derivative between b and c, at c, of the cubic through four points, wind from a to d
        return (a - 6 * b + 3 * c + 2 * d) / 6

    def tendency(f):
        result = np.zeros_like(f)
        for i, j in _points(f.shape, 2):
            p, q = i + 2, j + 2
            row, column = f[p - 2 : p + 3, q], f[p, q - 2 : q + 3]
            east = one_way(*row[:4]) if u[p, q] > 0 else -one_way(*row[:0:-1])
            north = one_way(*column[:4]) if v[p, q] > 0 else -one_way(*column[:0:-1])
            result[p, q] = -u[p, q] * east / dx - v[p, q] * north / dy
        return result

    stage = inp
    for part in (3, 2, 1):
        stage = inp + dt / part * tendency(stage)
    return {"out": stage}


def tridiagonal(a, b, c, d):
    x = np.empty_like(d)
    for i, j in np.ndindex(d.shape[:2]):
        matrix = np.diag(b[i, j]) + np.diag(a[i, j, 1:], -1) + np.diag(c[i, j, :-1], 1)
        x[i, j] = np.linalg.solve(matrix, d[i, j])
    return {"x": x}


def vertical_advection(utens_stage, u_stage, u_pos, utens, wcon, dtr_stage):
    levels = u_stage.shape[2]
    out = np.empty_like(u_stage)
    for i, j in np.ndindex(u_stage.shape[:2]):
        transport = np.zeros((levels, levels))  # half of g[k] (x[k] - x[k-1]) + g[k+1] (x[k+1] - x[k])
        for face in range(1, levels):
            g = (wcon[i, j, face] + wcon[i + 1, j, face]) / 4
            for k in (face - 1, face):
                transport[k, face] += g / 2
                transport[k, face - 1] -= g / 2
        right = dtr_stage * u_pos[i, j] + utens[i, j] + utens_stage[i, j] - transport @ u_stage[i, j]
        x = np.linalg.solve(dtr_stage * np.eye(levels) + transport, right)
        out[i, j] = dtr_stage * (x - u_pos[i, j])
    return {"utens_stage": out}


def heat(u, diffusivity, dt, dx, dy):
    out = u.copy()
    for i, j in _points(u.shape, 1):
        p, q = i + 1, j + 1
        bend = (u[p + 1, q] - 2 * u[p, q] + u[p - 1, q]) / dx**2 + (u[p, q + 1] - 2 * u[p, q] + u[p, q - 1]) / dy**2
        out[p, q] = u[p, q] + dt * diffusivity * bend
    return {"u": out}


def shallow_water(eta, u, v, depth, coriolis, gravity, dt, dx, dy):
    n, m = eta.shape
    eta, u, v, old = eta.copy(), u.copy(), v.copy(), eta
    for i, j in np.ndindex(n + 1, m):  # what flows through the faces goes from one box to the other
        if 0 < i < n:
            flow = dt / dx * u[i, j] * (depth[i - 1, j] + old[i - 1, j] + depth[i, j] + old[i, j]) / 2
            eta[i - 1, j] -= flow
            eta[i, j] += flow
    for i, j in np.ndindex(n, m + 1):
        if 0 < j < m:
            flow = dt / dy * v[i, j] * (depth[i, j - 1] + old[i, j - 1] + depth[i, j] + old[i, j]) / 2
            eta[i, j - 1] -= flow
            eta[i, j] += flow
    before = v.copy()
    for i, j in np.ndindex(n + 1, m):
        if 0 < i < n:
            land = depth[i - 1, j] <= 0 or depth[i, j] <= 0
            mean = before[i - 1 : i + 1, j : j + 2].mean()
            u[i, j] = 0 if land else u[i, j] + dt * (coriolis * mean - gravity * (eta[i, j] - eta[i - 1, j]) / dx)
    for i, j in np.ndindex(n, m + 1):
        if 0 < j < m:
            land = depth[i, j - 1] <= 0 or depth[i, j] <= 0
            mean = u[i : i + 2, j - 1 : j + 1].mean()
            v[i, j] = 0 if land else v[i, j] - dt * (coriolis * mean + gravity * (eta[i, j] - eta[i, j - 1]) / dy)
    return {"eta": eta, "u": u, "v": v}


def nabla(pp, S_MXX, S_MYY, sign, vol, E2V, V2E):
    out = np.zeros((2, len(pp)))
    for vertex, edges in enumerate(V2E):
        for slot, edge in enumerate(edges):
            if edge >= 0:
                start, stop = E2V[edge]
                face = np.array([S_MXX[edge], S_MYY[edge]])
                out[:, vertex] += sign[vertex, slot] * face * (pp[start] + pp[stop]) / 2 / vol[vertex]
    return {"out": tuple(out)}


def mesh_laplacian(inp, sign, edge_length, dual_edge_length, vertex_area, E2V, V2E):
    out = np.zeros_like(inp)
    for vertex, edges in enumerate(V2E):
        for slot, edge in enumerate(edges):
            if edge >= 0:
                start, stop = E2V[edge]
                flux = (inp[stop] - inp[start]) * dual_edge_length[edge] / edge_length[edge]
                out[vertex] += sign[vertex, slot] * flux / vertex_area[vertex]
    return {"out": out}


def neighbour_max(inp, V2V):
    return {"out": np.array([max(inp[[v, *row[row >= 0]]]) for v, row in enumerate(V2V)])}
