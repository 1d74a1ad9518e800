"""`whenmask demo`: the main job on a small example, and what it did."""

import math

from rich.console import Console
from rich.table import Table

from whenmask import Key, PureSwitch, StaSwitch

# Half-hourly consumption of a made-up household in Wh: sleep, a shower, an empty house, dinner, television.
SHAPE = [(14, 60), (3, 240), (2, 900), (13, 110), (4, 420), (3, 1900), (6, 510), (3, 130)]
WINDOW = 24
EPSILON = 6
BAR = 15


def household() -> list[int]:
    """Return one day of readings, no two of which are equal."""
    readings: list[int] = []
    for length, level in SHAPE:
        for _ in range(length):
            readings.append(level + 7 * (len(readings) % 5) + len(readings))
    return readings


def bar(value: int, largest: int) -> str:
    """Return a bar as long as the value is large."""
    return "█" * math.ceil(BAR * value / largest)


def demo() -> None:
    """Release one day of meter readings and show what it did.

    Example: `whenmask demo`
    """
    console = Console(highlight=False)
    day = household()
    mechanism = PureSwitch(EPSILON, window=WINDOW)
    plan = mechanism.plan(len(day), key=Key.fresh(), series="household")
    released = plan.apply(day)
    table = Table("time", "measured, Wh", "", "released, Wh", "", "from", title="One day of a household")
    for slot in range(0, len(day), 2):
        source = int(plan.source[slot])
        table.add_row(
            clock(slot),
            str(day[slot]),
            bar(day[slot], max(day)),
            str(released[slot]),
            bar(released[slot], max(day)),
            "here" if source == slot else clock(source),
        )
    table.caption = "every other slot"
    console.print(table)
    costs = plan.costs()
    console.print(
        f"What stayed: all {len(day)} readings to the last digit, and the day's total: {sum(released):,} Wh."
    )
    console.print(
        f"What is hidden: when within {WINDOW // 2} hours each occurred. "
        f"On average a reading moved {costs.per_slot() / 2:.1f} hours."
    )
    guarantee, claim = mechanism.guarantee, StaSwitch(EPSILON, window=WINDOW, calibrate="claim").claim
    proved = f"epsilon {guarantee.epsilon:.3g}, delta {guarantee.delta:.1g}, {guarantee.basis}"
    console.print(f"Guaranteed by PureSwitch: {proved}.")
    claimed = f"epsilon {claim.epsilon:.3g}, delta {claim.delta:.2g}"
    console.print(f"For comparison, StaSwitch's paper claims {claimed}: a claim only.")


def clock(slot: int) -> str:
    """Return the time of day of a half-hourly slot."""
    return f"{slot // 2:02d}:{slot % 2 * 30:02d}"
