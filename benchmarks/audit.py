"""The audit, and what the command line waits for when nothing is proved."""

from benchmarks.timing import Row, interleaved
from whenmask import PureSwitch, StaSwitch, audit
from whenmask.audit import measured_guarantee


def measure() -> list[Row]:
    """Time a whole audit of 100,000 trials, and a measured guarantee."""
    staswitch, pureswitch = StaSwitch(4, window=10, calibrate="claim"), PureSwitch(4, window=10)

    def guarantee() -> object:
        measured_guarantee.cache_clear()
        return measured_guarantee(staswitch, 4.0)

    jobs = {
        "audit of StaSwitch, window 10, 100,000 trials": lambda: audit(staswitch, against="claim"),
        "audit of PureSwitch, window 10, 100,000 trials": lambda: audit(pureswitch),
        "measured guarantee of StaSwitch, window 10": guarantee,
    }
    rows = []
    for name, (best, median) in interleaved(jobs, rounds=1).items():
        rows.append(Row(name, best, "s", 60.0 if "audit" in name else None, median))
    return rows
