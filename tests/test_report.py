"""The page about a release: its figures are right, it shows no more than it may, and it loads nothing."""

import dataclasses
import html
import math
import re
import shutil
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.browser import CHROMIUM, first_pixel, opened
from whenmask import Backward, Forward, Key, PureSwitch, RanSwitch, StaSwitch, Threshold, losses
from whenmask.batches import release_batches
from whenmask.columns import Columns
from whenmask.errors import DataError
from whenmask.finding import Finding
from whenmask.guarantee import Guarantee
from whenmask.losses import Comparison, compare_batches, series_label
from whenmask.mechanisms import Temporal
from whenmask.report import ReportData, describe, report_frame, write_report
from whenmask.report.charts import plain, ticks
from whenmask.report.page import down, page, percent_up, up
from whenmask.watch import Watched

KEY = Key.for_testing(20240301)
ROLES = Columns(by=("meter",), time="hour")
MECHANISMS = [
    PureSwitch(4, window=12),
    RanSwitch(4, window=12, calibrate="claim"),
    StaSwitch(4, window=12, calibrate="claim"),
    Threshold(4, window=12, calibrate="claim"),
    Backward(4, window=12),
    Forward(4, window=12, calibrate="claim"),
]
NAMES = [type(mechanism).__name__ for mechanism in MECHANISMS]
HOSTILE = "</style><script>alert('x')</script><img src=http://example.com/a.png>&\""


def readings(lengths=(70, 1, 200, 9), *, seed: int = 1) -> pa.Table:
    """Return a table of a few meters, with nulls among the readings."""
    rng = np.random.default_rng(seed)
    rows = sum(lengths)
    kwh = np.round(rng.gamma(1.2, 0.4, rows), 3)
    return pa.table(
        {
            "meter": np.repeat([f"m{number}" for number in range(len(lengths))], lengths),
            "hour": np.concatenate([np.arange(length) for length in lengths]),
            "kwh": pa.array(kwh, mask=rng.random(rows) < 0.05),
            "count": rng.integers(0, 50, rows),
            "note": ["text"] * rows,
        }
    )


def watched_release(mechanism, table: pa.Table, **options) -> tuple[Watched, Comparison, pa.Table]:
    """Release a table, watched as the command line does it."""
    plans, comparison = Watched(mechanism), Comparison(ROLES, window=mechanism.window, **options)
    batches = comparison.watch_before(table.to_batches(max_chunksize=37))
    released = comparison.watch_after(release_batches(batches, plans, ROLES, key=KEY, run="r"))
    return plans, comparison, pa.Table.from_batches(released, schema=table.schema)


@dataclasses.dataclass
class Quick:
    """A mechanism whose guarantee need not be measured first, which takes seconds."""

    mechanism: Temporal
    least_delta: float = 0.25

    def __getattr__(self, name: str):
        """Return what is the mechanism's own."""
        return getattr(self.mechanism, name)

    @property
    def guarantee(self) -> Guarantee:
        """Return the mechanism's own if it is proved, else a made-up measurement."""
        if self.mechanism.provable:
            return self.mechanism.guarantee
        return Guarantee(4.0, 0.5, self.mechanism.window, "audited", 5000, 0.999999, (0.4321, 0.5), (1, 2))


def report(mechanism, table: pa.Table, **options) -> ReportData:
    """Return what is to be reported of a table released with a mechanism."""
    plans, comparison, _ = watched_release(mechanism, table, **options)
    return describe(Quick(mechanism), comparison, plans=plans)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=NAMES)
@given(lengths=st.lists(st.integers(1, 80), min_size=1, max_size=5))
def test_a_watched_mechanism_makes_the_same_plans_and_counts_them(mechanism, lengths: list[int]) -> None:
    """Displacements and costs are those of the plans of all series, counted one by one."""
    table = readings(lengths)
    plans, comparison, released = watched_release(mechanism, table)
    plain_release = pa.Table.from_batches(
        release_batches(table.to_batches(), mechanism, ROLES, key=KEY, run="r"), schema=table.schema
    )
    assert released.equals(plain_release)
    total = np.zeros(5, dtype=np.int64)
    displaced: dict[int, int] = {}
    for number, length in enumerate(lengths):
        plan = mechanism.plan(length, key=KEY, series=f"m{number}", run="r")
        costs = plan.costs()
        total += [costs.displacement, costs.missing, costs.repeated, costs.empty, costs.slots]
        for slot, source in enumerate(plan.source.tolist()):
            if source >= 0:
                displaced[slot - source] = displaced.get(slot - source, 0) + 1
    counted = plans.costs()
    assert [
        counted.displacement,
        counted.missing,
        counted.repeated,
        counted.empty,
        counted.slots,
    ] == total.tolist()
    places, counts = plans.displacements()
    assert {int(place): int(count) for place, count in zip(places, counts, strict=True) if count} == displaced
    assert plans.series == comparison.series == len(lengths)
    assert comparison.rows == sum(lengths)


