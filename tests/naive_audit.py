"""The privacy loss of RanSwitch from its definition, slowly: two worlds side by side, every choice followed.

Shares no code with the package. Timestamps count from 0.
"""

import math
from collections import defaultdict
from itertools import product


def ranswitch_losses(q, window, i, j, steps=160):
    """Return {n: probability} of losses n·ln(p/q) between worlds in which values i and j are exchanged.

    The worlds release the same at each step, or the loss is infinite. Contents on which both agree are
    interchangeable, so states that differ only in these are one state; that keeps their number small. The worlds
    become one with probability p + q ≥ 1/2 at each trial, and trials are at most window − 1 steps apart: for
    windows up to 4 what is left after 160 steps is below 1e-14.
    """
    p = 1 - (window - 1) * q
    size = steps + window + j + 1
    here = list(range(size))
    there = list(here)
    there[i], there[j] = j, i
    states = {(0, _canonical(here, there, 0)): 1.0}
    lost = 0.0
    for t in range(steps):
        following: dict = defaultdict(float)
        for (ratio, differences), weight in states.items():
            for offset in range(window):
                chance = weight * (p if offset == 0 else q)
                here, there = _contents(differences, size)
                label = here[t + offset]
                found = there.index(label) if label in there else -1
                if not t <= found < t + window:
                    lost += chance
                    continue
                gained = (offset == 0) - (found == t)
                here[t], here[t + offset] = here[t + offset], here[t]
                there[t], there[found] = there[found], there[t]
                following[ratio + gained, _canonical(here, there, t + 1)] += chance
        states = following
        if all(not differences for _, differences in states):
            break
    losses = defaultdict(float, {math.inf: lost})
    for (ratio, _), weight in states.items():
        losses[ratio] += weight
    return dict(losses)


def _canonical(here, there, start):
    """Return the slots from `start` on in which the worlds differ, with the labels numbered as they come."""
    names: dict[int, int] = {}
    return tuple(
        (slot, names.setdefault(mine, len(names)), names.setdefault(its, len(names)))
        for slot, (mine, its) in enumerate(zip(here, there, strict=True))
        if slot >= start and mine != its
    )


def _contents(differences, size):
    """Return contents of both worlds with the given differences."""
    here = list(range(size))
    there = list(here)
    for slot, mine, its in differences:
        here[slot], there[slot] = -1 - mine, -1 - its
    return here, there


def delta(losses, unit, epsilon):
    """Return E[max(0, 1 − e^(ε − loss))], where a loss n stands for n·unit."""
    return math.fsum(
        weight * max(0.0, 1 - math.exp(epsilon - n * unit)) if n != math.inf else weight
        for n, weight in losses.items()
    )


def switch_plans(p, q, window, slots, reach=None):
    """Return {sources of the first slots: probability} by going through all sequences of offsets."""
    plans: dict[tuple[int, ...], float] = defaultdict(float)
    for offsets in product(range(window), repeat=slots):
        content = list(range(slots + window))
        chance = 1.0
        for t, offset in enumerate(offsets):
            chance *= p if offset == 0 else q
            waited = t - content[t]
            taken = 0 if reach is not None and offset + waited > reach else offset
            content[t], content[t + taken] = content[t + taken], content[t]
        plans[tuple(content[:slots])] += chance
    return dict(plans)


def hockey_stick(plans, i, j, epsilon):
    """Return δ(ε) between these plans and the same with i and j exchanged, in both directions."""
    swap = {i: j, j: i}
    other = {tuple(swap.get(source, source) for source in plan): chance for plan, chance in plans.items()}
    keys = plans.keys() | other.keys()
    grown = math.exp(epsilon)
    forward = math.fsum(max(0.0, plans.get(key, 0.0) - grown * other.get(key, 0.0)) for key in keys)
    backward = math.fsum(max(0.0, other.get(key, 0.0) - grown * plans.get(key, 0.0)) for key in keys)
    return forward, backward
