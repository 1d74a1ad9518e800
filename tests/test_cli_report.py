"""`whenmask check`, what a release refuses, and the page about it, as a person types them."""

import datetime as dt
import gzip
import json
import re

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.tables import LONDON
from whenmask import Key
from whenmask.cli import run
from whenmask.description import mechanism_named, mechanism_of
from whenmask.errors import ParameterError
from whenmask.files import releasing
from whenmask.mechanisms import MECHANISMS
from whenmask.receipt import Receipt

ROLES = ["--by", "meter", "--time", "time"]
USUAL = [*ROLES, "--window", "2h", "--epsilon", "4"]
SLOTS = 200


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to stand in, with readings of three meters and what they add up to."""
    monkeypatch.chdir(tmp_path)
    kwh = np.random.default_rng(2).permutation(3 * SLOTS)
    times = [dt.datetime(2024, 1, 1) + dt.timedelta(minutes=30 * slot) for slot in range(SLOTS)]
    table = pl.DataFrame({"meter": np.repeat(["a", "b", "c"], SLOTS), "time": times * 3, "kwh": kwh})
    table = table.with_columns(total=pl.col("kwh").cum_sum().over("meter"))
    table.write_csv(tmp_path / "readings.csv", datetime_format="%Y-%m-%d %H:%M")
    table.write_parquet(tmp_path / "readings.parquet")
    Key.fresh().save(tmp_path / "secret.key")
    return tmp_path


def written(folder):
    """Return what a release could have left."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(("out", ".whenmask")))