def slow_losses(before: pa.Table, after: pa.Table, column: str, rows: int) -> tuple[float, float, int]:
    """Return the errors of moving averages and of counts above the median, range by range."""
    threshold = float(np.nanmedian(before[column].to_pandas().to_numpy(dtype=float)))
    averages, counts = [], []
    for meter in before["meter"].unique().to_pylist():
        chosen = pa.compute.equal(before["meter"], meter)
        first, second = (table.filter(chosen)[column].to_pylist() for table in (before, after))
        for start in range(len(first) - rows + 1):
            one, two = (
                [value for value in values[start : start + rows] if value is not None]
                for values in (first, second)
            )
            counts.append(sum(value > threshold for value in one) - sum(value > threshold for value in two))
            if one and two:
                averages.append(sum(one) / len(one) - sum(two) / len(two))
    return (
        math.sqrt(sum(error**2 for error in averages) / len(averages)),
        math.sqrt(sum(error**2 for error in counts) / len(counts)),
        len(averages),
    )


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=NAMES)
@pytest.mark.parametrize("stretch", [1, 1 << 16])
def test_losses_are_what_the_slow_count_says(mechanism, stretch: int, monkeypatch) -> None:
    """Moving averages and counts, over several series, with nulls, empty slots and any number of parts."""
    table = readings() if stretch > 1 else readings((70, 1, 2000, 9))
    monkeypatch.setattr(losses, "STRETCH", stretch)
    ranges = [1, 3, 12] if stretch > 1 else [1, 3, 12, 90]
    _, comparison, released = watched_release(mechanism, table, ranges=ranges)
    if stretch == 1:  # the threshold is the median of the first part, so that it is given here
        monkeypatch.setattr(losses, "STRETCH", 1 << 16)
        whole = watched_release(mechanism, table, ranges=ranges)[1].losses()
        parts = comparison.losses()
        assert [(one.column, one.rows, one.ranges) for one in parts] == [
            (one.column, one.rows, one.ranges) for one in whole
        ]
        assert [one.average for one in parts] == pytest.approx([one.average for one in whole])
        assert [one.spread for one in parts] == pytest.approx([one.spread for one in whole])
        return
    found = {(one.column, one.rows): one for one in comparison.losses()}
    assert set(found) == {(column, rows) for column in ("kwh", "count") for rows in ranges}
    for (column, rows), one in found.items():
        average, count, compared = slow_losses(table, released, column, rows)
        assert one.average == pytest.approx(average, rel=1e-9)
        assert one.count == pytest.approx(count, rel=1e-9)
        assert one.ranges == compared


def test_numbers_kept_as_text_are_compared_as_numbers() -> None:
    """A file may keep 1.10 as it was written; its losses are those of 1.1, and words have none."""
    table = readings()
    text = table.set_column(2, "kwh", table["kwh"].cast(pa.string())).select(["meter", "hour", "kwh", "note"])
    expected = [one for one in watched_release(MECHANISMS[0], table)[1].losses() if one.column == "kwh"]
    found = watched_release(MECHANISMS[0], text)[1].losses()
    assert [(one.column, one.rows, one.ranges) for one in found] == [
        (one.column, one.rows, one.ranges) for one in expected
    ]
    assert [one.average for one in found] == pytest.approx([one.average for one in expected])


def test_a_release_that_moves_nothing_loses_nothing() -> None:
    """Equal tables have no error; and a value that moves is seen."""
    table = readings()
    same = compare_batches(table.to_batches(), table.to_batches(), Comparison(ROLES, window=4)).losses()
    assert {(one.average, one.count) for one in same} == {(0.0, 0.0)}
    swapped = table.set_column(
        3, "count", pa.array([*reversed(table["count"].to_pylist()[:70]), *table["count"].to_pylist()[70:]])
    )
    moved = compare_batches(table.to_batches(), swapped.to_batches(), Comparison(ROLES, window=4)).losses()
    assert all(one.average > 0 for one in moved if one.column == "count")


