"""Releasing tables: a Polars frame beside the sort it needs, and what series cost in batches."""

from dataclasses import replace

import numpy as np
import polars as pl

from benchmarks.timing import Row, interleaved
from whenmask import Key, RanSwitch
from whenmask.batches import release_batches
from whenmask.columns import Columns

MECHANISM = RanSwitch(4, window=48)
KEY = Key.for_testing(1)
ROWS = 10_000_000
BATCH = 1 << 17


def measure() -> list[Row]:
    """Time 10^7 rows of 10^4 series in a frame, and long and short series in batches."""
    rows = [frame(order, ids) for order in ("by time", "shuffled") for ids in ("number", "text")]
    # No target: this table needs no sort, which Polars finds in one pass.
    rows.append(replace(frame("by meter", "number"), target=None))
    return [*rows, *batches({"10^4 series of 1,000": (10_000, 1_000), "2·10^5 series of 48": (200_000, 48)})]


def table(series: int, length: int, order: str = "by meter") -> pl.DataFrame:
    """Return readings of so many meters, by meter, by time, or shuffled."""
    generator = np.random.default_rng(1)
    numbers = np.arange(series * length)
    if order == "shuffled":
        generator.shuffle(numbers)
    slot, meter = np.divmod(numbers, series) if order == "by time" else np.divmod(numbers, length)[::-1]
    moments = np.datetime64("2024-01-01", "us") + slot * np.timedelta64(30, "m")
    return pl.DataFrame({"meter": meter, "time": moments, "kwh": generator.random(numbers.size)})


def frame(order: str, ids: str) -> Row:
    """Compare the release of a frame with its sort, which the release does not make but has to match."""
    data = table(10_000, ROWS // 10_000, order)
    if ids == "text":
        data = data.with_columns(pl.format("MAC{}", pl.col("meter").cast(pl.String).str.zfill(6)).alias("meter"))
    jobs = {
        "sort": lambda: data.sort("meter", "time"),
        "release": lambda: MECHANISM.release(data, by="meter", time="time", key=KEY),
    }
    times = interleaved(jobs, rounds=3)
    best, median = (release / sort for release, sort in zip(times["release"], times["sort"], strict=True))
    return Row(f"Polars, 10^7 rows {order}, {ids} ids: release / sort", best, "ratio", 1.5, median)


def batches(shapes: dict[str, tuple[int, int]]) -> list[Row]:
    """Time releases of batches, per value and per series."""
    columns = Columns(by=("meter",), time="time")

    def job(batches):
        for _ in release_batches(batches, MECHANISM, columns, key=KEY):
            pass

    rows = []
    for name, (series, length) in shapes.items():
        parts = table(series, length).to_arrow().to_batches(max_chunksize=BATCH)
        best, median = interleaved({name: lambda parts=parts: job(parts)}, rounds=3)[name]
        rows.append(
            Row(f"batches, {name}", best / series / length * 1e9, "ns/value", None, median / series / length * 1e9)
        )
        rows.append(Row(f"batches, {name}", best / series * 1e6, "µs/series", None, median / series * 1e6))
    return rows
