"""Slow twins of the switch kernels, written from the definition: one dictionary, no chunks, no tricks."""

from collections.abc import Callable


def naive_switch(n: int, window: int, unit: int, word: Callable[[int], int], *, stateful: bool) -> list[int]:
    """Return the source of each slot; `word(t)` is the keystream word of step t.

    Slots hold their own value until they are exchanged; values n, n+1, … are placeholders, dropped at the end.
    """
    stay = 2**64 - (window - 1) * unit
    contents: dict[int, int] = {}
    released: list[int] = []
    slot = 0
    while sum(source < n for source in released) < n:
        offset = 0
        while word(slot) >= stay + offset * unit and offset < window - 1:
            offset += 1
        here = contents.pop(slot, slot)
        waited = slot - here
        if stateful and offset > window - 1 - waited:
            offset = 0
        if offset == 0:
            released.append(here)
        else:
            released.append(contents.get(slot + offset, slot + offset))
            contents[slot + offset] = here
        slot += 1
    return [source for source in released if source < n]