def test_comparing_holds_no_more_than_is_on_its_way(monkeypatch) -> None:
    """After a hundred windows only the rows in transit and the tail of the longest range are held."""
    monkeypatch.setattr(losses, "STRETCH", 64)
    mechanism = RanSwitch.from_probabilities(q=0.1, window=4)
    table = readings((5000,))
    comparison = Comparison(ROLES, window=4)
    held = []
    batches = comparison.watch_before(table.to_batches(max_chunksize=50))
    for batch in release_batches(batches, mechanism, ROLES, key=KEY):
        comparison.push_after(batch)
        held.append(sum(map(len, comparison._before)))
    assert max(held) < 400


def test_more_rows_after_than_before_are_refused() -> None:
    """A comparison of things that do not belong together is an error, not a figure."""
    comparison = Comparison(ROLES, window=4)
    batch = readings().to_batches()[0]
    with pytest.raises(DataError, match="no more rows than its input"):
        comparison.push_after(batch)


def test_frames_of_any_library_are_reported_alike() -> None:
    """pandas, Polars and Arrow tables in any order give the losses of their sorted batches."""
    table = readings()
    mechanism = MECHANISMS[0]
    released = mechanism.release(table, by="meter", time="hour", key=KEY)
    expected = report_frame(table, released, mechanism, by="meter", time="hour").losses
    order = pa.array(np.random.default_rng(2).permutation(len(table)))
    for made in (lambda frame: frame, pa.Table.to_pandas, pl.DataFrame):
        before, after = (made(one.take(order)) for one in (table, released))
        found = report_frame(before, after, mechanism, by="meter", time="hour")
        assert found.rows == len(table)
        assert [one.average for one in found.losses] == pytest.approx([one.average for one in expected])


def test_a_chosen_series_is_shown_as_it_was_and_as_it_is() -> None:
    """The example is the beginning of that series, both ways, and of no other."""
    table = readings()
    mechanism = MECHANISMS[0]
    _, comparison, released = watched_release(mechanism, table, show="m2")
    example = comparison.example()
    assert example is not None
    chosen = pa.compute.equal(table["meter"], "m2")
    for shown, whole in ((example.before, table), (example.after, released)):
        column = whole.filter(chosen)["kwh"].to_pandas().to_numpy(dtype=float)
        np.testing.assert_array_equal(shown, column[:96])
    assert list(example.times[:3]) == ["0", "1", "2"]
    assert watched_release(mechanism, table, show="m7")[1].example() is None
    assert watched_release(mechanism, table)[1].example() is None


def test_series_are_called_as_people_type_them() -> None:
    """Ids of any type, one or several, have one label."""
    assert series_label("a") == "a"
    assert series_label((7, "north")) == "7, north"
    assert series_label(b"ab") == "ab"


class Skeleton(HTMLParser):
    """Takes down the elements of a page, and whether they are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes) -> None:
        """Take down an element that begins."""
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes) -> None:
        """Take down an element without content."""
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        """Close the last element, which must be this one."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Take down text."""
        self.text += data


def parsed(text: str) -> Skeleton:
    """Return the elements of a page that is well formed."""
    skeleton = Skeleton()
    skeleton.feed(text)
    assert skeleton.open == []
    return skeleton


def assert_offline(text: str) -> None:
    """Nothing in the page can load anything or run anything."""
    assert not re.search(r"https?:|//[a-z]|@import|url\(|<script|<iframe|<img|javascript:", html.unescape(text))
    for tag, attributes in parsed(text).elements:
        assert tag not in {"script", "img", "iframe", "object", "embed", "form", "a"}
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("src") is None
        assert attributes.get("href") in (None, "data:,")


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=NAMES)
def test_the_page_is_whole_and_loads_nothing(mechanism) -> None:
    """Every section is there, every element is closed, every figure has a title, and nothing is external."""
    text = page(report(mechanism, readings(), show="m2"))
    assert_offline(text)
    skeleton = parsed(text)
    sections = [attributes["id"] for tag, attributes in skeleton.elements if tag == "section"]
    assert sections == ["promise", "movement", "costs", "losses", "example"]
    tags = [tag for tag, _ in skeleton.elements]
    assert tags.count("svg") == tags.count("desc") == 5
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert not re.search(r"\b(nan|inf|None)\b", re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL))
    assert len(text) < 400_000


