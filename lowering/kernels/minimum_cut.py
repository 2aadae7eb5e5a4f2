"""The cheapest way to part the nodes of a graph in two, by the greatest flow (Edmonds and Karp)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

NEVER = 1 << 80
"""The cost of an edge that is not to be cut."""


@dataclass(slots=True)
class Graph:
    """Nodes on one of two sides, and what it costs where the first of two is on the first side and not the other.

    >>> g = Graph((0, 1))
    >>> for a, b, cost in ((0, "a", 3), ("a", "b", 1), ("b", 1, 2)): g.edge(a, b, cost)
    >>> g.cut() == {0, "a"}
    True
    """

    ends: tuple[Hashable, Hashable]
    """The nodes of either side."""
    left: dict[Hashable, dict[Hashable, int]] = field(default_factory=dict[Hashable, dict[Hashable, int]])
    """Residual capacity, by the two ends of an edge."""

    def edge(self, a: Hashable, b: Hashable, cost: int = NEVER) -> None:
        """Charge `cost` if `a` is on the first side and `b` on the second; of two edges of the same nodes the dearer
        one counts.
        """
        if a != b:
            self.left.setdefault(a, {})[b] = max(cost, self.left.get(a, {}).get(b, 0))
            self.left.setdefault(b, {}).setdefault(a, 0)

    def cut(self) -> set[Hashable]:
        """The nodes on the first side of the cheapest cut; consumes the graph's capacities."""
        while True:
            predecessor = self._reached()
            if self.ends[1] not in predecessor:
                return set(predecessor)
            path, node = list[tuple[Hashable, Hashable]](), self.ends[1]
            while (back := predecessor[node]) is not None:
                path.append((back, node))
                node = back
            flow = min(self.left[a][b] for a, b in path)
            for a, b in path:
                self.left[a][b] -= flow
                self.left[b][a] += flow

    def _reached(self) -> dict[Hashable, Hashable | None]:
        """The nodes that an augmenting path reaches from the first end, each with its predecessor on it."""
        predecessor: dict[Hashable, Hashable | None] = {self.ends[0]: None}
        queue = deque([self.ends[0]])
        while queue and self.ends[1] not in predecessor:
            a = queue.popleft()
            for b, capacity in self.left.get(a, {}).items():
                if capacity and b not in predecessor:
                    predecessor[b] = a
                    queue.append(b)
        return predecessor
