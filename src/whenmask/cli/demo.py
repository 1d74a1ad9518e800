"""`whenmask demo`: the main job on a small example, and what it did."""

import csv
import datetime as dt
import json
import math
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from whenmask import Key, PureSwitch, StaSwitch
from whenmask.cli.show import bound
from whenmask.errors import FileError
from whenmask.keystream import Context, Keystream

# Half-hourly consumption of a made-up household in Wh: sleep, a shower, an empty house, dinner, television.
SHAPE = [(14, 60), (3, 240), (2, 900), (13, 110), (4, 420), (3, 1900), (6, 510), (3, 130)]
WINDOW = 24
EPSILON = 6
BAR = 12
HOUSEHOLDS = 20
DAYS = 14
START = dt.datetime(2024, 1, 1)


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


def demo(*, write: Path | None = None) -> None:
    """Release one day of meter readings and show what it did.

    Example: `whenmask demo`

    Args:
        write: Write a made-up table of 20 households over two weeks instead, to try other commands on: as JSON
            lines if the name ends in .jsonl, else as CSV.
    """
    if write is not None:
        write_readings(write)
        return
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
    proved = f"epsilon {bound(guarantee.epsilon)}, delta {bound(guarantee.delta)}, {guarantee.basis}"
    console.print(f"Guaranteed by PureSwitch: {proved}.")
    claimed = f"epsilon {bound(claim.epsilon)}, delta {bound(claim.delta)}"
    console.print(f"For comparison, StaSwitch's paper claims {claimed}: a claim only.")


def write_readings(path: Path) -> None:
    """Write half-hourly readings of several households, with the running total that their meters show as well."""
    try:
        with path.open("x", newline="", encoding="utf-8") as file:
            if path.suffix == ".jsonl":
                for meter, time, kwh, total in readings():
                    row = {"meter": meter, "time": time, "kwh": float(kwh), "total": float(total)}
                    file.write(json.dumps(row) + "\n")
            else:
                lines = csv.writer(file)
                lines.writerow(["meter", "time", "kwh", "total"])
                lines.writerows(readings())
    except OSError as error:
        hint = "an existing file is never overwritten"
        raise FileError("the table cannot be written", error.strerror, hint) from None
    rows = HOUSEHOLDS * DAYS * 48
    Console(highlight=False).print(f"{rows:,} readings of {HOUSEHOLDS} made-up households are in {path.name}.")


def readings() -> Iterator[tuple[str, str, str, str]]:
    """Return meter, time, kWh of the half hour, and kWh in all: the same ones every time."""
    day = [level for length, level in SHAPE for _ in range(length)]
    for number in range(HOUSEHOLDS):
        meter, watt_hours = f"M{number:02d}", 1000 * number
        words = Keystream(Key.for_testing(0), Context("demo", meter, "demo")).words(0, DAYS * len(day)).tolist()
        for slot, word in enumerate(words):
            # Habits differ by up to three hours, and no two half hours are alike.
            kwh = day[(slot + number % 7 - 3) % len(day)] * (50 + word % 101) // 100 + word % 13
            watt_hours += kwh
            time = START + dt.timedelta(minutes=30 * slot)
            yield meter, time.isoformat(" "), f"{kwh / 1000:.3f}", f"{watt_hours / 1000:.3f}"


def clock(slot: int) -> str:
    """Return the time of day of a half-hourly slot."""
    return f"{slot // 2:02d}:{slot % 2 * 30:02d}"