def test_guarantee_and_claim_cannot_be_mixed_up() -> None:
    """Each figure stands in a card of its own, and a claim alone never looks like a promise."""
    both = report(RanSwitch(8, window=10, calibrate="claim"), readings())
    assert both.guarantee is not None
    assert both.claim is not None
    proved, claimed = re.findall(r'<div class="card (?:proved|claimed)">(.*?)</div>', page(both), re.DOTALL)
    assert "guarantee · proved" in proved
    assert f"ε = {up(both.guarantee.epsilon)}, δ = {up(both.guarantee.delta)}" in proved
    assert f"up to <strong>{percent_up(both.guarantee.delta)}</strong>" in proved
    assert "not a guarantee" in claimed
    assert f"ε = {up(both.claim.epsilon)}" in claimed
    measured = page(report(StaSwitch(4, window=12, calibrate="claim"), readings()))
    assert 'class="card proved"' not in measured
    assert "evidence, not a proof" in measured
    assert "on 5,000 drawn plans δ lies between 0.432 and 0.5, with a confidence of 99.9999%" in measured
    assert "no δ below 0.25 holds" in measured
    pure = dataclasses.replace(both, guarantee=dataclasses.replace(both.guarantee, delta=0.0), claim=None)
    assert "Without exception: δ is 0." in page(pure)
    rare = dataclasses.replace(both, guarantee=dataclasses.replace(both.guarantee, delta=1e-30))
    assert "none will ever be seen" in page(rare)
    assert "claim" not in re.sub(r"<style>.*?</style>", "", page(pure), flags=re.DOTALL)


def test_the_page_says_who_may_see_it() -> None:
    """It is for the holder of the original; a testing key and accepted risks are said at the top."""
    data = report(MECHANISMS[0], readings())
    assert "Do not publish it" in page(data)
    assert "testing key" not in page(dataclasses.replace(data, key_kind="secure"))
    assert "Made with a testing key" in page(dataclasses.replace(data, key_kind="testing"))
    found = Finding("counter", "total", "useless", "it rises", "It tells.", "Leave it out.")
    assert "tells the order by itself" in page(dataclasses.replace(data, findings=[found]))
    harmless = dataclasses.replace(found, severity="note")
    assert "tells the order by itself" not in page(dataclasses.replace(data, findings=[harmless]))


def test_raw_data_is_shown_only_where_it_was_asked_for() -> None:
    """Without a name no bar of a series is drawn; with one there is a warning; a wrong one is said."""
    table = readings()
    without = page(report(MECHANISMS[0], table))
    assert "raw data" not in without
    assert 'class="before"' not in without
    shown = page(report(MECHANISMS[0], table, show="m2"))
    assert "This figure shows raw data." in shown
    assert shown.count('class="before"') > 50
    assert "no such series" in page(report(MECHANISMS[0], table, show="m9"))


def test_names_cannot_break_the_page() -> None:
    """Columns, series and run ids are text, whatever they are called."""
    table = readings((120,)).rename_columns(["meter", "hour", HOSTILE, "count", "note"])
    table = table.set_column(0, "meter", pa.array([HOSTILE] * 120))
    data = report(MECHANISMS[0], table, show=HOSTILE)
    finding = Finding("counter", HOSTILE, "useless", HOSTILE, HOSTILE, HOSTILE)
    named = dataclasses.replace(data, run=HOSTILE, mechanism=HOSTILE, version=HOSTILE, findings=[finding])
    skeleton = parsed(page(named))
    assert not {"script", "img"} & {tag for tag, _ in skeleton.elements}
    assert skeleton.text.count("alert('x')") >= 6


def test_what_was_not_watched_is_not_drawn() -> None:
    """Without counted plans there is the law alone; without numbers no curves; without rows still a page."""
    table = readings().select(["meter", "hour", "note"])
    mechanism = MECHANISMS[0]
    data = report_frame(table, table, mechanism, by="meter", time="hour", show="m0")
    text = page(data)
    assert_offline(text)
    assert 'class="law"' in text
    assert 'class="bar"' not in text
    assert "No column of numbers" in text
    assert "no column of numbers to draw" in text
    empty = page(report(mechanism, readings().slice(0, 0)))
    assert "there was nothing to count" in empty
    constant = table.append_column("x", pa.array([1.0] * len(table)))
    assert_offline(page(report_frame(constant, constant, mechanism, by="meter", time="hour", show="m0")))


@pytest.mark.parametrize("window", [2, 3, 1000])
def test_small_and_large_windows_are_drawn(window: int) -> None:
    """A histogram has a bar for each displacement, or one for several, and never too many."""
    mechanism = RanSwitch.from_probabilities(q=0.5 / window, window=window)
    text = page(report(mechanism, readings((3000,))))
    bars = text.count('class="bar"') + text.count('class="bar still"')
    assert 3 <= bars <= 310
    assert ("Each point is the mean over" in text) == (window == 1000)


