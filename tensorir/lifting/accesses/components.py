"""Strongly connected components of dependences, in an order in which they may run.

>>> components(4, [(0, 1), (1, 2), (2, 1), (0, 3)])
[[0], [1, 2], [3]]
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

__all__ = ["components"]


def components(count: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The components of a graph on 0 to count - 1, sources first, ties in ascending order."""
    after: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        after[a].append(b)
    number = [-1] * count
    low = [0] * count
    owner = [-1] * count
    stack: list[int] = []
    found: list[list[int]] = []
    counter = 0
    for root in range(count):
        if number[root] >= 0:
            continue
        work: list[tuple[int, int]] = [(root, 0)]
        while work:
            node, k = work.pop()
            if k == 0:
                number[node] = low[node] = counter
                counter += 1
                stack.append(node)
            descended = False
            while k < len(after[node]):
                other = after[node][k]
                k += 1
                if number[other] < 0:
                    work += [(node, k), (other, 0)]
                    descended = True
                    break
                if owner[other] < 0:
                    low[node] = min(low[node], number[other])
            if descended:
                continue
            for other in after[node]:
                if owner[other] < 0:
                    low[node] = min(low[node], low[other])
            if low[node] == number[node]:
                members: list[int] = []
                while True:
                    member = stack.pop()
                    owner[member] = len(found)
                    members.append(member)
                    if member == node:
                        break
                found.append(sorted(members))
    return _ordered(found, owner, after)


def _ordered(found: list[list[int]], owner: list[int], after: list[list[int]]) -> list[list[int]]:
    waiting = [0] * len(found)
    follows: list[set[int]] = [set() for _ in found]
    for a, targets in enumerate(after):
        for b in targets:
            if owner[a] != owner[b] and owner[b] not in follows[owner[a]]:
                follows[owner[a]].add(owner[b])
                waiting[owner[b]] += 1
    ready = [(found[k][0], k) for k in range(len(found)) if not waiting[k]]
    heapq.heapify(ready)
    order: list[list[int]] = []
    while ready:
        _, k = heapq.heappop(ready)
        order.append(found[k])
        for other in follows[k]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, (found[other][0], other))
    return order
