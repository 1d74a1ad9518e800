"""Slow twins of PureSwitch, from the definition: whole integers of 128 bits, and permutations one by one."""

from collections.abc import Callable, Sequence
from itertools import permutations, product
from math import exp


def naive_pure(n: int, stacked: Sequence[Sequence[int]], word: Callable[[int], int]) -> list[int]:
    """Return the source of each slot; `word(i)` is keystream word i, `stacked[h]` the integers at height h.

    Step t reads words 2t and 2t + 1, and as their lower halves the same words counted from 2^62.

    Values n, n+1, … are placeholders, dropped at the end.
    """
    content: list[int | None] = []
    paths: list[tuple[int, int]] = []
    decided: list[int] = []
    while sum(source < n for source in decided) < n:
        t, height = len(content), len(paths)
        drawn = word(2 * t) * 2**64 + word(2**62 + 2 * t)
        chosen = word(2 * t + 1) * 2**64 + word(2**62 + 2 * t + 1)
        kind = sum(drawn >= bound for bound in stacked[height])
        name = ("new", "fill", "merge", "close", "take", "stay")[kind]
        content.append(None)
        if name == "new":
            paths.append((t, t))
        elif name == "stay":
            content[t] = t
        elif name == "merge":
            number = chosen * height * (height - 1) // 2**128
            b, c = number // (height - 1), number % (height - 1)
            c = c + 1 if c >= b else c
            content[paths[b][0]], content[t] = t, paths[c][1]
            paths[c] = (paths[c][0], paths[b][1])
            paths[b] = paths[-1]
            paths.pop()
        else:
            b = chosen * height // 2**128
            slot, value = paths[b]
            if name == "fill":
                content[slot], paths[b] = t, (t, value)
            elif name == "take":
                content[t], paths[b] = value, (slot, t)
            else:
                content[slot], content[t] = t, value
                paths[b] = paths[-1]
                paths.pop()
        while len(decided) < len(content) and (source := content[len(decided)]) is not None:
            decided.append(source)
    return [source for source in decided if source < n]


def weight(plan: Sequence[int], theta: float, a: float) -> float:
    """Return the weight of a permutation: e^(−θ·Σ|π(t) − t|)·e^(−a·(n − number of cycles))."""
    unseen, cycles = set(range(len(plan))), 0
    while unseen:
        cycles += 1
        t = min(unseen)
        while t in unseen:
            unseen.remove(t)
            t = plan[t]
    return exp(-theta * sum(abs(s - t) for t, s in enumerate(plan)) - a * (len(plan) - cycles))


def partial_plans(n: int) -> list[tuple[int, ...]]:
    """Return all that can be known of a plan after n steps: slots with distinct sources below n, or −2."""
    found = []
    for plan in product(range(-2, n), repeat=n):
        known = [source for source in plan if source >= 0]
        if -1 not in plan and len(set(known)) == len(known):
            found.append(plan)
    return found


def finished(partial: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the releases of a short series, equally likely, that a partial plan of its length leads to.

    The values that are placed come in the order of their slots. Those that are outstanding are taken one by one,
    each as likely as any other, by slots after the end.
    """
    placed = [source for source in partial if source >= 0]
    waiting = [value for value in range(len(partial)) if value not in placed]
    return [(*placed, *order) for order in permutations(waiting)]