def test_histogram_heights_are_the_shares() -> None:
    """Bars grow with the counts: twice the count is twice the bar."""
    data = report(RanSwitch.from_probabilities(q=0.2, window=4), readings((3000,)))
    counts = np.array([10, 20, 40, 20, 10])
    text = page(dataclasses.replace(data, displacements=np.arange(-2, 3), counts=counts))
    heights = [float(height) for height in re.findall(r'class="bar(?: still)?"[^>]* height="([\d.]+)"', text)]
    assert heights == pytest.approx([heights[0] * factor for factor in (1, 2, 4, 2, 1)], abs=0.03)


@given(number=st.floats(1e-300, 1e300))
def test_figures_of_privacy_are_never_rounded_down(number: float) -> None:
    """What is printed is at least the number, and at most 1% more."""
    shown = float(up(number).replace(",", "").replace("−", "-"))
    assert number * (1 - 1e-12) <= shown <= number * 1.0101


def test_the_ends_of_the_scale_of_figures() -> None:
    """Zero, all and endless have their signs."""
    assert down(0.51999) == "0.519"
    assert (up(9.925e-32), up(1e30)) == ("9.93e−32", "1.01e30")
    assert up(0.0) == "0"
    assert up(math.inf) == "∞"
    assert up(4.0) == "4"
    assert up(0.10201) == "0.103"
    assert percent_up(1.0) == "100%"
    assert percent_up(0.131621) == "13.2%"
    assert (plain(0), plain(-40), plain(0.3162), plain(22.24), plain(12345.6)) == (
        "0",
        "−40",
        "0.316",
        "22.2",
        "12,346",
    )


@given(low=st.floats(-1e9, 1e9), span=st.floats(1e-6, 1e9))
def test_ticks_are_few_in_order_and_in_range(low: float, span: float) -> None:
    """Any range has some ticks, at even distances."""
    found = ticks(low, low + span)
    slack = 1e-6 * span + 1e-9 * abs(low)
    assert len(found) <= 8
    assert found == sorted(found)
    assert all(low - slack <= tick <= low + span + slack for tick in found)


def test_a_page_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    """What was there is replaced by a whole page or not at all."""
    path = tmp_path / "out.html"
    path.write_text("old")
    data = report(MECHANISMS[0], readings())
    broken = dataclasses.replace(data, rows="many")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Cannot specify"):
        write_report(path, broken)
    assert path.read_text() == "old"
    write_report(path, data)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["out.html"]


@pytest.fixture(scope="module")
def browse(tmp_path_factory) -> Iterator:
    """Return a function that opens a page in headless Chromium."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    place = tmp_path_factory.mktemp("chromium")
    path = place / "out.html"
    table = readings((300, 200))
    write_report(path, report(RanSwitch(8, window=10, calibrate="claim"), table, show="m0"))

    yield partial(opened, path, place / "profile")
    shutil.rmtree(place / "profile", ignore_errors=True)


def test_chromium_shows_the_figures(browse) -> None:
    """A browser finds all five figures with their shapes."""
    shown = browse("--dump-dom")
    assert shown.count("<svg") == 5
    assert shown.count('class="bar') > 10
    assert shown.count("<polyline") == 4
    assert shown.count('class="after"') > 50
    assert "What is promised" in shown


def test_chromium_paints_the_page_in_light_and_dark(browse, tmp_path: Path) -> None:
    """The paper is light in one and dark in the other."""
    corners = {}
    for mode, number in (("dark", 0), ("light", 1)):
        picture = tmp_path / f"{mode}.png"
        browse(f"--blink-settings=preferredColorScheme={number}", f"--screenshot={picture}")
        content = picture.read_bytes()
        assert len(content) > 50_000
        corners[mode] = sum(first_pixel(content))
    assert corners["dark"] < 3 * 60
    assert corners["light"] > 3 * 220


def test_pandas_keeps_its_readings(tmp_path: Path) -> None:
    """A report reads the frames and changes nothing in them."""
    frame = pd.DataFrame({"hour": range(60), "kwh": np.arange(60.0)})
    before = frame.copy()
    write_report(tmp_path / "out.html", report_frame(frame, frame, MECHANISMS[0], time="hour"))
    pd.testing.assert_frame_equal(frame, before)
