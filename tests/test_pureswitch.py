"""PureSwitch: one release however it is drawn, the Gibbs law, its guarantee, costs, waits, bad input."""

import subprocess
import sys
from contextlib import contextmanager
from itertools import permutations
from math import factorial, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chisquare import ERROR_LEVEL, displacement_counts, p_value
from tests.naive_pure import finished, naive_pure, partial_plans, weight
from whenmask import Key
from whenmask.errors import ParameterError
from whenmask.kernels import choices
from whenmask.kernels import pure as kernels
from whenmask.kernels.guide import ASK, Guide
from whenmask.kernels.kinds import CHANGES
from whenmask.keystream import SPARE, Context, Keystream
from whenmask.mechanisms import waiting
from whenmask.mechanisms.gibbs import HIGHEST
from whenmask.mechanisms.paths import BEHIND, MOST_AHEAD, STEP_WORDS, PureDraw, PureWalk
from whenmask.mechanisms.pureswitch import PureSwitch
from whenmask.plan import CHUNK

KEY = Key.for_testing(4)
# Expected cost per timestamp, computed independently (docs/guarantees.md, section 4).
COSTS: dict[int, dict[float, float]] = {
    10: {1: 17.69, 2: 8.68, 3: 5.66, 4: 4.15, 4.5: 3.02, 5: 1.95, 6: 0.738, 7: 0.272, 8: 0.100, 9: 0.0368,
         10: 0.0135, 12: 0.0018},
    48: {2: 46.7, 4: 23.2, 6: 15.4, 7: 7.28, 8: 2.73, 9: 1.01, 10: 0.371, 12: 0.050},
}  # fmt: skip
LAST = 2**64 - 1


def integers(mechanism: PureSwitch) -> list[list[int]]:
    """Return the stacked integers of each height."""
    upper, lower = (part.tolist() for part in mechanism.table.stacked)
    return [[(u << 64) | v for u, v in zip(*rows, strict=True)] for rows in zip(upper, lower, strict=True)]


class Words:
    """A keystream of chosen words, then of testing ones; or one word at a time, for the twin."""

    def __init__(self, mechanism: PureSwitch, run: str, chosen: list[int] | None = None) -> None:
        self._rest = Keystream(KEY, Context(mechanism.identity, None, run))
        # An integer of 128 bits each; the lower halves are spare words.
        parts = [divmod(z, 2**64) for z in chosen or []]
        self._chosen = np.array(parts, dtype=np.uint64).reshape(-1, 2)

    def words(self, first: int, count: int) -> np.ndarray:
        """Return words as a keystream does."""
        read = self._rest.words(first, count)
        spare = first >= SPARE
        some = self._chosen[first - spare * SPARE :][:count, int(spare)]
        read[: some.size] = some
        return read

    def __call__(self, i: int) -> int:
        """Return one word."""
        return int(self.words(i, 1)[0])