@pytest.mark.parametrize("source", ["readings.csv", "readings.parquet"])
@pytest.mark.parametrize("first_look", [1, 10**9])
def test_a_release_that_tells_the_order_is_refused(folder, capsys, monkeypatch, source, first_look) -> None:
    """Soon or at the end, with what was found and what to do; nothing is left, and nothing counts as released."""
    monkeypatch.setattr(releasing, "FIRST_LOOK", first_look)
    assert run(["release", source, "-o", "out.csv", *USUAL]) == 2
    shown = capsys.readouterr().err
    assert "would hide little or nothing; got 'total' (counter)" in shown
    assert "--accept-risk" in shown
    assert written(folder) == []
    assert run(["ledger", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == []


def test_a_risk_that_is_accepted_stands_on_the_receipt(folder, capsys) -> None:
    """Whoever gets the file can read it there; without it the receipt has none."""
    assert run(["release", "readings.csv", "-o", "out.csv", *USUAL, "--accept-risk"]) == 0
    assert "accepted column 'total' (counter) tells the order" in " ".join(capsys.readouterr().out.split())
    assert Receipt.read(folder / "out.csv").risks == [{"kind": "counter", "column": "total"}]
    assert run(["release", "readings.csv", "-o", "out2.csv", *USUAL, "--leave-out", "total"]) == 0
    assert Receipt.read(folder / "out2.csv").risks == []


@pytest.mark.parametrize(("source", "output"), [("readings.csv", "out.csv"), ("readings.parquet", "out.jsonl")])
def test_a_column_that_is_left_out_is_gone(folder, capsys, source, output) -> None:
    """It is in no output; the receipt names it; a name that is not there is refused."""
    assert run(["release", source, "-o", output, *USUAL, "--leave-out", "total"]) == 0
    assert "total" not in (folder / output).read_text()
    assert Receipt.read(folder / output).columns["left_out"] == ["total"]
    capsys.readouterr()
    assert run(["release", source, "-o", "out.parquet", *USUAL, "--leave-out", "Total"]) == 2
    assert "`leave_out` must name columns of the table; got 'Total'" in capsys.readouterr().err
    assert run(["release", source, "-o", "out.parquet", *USUAL, "--leave-out", "time"]) == 2
    assert "`time` must name columns of the table" in capsys.readouterr().err


def test_the_check_reads_what_a_release_reads(folder, capsys) -> None:
    """Globs, packed text, durations; the same rows have the same findings in any format."""
    content = (folder / "readings.csv").read_bytes()
    (folder / "part.csv.gz").write_bytes(gzip.compress(content))
    found = []
    for sources in (["readings.csv"], ["readings.parquet"], ["*.csv.gz"]):
        assert run(["check", *sources, *ROLES, "--window", "2h", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1] == found[2]
    assert [(one["kind"], one["column"]) for one in found[0]["findings"]] == [("counter", "total")]
    assert (found[0]["rows"], found[0]["series"]) == (3 * SLOTS, 3)
    assert run(["check", "readings.csv", *ROLES, "--leave-out", "total"]) == 0
    assert "Nothing found that makes a release useless." in capsys.readouterr().out
    assert run(["check", "readings.csv", *ROLES, "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_the_check_counts_rows_that_a_release_refuses(folder, capsys) -> None:
    """All kinds of them at once, each with a row as an example, and the rest is looked at all the same."""
    lines = (folder / "readings.csv").read_text().splitlines()
    lines += [",2024-01-01 00:00,1,1", "a,,2,2", "a,2024-01-01 00:00,3,3"]
    (folder / "readings.csv").write_text("\n".join(lines))
    assert run(["check", "readings.csv", *ROLES, "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [one["kind"] for one in findings] == ["counter", "invalid", "invalid", "invalid"]
    assert [one["what_found"] for one in findings[1:]] == [
        "1 rows without an id, for example row 600 (counted from 0)",
        "1 rows without a time, for example row 601 (counted from 0)",
        "2 rows at a repeated time, for example row 0 (counted from 0)",
    ]


def counted(page: str) -> str:
    """Return what a page says was counted."""
    found = re.search(r"Counted over [\d,]+ values: .*?slots\.", page)
    assert found
    return found[0]


def test_a_release_and_the_report_of_it_later_are_one_page(folder, capsys) -> None:
    """The release draws the page as it goes; with its key the same page can be drawn again."""
    keyed = ["--key-file", "secret.key", "--run-id", "r", "--leave-out", "total"]
    page = ["--report", "page.html", "--show", "b"]
    assert run(["release", "readings.csv", "-o", "out.csv", *USUAL, *keyed, *page]) == 0
    first = (folder / "page.html").read_text()
    assert "Counted over 600 values" in counted(first)
    assert "This figure shows raw data" in first
    capsys.readouterr()
    again = ["report", "out.csv", "readings.csv", "-o", "again.html", "--key-file", "secret.key", "--show", "b"]
    assert run(again) == 0
    assert "The report is in again.html" in capsys.readouterr().out
    assert (folder / "again.html").read_text() == first
    assert run(again) == 2
    assert "there already" in capsys.readouterr().err
    assert run([*again, "--force", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_a_report_is_for_the_rows_and_the_key_of_its_release(folder, capsys) -> None:
    """Other rows, another key, a changed file and no key are refused, and no page is written."""
    keyed = ["--testing-key", "5", "--leave-out", "total"]
    assert run(["release", "readings.parquet", "-o", "out.parquet", *USUAL, *keyed, "--quiet"]) == 0
    pq.write_table(pq.read_table("readings.parquet").slice(1), "fewer.parquet")
    refused = {
        "not the rows that were released": ["fewer.parquet", "--testing-key", "5"],
        "made with another key": ["readings.parquet", "--testing-key", "6"],
        "the key of the run is needed": ["readings.parquet"],
        "must say that it is a page": ["readings.parquet", "--testing-key", "5", "-o", "page.txt"],
    }
    for problem, options in refused.items():
        where = [] if "-o" in options else ["-o", "page.html"]
        assert run(["report", "out.parquet", *options, *where]) == 2
        shown = capsys.readouterr().err
        assert problem in shown
        assert "Hint:" in shown
        assert not (folder / "page.html").exists()
    (folder / "out.parquet").write_bytes(b"other")
    assert run(["report", "out.parquet", "readings.parquet", "-o", "page.html", "--testing-key", "5"]) == 2
    assert "not the one that the receipt was written for" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("nowhere/page.html", "cannot be written"),
        ("page.txt", "must say that it is a page"),
        ("old.html", "there already"),
    ],
)
def test_a_report_that_cannot_be_is_refused_before_any_work(folder, capsys, page, problem) -> None:
    """Nothing is released without the page that was asked for."""
    (folder / "old.html").write_text("old")
    options = ["--leave-out", "total", "--report", page]
    assert run(["release", "readings.csv", "-o", "out.csv", *USUAL, *options]) == 2
    assert problem in capsys.readouterr().err
    assert written(folder) == []
    assert (folder / "old.html").read_text() == "old"


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_a_mechanism_is_known_by_its_identity(name) -> None:
    """What a receipt says is enough to draw again, to the last bit of its parameters."""
    made = mechanism_named(name, 4, 12)
    assert mechanism_of(made.identity).identity == made.identity


@pytest.mark.parametrize(
    "identity",
    ["", "Magic(window=4, unit=1)", "RanSwitch(window=4)", "RanSwitch(window=4, unit=0)", "PureSwitch(window=x)"],
)
def test_what_is_no_identity_is_refused(identity) -> None:
    """Damaged receipts get an error, not a mechanism."""
    with pytest.raises(ParameterError, match="no mechanism of this identity"):
        mechanism_of(identity)


@pytest.mark.skipif(not LONDON.exists(), reason="the London table is not here: see tests/tables.py")
def test_london_from_packed_csv_with_a_page(tmp_path, monkeypatch) -> None:
    """A copy as packed CSV is released with its page, and the meter that is shown is found."""
    monkeypatch.chdir(tmp_path)
    pl.read_parquet(LONDON).head(100_000).write_csv("some.csv")
    (tmp_path / "some.csv.gz").write_bytes(gzip.compress((tmp_path / "some.csv").read_bytes(), 1))
    options = [*ROLES, "--window", "24h", "--epsilon", "4", "--report", "page.html", "--show", "MAC000004"]
    assert run(["release", "some.csv.gz", "-o", "out.csv.gz", *options]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "Counted over 100,000 values" in counted(page)
    assert "This figure shows raw data" in page
    lines = gzip.decompress((tmp_path / "out.csv.gz").read_bytes()).splitlines()
    assert len(lines) == 100_001
    assert sorted(line.split(b",")[2] for line in lines[1:]) == sorted(
        line.split(b",")[2] for line in (tmp_path / "some.csv").read_bytes().splitlines()[1:]
    )
