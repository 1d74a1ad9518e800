"""Many short series at once: the plans that each would have alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whenmask import Key, PureSwitch, RanSwitch, StaSwitch
from whenmask.kernels import pure, switch
from whenmask.keystream import Keystreams
from whenmask.mechanisms.oneway import Forward
from whenmask.mechanisms.temporal import Temporal
from whenmask.sampler import Together, draw_whole

KEY = Key.for_testing(5)
# The last of each kind waits so long that many series need further attempts, or are drawn alone in the end.
MECHANISMS: list[Temporal] = [
    RanSwitch(4, window=10),
    RanSwitch.from_probabilities(q=0.5, window=2),
    StaSwitch(2, window=6, calibrate="claim"),
    PureSwitch(6, window=10),
    PureSwitch(0.5, window=12),
    Forward(4, window=10, calibrate="claim"),
]


def alone(mechanism: Temporal, lengths: list[int], run: str) -> list[int]:
    """Return the plans of series 0, 1, … as each is drawn by itself."""
    plans = [mechanism.plan(n, key=KEY, series=one, run=run).source for one, n in enumerate(lengths)]
    return [source for plan in plans for source in plan.tolist()]


@given(
    mechanism=st.sampled_from(MECHANISMS),
    lengths=st.lists(st.integers(0, 40), max_size=12),
    run=st.text("ab", min_size=1),
)
def test_series_together_are_the_series_alone(mechanism: Temporal, lengths: list[int], run: str) -> None:
    """Whatever the mechanism, and however long or short the series."""
    keystreams = Keystreams(KEY, mechanism.identity, run)
    drawn = draw_whole(mechanism, keystreams, range(len(lengths)), np.array(lengths, dtype=np.int64))
    assert drawn.tolist() == alone(mechanism, lengths, run)


@pytest.mark.parametrize("mechanism", [m for m in MECHANISMS if isinstance(m, Together)], ids=repr)
def test_many_groups_of_series(mechanism: Temporal) -> None:
    """Series beyond one group, some of them in need of many steps."""
    lengths = [(7 * i) % 50 for i in range(2500)]
    keystreams = Keystreams(KEY, mechanism.identity, "groups")
    drawn = draw_whole(mechanism, keystreams, range(len(lengths)), np.array(lengths))
    assert drawn.tolist() == alone(mechanism, lengths, "groups")


def test_series_in_need_of_lower_halves_are_not_done() -> None:
    """Where a kernel cannot decide without spare words, it says so."""
    mechanism = PureSwitch(2, window=5)
    guide = mechanism.table.guide
    words = np.full(200, guide.stacked[0, 0, 0], dtype=np.uint64)
    columns, out = np.array([[100], [10], [0]]), np.empty(10, dtype=np.int64)
    for draw in pure.pure_series, pure.pure_series.py_func:
        assert not draw(words, columns, guide, np.empty(100, np.int64), out)[0]
    unit = 2**64 // 10
    stay = 2**64 - 4 * unit
    halves = np.full(100, stay >> 32, dtype=np.uint32)
    law = switch.Law.of(stay, unit, 5, -1)
    for kernel in switch.switch_series, switch.switch_series.py_func:
        assert not kernel(halves, columns, law, np.empty(104, np.int64), out)[0]