@contextmanager
def interpreted():
    """Run the source of the kernels in place of what is compiled from it."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (kernels, choices):
            for name, function in list(vars(module).items()):
                if hasattr(function, "py_func"):
                    patch.setattr(module, name, function.py_func)
        yield


@st.composite
def mechanisms(draw):
    """Any PureSwitch whose typical height is small enough for the slow twin."""
    window = draw(st.integers(2, 12))
    if draw(st.booleans()):
        return PureSwitch(draw(st.floats(1.0, 50.0)), window=window)
    theta, a = draw(st.floats(0.05, 3.0)), draw(st.just(0.0) | st.floats(0.0, 5.0))
    return PureSwitch.from_parameters(theta=theta, a=a, window=window)


@given(mechanism=mechanisms(), n=st.integers(0, 50), run=st.text(min_size=1), data=st.data())
def test_one_release_however_it_is_drawn(mechanism, n: int, run: str, data) -> None:
    """Twin, plan, draw in chunks, stream by values, stream in chunks with a restart anywhere: all the same."""
    expected = naive_pure(n, integers(mechanism), Words(mechanism, run))
    assert sorted(expected) == list(range(n))
    assert mechanism.plan(n, key=KEY, run=run).source.tolist() == expected

    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=5)))
    draw = mechanism.draw(Keystream(KEY, Context(mechanism.identity, None, run)))
    drawn = [draw.push(stop - start) for start, stop in zip([0, *cuts], [*cuts, n], strict=True)]
    assert np.concatenate([*drawn, draw.finish()]).tolist() == expected

    stream = mechanism.stream(key=KEY, run=run)
    assert [value for i in range(n) for value in stream.push(i)] + stream.flush() == expected

    stream, released = mechanism.stream(key=KEY, run=run), []
    for start, stop in zip([0, *cuts], [*cuts, n], strict=True):
        released += stream.push_many(range(start, stop))
        stream = mechanism.stream(key=KEY).restore(stream.snapshot())
    assert released + stream.flush() == expected
    assert mechanism.stream(key=KEY).restore(stream.snapshot()).flush() == []


@settings(max_examples=300)
@given(data=st.data())
def test_words_on_the_edge_are_read_alike(data) -> None:
    """Words equal to thresholds, and words that carry from one to the next, mean the same to twin and samplers."""
    mechanism = PureSwitch(data.draw(st.sampled_from([1.0, 2.0, 6.0, 50.0])), window=data.draw(st.integers(2, 10)))
    bounds = sorted({bound for row in integers(mechanism)[:4] for bound in row})
    kind = (
        st.sampled_from(bounds) | st.sampled_from(bounds).map(lambda z: max(z - 1, 0)) | st.integers(0, 2**128 - 1)
    )
    # The last words for one choice and the first for the next, among as many choices as there are at low heights.
    ways = st.tuples(st.sampled_from([2, 3, 6, 12]), st.integers(1, 12))
    pick = ways.map(lambda pair: (2**128 * (pair[1] % pair[0]) - 1) // pair[0] % 2**128)
    pick = pick | pick.map(lambda z: (z + 1) % 2**128) | st.integers(0, 2**128 - 1)
    steps = data.draw(st.lists(st.tuples(kind, pick), min_size=5, max_size=40))
    words = Words(mechanism, "edge", [z for step in steps for z in step])
    n = len(steps)
    expected = naive_pure(n, integers(mechanism), words)

    draw = PureDraw(mechanism.table, words)  # type: ignore[arg-type]
    assert [*draw.push(n).tolist(), *draw.finish().tolist()] == expected
    walk = PureWalk(mechanism.table, words)  # type: ignore[arg-type]
    assert [source for _ in range(n) for source in walk.push()] + walk.finish() == expected


@given(
    first=st.integers(0, LAST) | st.integers(LAST - 300, LAST) | st.integers(0, 300),
    second=st.integers(0, LAST) | st.integers(LAST - 300, LAST),
    height=st.integers(2, 2**21),
    near=st.integers(0, 2**42),
)
def test_picks_are_those_of_whole_integers(first: int, second: int, height: int, near: int) -> None:
    """Products of words, with what they carry, are those of integers of 128 bits, also just below a carry."""
    for ways in (height, height * (height - 1)):
        # The first word next to which a carry decides.
        edge = ((near % ways + 1) * 2**64 - 1) // ways
        for word in (first, edge):
            z = (word << 64) | second
            b, c = divmod(z * height * (height - 1) >> 128, height - 1)
            expected: Any = (z * height >> 128, (b, c + (c >= b)))
            args: Any = np.uint64(word), np.uint64(second), height
            assert (choices.pick(*args), choices.pick_pair(*args)) == expected
            with interpreted():
                assert (choices.pick(*args), choices.pick_pair(*args)) == expected
                assert tuple(map(int, choices.wide(*args[:2]))) == divmod(word * second, 2**64)


def test_the_kernel_in_plain_python_does_the_same() -> None:
    """The compiled loops and their source agree: draws, partial plans and their log-probabilities."""
    mechanism = PureSwitch(2, window=5)
    read, guide = Words(mechanism, "plain").words, mechanism.table.guide
    words, spares = read(0, 2 * 300), read(SPARE, 2 * 300)
    logs = np.log(np.arange(1.0, 6 * 20 + 1)).reshape(6, 20)

    def results() -> list:
        paths = np.zeros((2, mechanism.table.top + 2), np.int64)
        work, place = np.zeros(300, np.int64), np.zeros(3, np.int64)
        kernels.advance(words, spares[:0], guide, paths, work, place)
        prefixes, totals = np.empty((31, 9), np.int64), np.empty(31)
        kernels.rehearse(words, spares, guide, prefixes[:30])
        prefixes[30] = 0
        kernels.weigh_all(prefixes, logs, totals)
        opens = kernels.first_open(paths, place)
        return [work.tolist(), place.tolist(), prefixes.tolist(), totals.tolist(), opens]

    compiled = results()
    with interpreted(), np.errstate(over="ignore"):
        assert results() == compiled


@pytest.mark.parametrize("mechanism", [PureSwitch(2, window=5), PureSwitch(1, window=300)], ids=repr)
@pytest.mark.parametrize("spared", [False, True])
def test_blocks_go_as_far_as_single_steps(mechanism: PureSwitch, spared: bool) -> None:
    """Wherever a spare word may decide, in or between blocks, fast loops stop or go on as the plain one does."""
    steps, guide = 5 * kernels.BLOCK + 3, mechanism.table.guide
    read = Words(mechanism, "blocks").words
    words, spares = read(0, 2 * steps), read(SPARE, 2 * steps)
    for begin in (0, 1, kernels.BLOCK - 1, kernels.BLOCK, 2 * kernels.BLOCK + 7):
        planted = words.copy()
        # The greatest word leaves every choice of a path open, and a bound that of the kind.
        planted[2 * begin + 1 :: 2 * 37] = 2**64 - 1
        planted[2 * begin + 2 * kernels.BLOCK :: 2 * 61] = guide.stacked[0, 3, 2]
        done = []
        for function in (kernels.advance, kernels.advance_one_by_one):
            paths = np.zeros((2, guide.stacked.shape[1] + 1), np.int64)
            work, place = np.full(steps, -7), np.zeros(3, np.int64)
            function(planted, spares if spared else spares[:0], guide, paths, work, place)
            done.append((place.tolist(), work[: place[1]].tolist(), paths[:, : place[0]].tolist()))
        assert done[0] == done[1]
        assert spared == (done[0][0][1] == steps)


@given(data=st.data())
def test_a_guide_knows_what_every_word_of_a_cell_chooses(data) -> None:
    """At the ends of each cell, next to which bounds are planted, it says what the bounds say, or asks."""
    shift, heights = 57, data.draw(st.integers(1, 40))
    edges = st.builds(
        lambda cell, by: min(max((cell << shift) + by, 0), 2**64 - 1),
        st.integers(0, 128),
        st.sampled_from([-2, -1, 0, 1]),
    )
    rows = data.draw(
        st.lists(st.lists(edges, min_size=5, max_size=5).map(sorted), min_size=heights, max_size=heights)
    )
    limits = np.array(rows, dtype=np.uint64)
    guide = Guide.of(np.stack([limits, limits]), np.full(heights, 1 / heights))
    known = 0
    for cell in range(1 << (64 - guide.shift)):
        for row in range(min(guide.rows, heights - guide.low)):
            kind = guide.kinds[cell * guide.rows + row]
            if kind == ASK:
                continue
            known += 1
            for word in (cell << guide.shift, (cell + 1 << guide.shift) - 1):
                assert kind == sum(word > bound for bound in rows[guide.low + row])
                assert word not in rows[guide.low + row]
            assert guide.nexts[cell * guide.rows + row] == row + CHANGES[kind]
    assert known or heights < 3


@pytest.mark.parametrize(
    ("epsilon", "window", "n"), [(2, 10, 3 * CHUNK + 7), (8, 48, BEHIND * 5), (1, 300, 10 * MOST_AHEAD + 3)]
)
def test_long_series_and_wide_windows_are_drawn_alike(epsilon: float, window: int, n: int) -> None:
    """Plan, draw in uneven chunks and stream agree across the seams of buffers, read-ahead and compaction."""
    mechanism = PureSwitch(epsilon, window=window)
    plan = mechanism.plan(n, key=KEY, run="long")
    assert sorted(plan.source.tolist()) == list(range(n))
    stream = mechanism.stream(key=KEY, run="long")
    assert stream.push_many(range(n)) + stream.flush() == plan.source.tolist()
    draw = mechanism.draw(Keystream(KEY, Context(mechanism.identity, None, "long")))
    pieces = [draw.push(count) for count in (1, 0, 17, n // 2, n - 18 - n // 2)]
    assert (np.concatenate([*pieces, draw.finish()]) == plan.source).all()


def test_a_stream_does_not_import_numba() -> None:
    """Choosing parameters, streaming and snapshots work without the compiler."""
    code = (
        "import sys\n"
        "from whenmask.mechanisms.pureswitch import PureSwitch\n"
        "s = PureSwitch(3, window=7).stream()\n"
        "n = len(s.push_many(range(50)))\n"
        "s.restore(s.snapshot())\n"
        "assert n + len(s.flush()) == 50 and 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ----------------------------------------------------------------------------------------------- law and guarantee

GIBBS = [(0.4, 0.7, 3), (0.9, 0.0, 2), (0.15, 1.5, 4)]


@pytest.mark.parametrize(("theta", "a", "window"), GIBBS)
def test_complete_plans_have_the_gibbs_law(theta: float, a: float, window: int) -> None:
    """For every n ≤ 6 the probabilities of complete plans, from the integers in use, are as their weights."""
    mechanism = PureSwitch.from_parameters(theta=theta, a=a, window=window)
    for n in range(1, 7):
        plans = np.array(list(permutations(range(n))))
        logs = mechanism.log_probabilities(plans)
        expected = np.array([log(weight(plan, theta, a)) for plan in plans.tolist()])
        assert np.ptp(logs - expected) < 1e-12
        assert np.exp(logs).sum() < 1


@pytest.mark.parametrize(("theta", "a", "window"), GIBBS)
def test_partial_plans_have_probability_one_together(theta: float, a: float, window: int) -> None:
    """The probabilities of all partial plans add up to one, so the complete ones are not off by a factor."""
    mechanism = PureSwitch.from_parameters(theta=theta, a=a, window=window)
    for n in range(1, 5):
        probabilities = np.exp(mechanism.log_probabilities(np.array(partial_plans(n))))
        assert probabilities.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(("epsilon", "window"), [(1.0, 3), (3.0, 4), (6.0, 3), (0.3, 2), (2.0, 6), (20.0, 3)])
def test_largest_log_ratio_is_the_guarantee(epsilon: float, window: int) -> None:
    """Over all plans of six values and all neighbours the worst log ratio is epsilon, but for the margin."""
    mechanism = PureSwitch(epsilon, window=window)
    plans = np.array(list(permutations(range(6))))
    logs = mechanism.log_probabilities(plans)
    worst = 0.0
    for i in range(6):
        for j in range(i + 1, min(6, i + window)):
            exchanged = np.arange(6)
            exchanged[[i, j]] = j, i
            worst = max(worst, np.abs(logs - mechanism.log_probabilities(exchanged[plans])).max())
    guarantee = mechanism.guarantee
    assert guarantee.epsilon - 1e-9 < worst <= guarantee.epsilon <= epsilon
    assert guarantee.delta < 1.1e-30
    assert (guarantee.window, guarantee.basis, mechanism.claim) == (window, "proved", None)


def test_impossible_partial_plans_have_no_probability() -> None:
    """A source that occurs twice, one beyond the end, and heights above the table are impossible."""
    mechanism = PureSwitch(50, window=2)
    top = mechanism.table.top
    prefixes = np.full((3, top + 2), -2)
    prefixes[0, :2] = 0
    prefixes[1, 0] = top + 2
    assert (mechanism.log_probabilities(prefixes) == -np.inf).all()
    assert mechanism.log_probabilities(prefixes[2:, :top])[0] > -np.inf
    with pytest.raises(ParameterError, match="array of trials × steps"):
        mechanism.log_probabilities(prefixes[0])


@pytest.mark.parametrize(("theta", "a", "window"), GIBBS)
def test_partial_plans_are_drawn_with_their_probability(theta: float, a: float, window: int) -> None:
    """100,000 partial plans of three steps follow their probabilities (error level 1e-6); a wrong θ or a shows."""
    mechanism = PureSwitch.from_parameters(theta=theta, a=a, window=window)
    plans = partial_plans(3)
    drawn = mechanism.prefixes(100_000, 3, key=KEY)
    numbers = {plan: i for i, plan in enumerate(plans)}
    counts = np.bincount([numbers[tuple(row)] for row in drawn.tolist()], minlength=len(plans))
    assert p_value(counts, np.exp(mechanism.log_probabilities(np.array(plans)))) > ERROR_LEVEL
    for wrong in ({"theta": 1.1 * theta, "a": a}, {"theta": theta, "a": a + 0.1}):
        other = PureSwitch.from_parameters(**wrong, window=window)
        assert p_value(counts, np.exp(other.log_probabilities(np.array(plans)))) < ERROR_LEVEL


def test_given_no_open_slot_plans_follow_the_gibbs_law() -> None:
    """Of 400,000 partial plans of four steps the complete ones follow the weights (error level 1e-6)."""
    theta, a = 0.4, 0.7
    drawn = PureSwitch.from_parameters(theta=theta, a=a, window=3).prefixes(400_000, 4, key=KEY)
    complete = drawn[(drawn >= 0).all(axis=1)]
    plans = list(permutations(range(4)))
    numbers = {plan: i for i, plan in enumerate(plans)}
    counts = np.bincount([numbers[tuple(row)] for row in complete.tolist()], minlength=24)
    assert counts.sum() > 50_000

    def law(theta: float, a: float) -> np.ndarray:
        weights = np.array([weight(plan, theta, a) for plan in plans])
        return weights / weights.sum()

    assert p_value(counts, law(theta, a)) > ERROR_LEVEL
    assert p_value(counts, law(1.1 * theta, a)) < ERROR_LEVEL
    assert p_value(counts, law(theta, a + 0.1)) < ERROR_LEVEL


def test_short_series_follow_the_chain_with_the_end_rule() -> None:
    """30,000 plans of three values follow the law that all choices and the end rule make (error level 1e-6)."""
    mechanism = PureSwitch.from_parameters(theta=0.4, a=0.7, window=3)
    releases: list[tuple[int, ...]] = list(permutations(range(3)))
    law, wrong = dict.fromkeys(releases, 0.0), dict.fromkeys(releases, 0.0)
    partial = partial_plans(3)
    chances = np.exp(mechanism.log_probabilities(np.array(partial))).tolist()
    for plan, chance in zip(partial, chances, strict=True):
        ends = finished(plan)
        for release in ends:
            law[release] += chance / len(ends)
        wrong[min(ends)] += chance  # an end rule that releases what waits in order of arrival
    assert sum(law.values()) == pytest.approx(1)
    drawn = [tuple(mechanism.plan(3, key=KEY, run=f"{i}").source.tolist()) for i in range(30_000)]
    counts = [drawn.count(release) for release in releases]
    assert p_value(counts, list(law.values())) > ERROR_LEVEL
    assert p_value(counts, list(wrong.values())) < ERROR_LEVEL


# ------------------------------------------------------------------------------------------- costs, waits, latency


@pytest.mark.parametrize(
    ("window", "epsilon"), [(window, epsilon) for window in COSTS for epsilon in COSTS[window]]
)
def test_expected_costs_are_those_of_the_table(window: int, epsilon: float) -> None:
    """The expected cost agrees with figures computed independently, to the digits given or 1%."""
    cost = PureSwitch(epsilon, window=window).expected_cost()
    printed = COSTS[window][epsilon]
    assert cost == pytest.approx(printed, rel=0.01, abs=0.00005)


def batch_error(samples: np.ndarray, batches: int = 100) -> float:
    """Return the standard error of a mean of dependent samples, from the means of long stretches."""
    means = samples[: samples.size // batches * batches].reshape(batches, -1).mean(axis=1)
    return float(means.std(ddof=1) / batches**0.5)


@pytest.mark.parametrize(("epsilon", "window"), [(2, 10), (6, 10), (8, 48)])
def test_cost_and_latency_agree_with_simulation(epsilon: float, window: int) -> None:
    """Over many slots mean distance, mean wait and the 99th percentile are as computed (error level 1e-6)."""
    mechanism = PureSwitch(epsilon, window=window)
    source = mechanism.plan(1_500_000, key=KEY, run="costs").source[:-10_000]
    slots = np.arange(source.size)
    distance = np.abs(source - slots).astype(float)
    waits = np.maximum.accumulate(source) - slots
    # Five standard errors is an error level of 6e-7; a cost or a wait that is 10% off is farther away.
    for samples, expected in [(distance, mechanism.expected_cost()), (waits, mechanism.latency.mean)]:
        error = batch_error(samples)
        assert abs(samples.mean() - expected) < 5 * error < 0.05 * expected
    late = mechanism.latency_quantile(0.99)
    for bound, share in [(late, 0.01), (late - 1, 0.01)]:
        beyond = (waits > bound).astype(float)
        slack = 5 * batch_error(beyond)
        assert beyond.mean() < share + slack if bound == late else beyond.mean() > share - slack
    assert mechanism.latency.p99 == late
    assert mechanism.latency.most is None


def test_latency_of_many_waiting_slots_is_close() -> None:
    """Where the latency is approximate it is within 1% of the exact computation of the same table."""
    table = PureSwitch(2, window=100).table
    exact = waiting._exact_tail(table)
    assert table.top <= waiting.EXACT_HEIGHT
    slow = waiting.modes(table, waiting.SLOWEST)
    grid = np.arange(exact.size)
    tail = np.array([-np.expm1(-slow.lasting(float(wait), 2)) for wait in grid])
    assert tail.sum() == pytest.approx(exact.sum(), rel=0.01)
    assert np.argmax(tail <= 0.01) == pytest.approx(np.argmax(exact <= 0.01), rel=0.01)
    wide = waiting.slot_waits(PureSwitch(1, window=300).table)
    assert "approximate" in wide.basis
    assert wide.mean < wide.quantile(0.99) < wide.quantile(0.9999)


@pytest.mark.parametrize(("epsilon", "window"), [(2, 10), (3, 4), (6, 48), (0.5, 2), (50, 2)])
def test_law_is_symmetric_and_complete(epsilon: float, window: int) -> None:
    """P_d sums to one, equals P_−d, and its mean distance is the expected cost."""
    mechanism = PureSwitch(epsilon, window=window)
    law = mechanism.law()
    assert law.probabilities.sum() + law.rest == pytest.approx(1, abs=1e-13)
    assert law.rest < 1e-12
    assert (law.probabilities == law.probabilities[::-1]).all()
    assert law.mean_distance == pytest.approx(mechanism.expected_cost(), rel=1e-7, abs=1e-11)


@pytest.mark.parametrize(("epsilon", "window", "spacing"), [(3, 4, 40), (6, 10, 100)])
def test_law_agrees_with_simulation(epsilon: float, window: int, spacing: int) -> None:
    """Displacements at distant slots follow P_d (error level 1e-6); a law of 10% more budget is refused."""
    mechanism = PureSwitch(epsilon, window=window)
    law, wrong = mechanism.law(), PureSwitch(1.1 * epsilon, window=window).law()
    source = np.concatenate(
        [mechanism.plan(1_000_000, key=KEY, run=f"law {i}").source + i * 1_000_000 for i in range(2)]
    )
    counts = displacement_counts(source, law, spacing)
    assert p_value(counts, [*law.probabilities, law.rest]) > ERROR_LEVEL
    others = [wrong.probability(int(d)) for d in law.displacements]
    assert p_value(counts, [*others, max(1 - sum(others), 1e-12)]) < ERROR_LEVEL


def test_delays_cover_the_clock() -> None:
    """The bound on early values covers every value from the first on, and is close away from the start."""
    mechanism = PureSwitch(3, window=4)
    steps, trials = 80, 100_000
    drawn = mechanism.prefixes(trials, steps, key=KEY)
    rows, slots = np.nonzero(drawn >= 0)
    values = drawn[rows, slots]
    early = values - slots
    bounds = [bound for bound, _ in zip(waiting.early_tails(mechanism.table), range(12), strict=False)]
    for x, bound in enumerate(bounds):
        shares = np.bincount(values[early > x], minlength=steps) / trials
        assert shares.max() < bound + 6 * (bound / trials) ** 0.5
        assert shares[40:].mean() > 0.9 * bound
    delta = mechanism.timing_delta(10)
    assert delta == pytest.approx(bounds[7] + bounds[10], rel=1e-12)
    assert mechanism.safe_delay(delta) == 10
    assert mechanism.safe_delay(delta * 0.999) == 11
    assert mechanism.timing_delta(2) == 1


# ---------------------------------------------------------------------------------------- ranges, names, bad input


@pytest.mark.parametrize("window", [2, 3, 10, 100])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 50])
def test_the_whole_range_works(window: int, epsilon: float) -> None:
    """From the smallest to the largest budget: series of any length come out whole; cost falls with epsilon."""
    mechanism = PureSwitch(epsilon, window=window)
    for n in (0, 1, 2, 1000):
        assert sorted(mechanism.plan(n, key=KEY).source.tolist()) == list(range(n))
    assert 0 < mechanism.expected_cost() < 2.001 * (window - 1) / epsilon
    assert mechanism.latency.mean > 0


def test_the_widest_window_works() -> None:
    """Window 10,000: a plan comes out whole, cost and latency are as large as they must be."""
    mechanism = PureSwitch(1, window=10_000)
    assert sorted(mechanism.plan(30_000, key=KEY).source.tolist()) == list(range(30_000))
    assert mechanism.expected_cost() == pytest.approx(2 * 9999, rel=1e-3)
    assert mechanism.latency.p99 > 100_000


def test_two_parameters_fix_the_mechanism() -> None:
    """Name, repr and parameters say which law it is, exactly; equal parameters are equal mechanisms."""
    mechanism = PureSwitch(6, window=10)
    same = PureSwitch.from_parameters(theta=mechanism.theta, a=mechanism.a, window=10)
    assert same == mechanism == eval(repr(mechanism))  # noqa: S307 - its own repr
    assert same.identity == mechanism.identity
    assert mechanism.identity != PureSwitch(6, window=11).identity
    assert mechanism.parameters == {"theta": mechanism.theta, "a": mechanism.a}
    assert mechanism.plan(50, key=KEY, run="x").source.tolist() == same.plan(50, key=KEY, run="x").source.tolist()


def test_more_than_the_largest_budget_changes_nothing() -> None:
    """Beyond epsilon 50 the mechanism stays that of 50, and so does its guarantee."""
    assert PureSwitch(80, window=10).guarantee.epsilon <= 50


def test_partial_plans_do_not_depend_on_how_many_are_drawn() -> None:
    """The first of many partial plans are those of few, across the seam of the stretches they are drawn in."""
    mechanism = PureSwitch(2, window=5)
    many = mechanism.prefixes(60_000, 5, key=KEY)
    assert (many[:50] == mechanism.prefixes(50, 5, key=KEY)).all()
    assert len(np.unique(many[-1000:], axis=0)) > 50


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PureSwitch(0, window=10), "epsilon"),
        (lambda: PureSwitch(float("nan"), window=10), "epsilon"),
        (lambda: PureSwitch("2", window=10), "epsilon"),  # type: ignore[arg-type]
        (lambda: PureSwitch(2, window=1), "window"),
        (lambda: PureSwitch(2, window=2.5), "window"),  # type: ignore[arg-type]
        (
            lambda: PureSwitch(0.001, window=10_000),
            "`epsilon` is too small for the window; got epsilon=0.001. Hint",
        ),
        (lambda: PureSwitch.from_parameters(theta=0, a=1, window=10), "theta"),
        (lambda: PureSwitch.from_parameters(theta=1, a=-1, window=10), "`a`"),
        (lambda: PureSwitch.from_parameters(theta=1, a=1, window=0), "window"),
        (lambda: PureSwitch(2, window=5).latency_quantile(1.0), "probability"),
        (lambda: PureSwitch(2, window=5).timing_delta(-1), "delay"),
        (lambda: PureSwitch(2, window=5).safe_delay(0), "delta"),
        (lambda: PureSwitch(2, window=5).prefixes(-1, 5, key=KEY), "trials"),
        (lambda: PureSwitch(2, window=5).prefixes(5, 0, key=KEY), "steps"),
        (lambda: PureSwitch(0.05, window=10_000).law(), "too many displacements"),
    ],
)
def test_bad_input_is_refused(call, message: str) -> None:
    """Each wrong parameter gets an error that names it."""
    with pytest.raises(ParameterError, match=message):
        call()


def test_constants_agree() -> None:
    """No height of a table has so many pairs that a walk's shortcut, or a word, would be too short for them."""
    highest = HIGHEST + 16 * int(HIGHEST**0.5) + 64
    assert highest * (highest - 1) < 2**44
    assert STEP_WORDS == 2
    assert factorial(3) == len(finished((-2, -2, -2)))
