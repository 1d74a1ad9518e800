"""How many instructions a kernel takes for a value: compared with those on record, since times never decide.

Kernels are compiled for a processor without extras (NUMBA_CPU_NAME=generic), and counted by callgrind, so that
the numbers are the same on every x86-64 machine with the same numba. Each is run on n and on 2n values; the
difference over n is free of what a call costs. `python -m benchmarks.instructions --record` puts them on record.
"""

import ctypes
import gc
import json
import mmap
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

from benchmarks.timing import Row

RECORD = Path(__file__).with_name("instructions.json")
TOLERANCE = 0.05
VALUES = 4096
ROUNDS = 4
WINDOW = 10
# The function that asks valgrind for something: it moves the address of the request to where valgrind looks,
# rotates a register by 128 bits in all, and exchanges one with itself, which nothing else does.
REQUEST = bytes.fromhex("4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3")
ZERO, DUMP, START, STOP = (0x43540000 + number for number in (1, 3, 4, 5))


def missing() -> str | None:
    """Say why nothing can be counted here, or None."""
    if platform.machine() not in ("x86_64", "AMD64") or not sys.platform.startswith("linux"):
        return "counts are on record for Linux on x86-64"
    if not shutil.which("valgrind"):
        return "valgrind is not installed"
    trial = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "true"]
    works = subprocess.run(trial, capture_output=True, check=False).returncode == 0
    return None if works else "valgrind does not run here"


def kernels() -> dict[str, Callable[[int], object]]:
    """Return for each kernel a function that runs it on so many values."""
    import numpy as np

    from whenmask import Key, PureSwitch
    from whenmask.kernels import dispatch, pure, switch, values
    from whenmask.keystream import Context, Keystream

    stream = Keystream(Key.for_testing(1), Context("instructions", None, "bench"))
    words, halves = stream.words(0, 4 * VALUES), stream.halves(0, 2 * VALUES)
    unit = 2**64 // 40
    stay = 2**64 - (WINDOW - 1) * unit
    none = halves[:0]
    offsets = switch.offsets(words, np.uint64(stay), np.uint64(unit))
    table = PureSwitch(2, window=WINDOW).table

    def switched(n: int, reach: int) -> object:
        law = switch.Law.of(stay, unit, WINDOW, reach)
        return switch.switch(halves[:n], none, np.arange(n + WINDOW), law, 0)

    def advanced(n: int) -> object:
        paths, place = np.zeros((2, table.top + 2), np.int64), np.zeros(3, np.int64)
        return pure.advance(words[: 2 * n], words[:0], table.guide, paths, np.empty(n, np.int64), place)

    def threshold(n: int) -> object:
        ring = np.full(WINDOW, -1)
        return dispatch.threshold(words[:n], 0, ring, np.arange(WINDOW), 5, np.uint64(2**64 - 1))

    def forward(n: int) -> object:
        return dispatch.forward(offsets[:n], 0, np.full(WINDOW, -1))

    def piecewise(n: int) -> object:
        cells = np.uint64(2**20)
        return values.piecewise(words[: 2 * n], np.zeros(n, np.int64), np.uint64(2**63), cells, cells)

    return {
        "RanSwitch": partial(switched, reach=-1),
        "StaSwitch": partial(switched, reach=WINDOW - 1),
        "offsets": lambda n: switch.offsets(words[:n], np.uint64(stay), np.uint64(unit)),
        "PureSwitch": advanced,
        "Threshold": threshold,
        "Forward": forward,
        "Piecewise": piecewise,
    }


def ask() -> Callable[..., None]:
    """Return a function that sends valgrind a request."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(REQUEST)
    code = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(ctypes.addressof(ctypes.c_char.from_buffer(page)))

    def request(number: int, text: bytes = b"") -> None:
        assert not page.closed  # it must live as long as the function does
        label = ctypes.create_string_buffer(text)
        arguments = (ctypes.c_size_t * 6)(number, ctypes.addressof(label))
        code(ctypes.addressof(arguments))

    return request


def run(counting: bool) -> None:
    """Run all kernels on n and 2n values: to compile them, or under valgrind with each run dumped by itself."""
    jobs = kernels()
    for job in jobs.values():
        job(VALUES)
    if not counting:
        return
    request = ask()
    gc.disable()
    request(START)
    for name, job in jobs.items():
        for values in (VALUES, 2 * VALUES):
            for _ in range(ROUNDS):
                request(ZERO)
                job(values)
                request(DUMP, f"{name} {values}".encode())
    request(STOP)


def count() -> dict[str, float]:
    """Return the instructions per value of each kernel."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "NUMBA_CPU_NAME": "generic",
            "NUMBA_CPU_FEATURES": "",
            "NUMBA_CACHE_DIR": f"{folder}/cache",
        }
        python = [sys.executable, "-m", "benchmarks.instructions"]
        tool = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out"]
        root = Path(__file__).parent.parent
        for command in ([*python, "--compile"], [*tool, *python, "--count"]):
            ran = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
            if ran.returncode:
                raise RuntimeError(f"{' '.join(command)} failed:\n{ran.stderr[-2000:]}")
        totals: dict[tuple[str, int], int] = {}
        for part in Path(folder).glob("out.*"):
            text = part.read_text()
            label = re.search(r"^desc: Trigger: Client Request: (.+) (\d+)$", text, re.MULTILINE)
            total = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
            if label and total:
                # The least of the rounds: some of them also pay for what the interpreter does now and then.
                which = label[1], int(label[2])
                totals[which] = min(int(total[1]), totals.get(which, int(total[1])))
    names = dict.fromkeys(name for name, _ in totals)
    return {name: round((totals[name, 2 * VALUES] - totals[name, VALUES]) / VALUES, 2) for name in sorted(names)}


def changed(counts: dict[str, float], record: dict[str, float]) -> list[str]:
    """Say which kernels take more or fewer instructions than those on record, by more than the tolerance."""
    lines = []
    for name in sorted({*counts, *record}):
        found, known = counts.get(name), record.get(name)
        if found is None or known is None:
            lines.append(f"{name}: {known} instructions per value on record; got {found}")
        elif abs(found - known) > TOLERANCE * known:
            lines.append(
                f"{name}: {known} instructions per value on record; got {found} ({found / known - 1:+.0%})"
            )
    return lines


def measure() -> list[Row]:
    """Count the instructions of the kernels beside those on record."""
    if missing():
        return []
    record = json.loads(RECORD.read_text())["instructions per value"]
    return [
        Row(name, found, "instructions/value", record.get(name, 0) * (1 + TOLERANCE))
        for name, found in count().items()
    ]


def main(argument: str) -> None:
    """Compile, count, or put on record."""
    if argument == "--record":
        made = {"numba": version("numba"), "instructions per value": count()}
        RECORD.write_text(json.dumps(made, indent=2) + "\n")
        print(RECORD.read_text())
    else:
        run(counting=argument == "--count")


if __name__ == "__main__":
    main(sys.argv[1])
