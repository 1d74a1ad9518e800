"""Releasing files: against what DuckDB takes to read, order and write the same file, in the same run.

Targets, at 10^8 rows (10,000 series of 10,000 values): at most 3 times that, in at most 2 GB. Every measurement is
a process of its own, as people run it. Text takes long, and is measured on a tenth of the rows.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

from benchmarks.timing import Row

LENGTH = 10_000
LARGE, SMALL = 10_000, 1_000
MEMORY = "1400MiB"
ALONE = "DuckDB alone: read, order, write"


def make(path: Path, order: str, series: int) -> None:
    """Write readings of so many meters, sorted or shuffled."""
    rows = series * LENGTH
    # Multiplying by a number without a common divisor visits every row once.
    row = "i" if order == "sorted" else f"(i * 7919) % {rows}"
    query = f"""
        SELECT row // {LENGTH} AS meter, TIMESTAMP '2024-01-01' + INTERVAL 30 MINUTE * (row % {LENGTH}) AS time,
            (hash(row) % 21475) / 1000 AS kwh
        FROM (SELECT {row} AS row FROM range({rows}) AS numbers(i))
    """  # noqa: S608 - numbers only
    with duckdb.connect(config={"memory_limit": MEMORY}) as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")


def order(source: str, output: str, spill: str) -> None:
    """Read, order and write with DuckDB alone."""
    with duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": spill}) as connection:
        connection.execute(f"COPY (FROM '{source}' ORDER BY meter, time) TO '{output}' (FORMAT parquet)")


def measured(*command: str) -> tuple[float, float]:
    """Return the seconds and peak megabytes of a process, started by a small one so that the peak is its own."""
    code = (
        "import resource, subprocess, sys, time; start = time.perf_counter();"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
        "print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6)"
    )
    ran = subprocess.run([sys.executable, "-c", code, *command], check=True, capture_output=True, text=True)
    seconds, peak = map(float, ran.stdout.split())
    return seconds, peak


def release(source: Path, output: Path, *more: str) -> tuple[str, ...]:
    """Return the command of a release."""
    options = ("--by", "meter", "--time", "time", "--epsilon", "4", "--memory", "2GB", "--quiet", "--force", *more)
    return (sys.executable, "-m", "whenmask", "release", str(source), "-o", str(output), *options)


def measure() -> list[Row]:
    """Compare releases with DuckDB's own ordering."""
    with tempfile.TemporaryDirectory() as name:
        return [*large(Path(name)), *small(Path(name))]


def large(folder: Path) -> list[Row]:
    """Release 10^8 rows as Parquet, sorted and shuffled."""
    source, shuffled, output = (folder / f"{name}.parquet" for name in ("sorted", "shuffled", "a"))
    make(source, "sorted", LARGE)
    make(shuffled, "shuffled", LARGE)
    window = ("--window", "48")
    jobs = {
        ALONE: alone(source, folder),
        "release, sorted, PureSwitch": release(source, output, *window),
        "release, sorted, RanSwitch": release(source, output, *window, "--mechanism", "RanSwitch"),
        "release, window of 24h": release(source, output, "--window", "24h"),
        "release, shuffled": release(shuffled, output, *window),
    }
    return compared(jobs, LARGE, rounds=1, target=3.0)


def small(folder: Path) -> list[Row]:
    """Release 10^7 rows as text."""
    source, first, second = folder / "small.parquet", folder / "a.csv", folder / "b.csv"
    make(source, "sorted", SMALL)
    window = ("--window", "48")
    jobs = {
        ALONE: alone(source, folder),
        "release, Parquet": release(source, folder / "b.parquet", *window),
        "release, with a report": release(
            source, folder / "b.parquet", *window, "--report", str(folder / "r.html")
        ),
        "release, Parquet to CSV": release(source, first, *window),
        "release, CSV to CSV": release(first, second, *window),
    }
    return compared(jobs, SMALL, rounds=2, target=None)


def alone(source: Path, folder: Path) -> tuple[str, ...]:
    """Return the command of DuckDB alone."""
    return (sys.executable, "-m", "benchmarks.files", str(source), str(folder / "o"), str(folder / "s"))


def compared(jobs: dict[str, tuple[str, ...]], series: int, *, rounds: int, target: float | None) -> list[Row]:
    """Return times as multiples of DuckDB's, and peaks of memory; only what is sorted has a target of time."""
    found = {name: [measured(*command) for _ in range(rounds)] for name, command in jobs.items()}
    base = min(seconds for seconds, _ in found.pop(ALONE))
    rows = [Row(f"{ALONE}, {series * LENGTH:,} rows", base, "s")]
    for name, times in found.items():
        aim = None if "shuffled" in name else target
        rows.append(Row(f"{name}: time / DuckDB's", min(times)[0] / base, "ratio", aim))
        rows.append(Row(f"{name}: peak memory", max(peak for _, peak in times) / 1000, "GB", 2.0))
    return rows


if __name__ == "__main__":
    order(*sys.argv[1:])
