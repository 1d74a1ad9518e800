"""`whenmask release --engine spark`: a folder of Parquet files, with the receipt and ledger of any release."""

import datetime as dt
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sparks import ROOT, collect, needs_spark, session
from whenmask import Key, PureSwitch
from whenmask.cli import cluster, run
from whenmask.errors import WhenmaskError
from whenmask.ledger import Ledger

pytest.importorskip("pyspark", reason="Spark is not installed")

pytestmark = needs_spark()
ORDER = [("meter", "ascending"), ("time", "ascending")]
TABLE = pa.table(
    {
        "meter": [f"meter {row % 9}" for row in range(900)],
        "time": pa.array(
            [dt.datetime(2024, 1, 1) + dt.timedelta(hours=row // 9) for row in range(900)], "timestamp[us]"
        ),
        "kwh": [row / 8 for row in range(900)],
    }
)


@pytest.fixture(scope="module", autouse=True)
def _collected():
    """Leave nothing to other tests' garbage collection."""
    yield
    collect()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with readings and a key, and the session of these tests."""

    @contextmanager
    def started(master: str) -> Any:
        assert master == "local[2]"
        yield session()

    monkeypatch.setattr(cluster, "started", started)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for number in range(3):
        pq.write_table(TABLE.slice(300 * number, 300), tmp_path / "in" / f"{number}.parquet")
    Key.fresh().save(tmp_path / "secret.key")
    return tmp_path


def release(*more: str, source: str = "in", output: str = "out.parquet", window: str = "6") -> int:
    """Run a release on Spark; return the exit code."""
    roles = ["--by", "meter", "--time", "time", "--window", window, "--epsilon", "4"]
    return run(["release", source, "-o", output, *roles, "--engine", "spark", "--master", "local[2]", *more])


def test_a_folder_is_released_with_receipt_and_ledger(folder: Path, capsys) -> None:
    """Row for row the release of the local engine; the receipt is that of the folder; the run can be repeated."""
    same = ["--key-file", "secret.key", "--run-id", "january", "--json"]
    assert release(*same, window="6h") == 0
    receipt = json.loads(capsys.readouterr().out)
    assert (receipt["rows"], receipt["series"], receipt["dropped"]) == (900, 9, None)
    assert receipt["mechanism"]["window"] == 6
    assert receipt["input"]["files"] == 3
    assert "pyspark" in receipt["versions"]
    key = Key.from_file("secret.key")
    expected = PureSwitch(4, window=6).release(TABLE, by="meter", time="time", key=key, run="january")
    found = pq.read_table("out.parquet")
    assert found.sort_by(ORDER).cast(expected.schema).equals(expected.sort_by(ORDER))
    assert {path.name for path in (folder / "out.parquet").iterdir()} <= {
        "part-00000.parquet",
        "part-00001.parquet",
    }
    assert run(["receipt", "out.parquet", "--key-file", "secret.key"]) == 0
    assert "made with this key" in capsys.readouterr().out
    assert release(*same) == 2
    assert "there already" in capsys.readouterr().err
    assert release(*same, "--force") == 0
    again = json.loads(capsys.readouterr().out)
    assert again == receipt
    assert len(Ledger(folder / "whenmask.ledger").runs()) == 1
    assert [path.name for path in folder.iterdir() if path.name.startswith(".whenmask")] == []


def test_other_rows_are_refused_under_the_same_run_and_the_same_add_up(folder: Path, capsys) -> None:
    """However Spark spreads the rows, the ledger knows them again."""
    same = ["--key-file", "secret.key", "--run-id", "january", "--quiet"]
    assert release(*same) == 0
    session().conf.set("spark.sql.shuffle.partitions", "5")
    try:
        assert release(*same, "--force") == 0
        assert release("--quiet", output="other.parquet") == 0
    finally:
        session().conf.set("spark.sql.shuffle.partitions", "2")
    (spent,) = Ledger(folder / "whenmask.ledger").spent()
    assert spent.runs == 2
    first = pq.read_table("out.parquet")
    (folder / "in" / "2.parquet").unlink()
    assert release(*same, "--force") == 2
    assert "other rows were released under the same key and run id" in capsys.readouterr().err
    assert pq.read_table("out.parquet").equals(first)


def test_invalid_rows_are_refused_or_counted(folder: Path, capsys) -> None:
    """As in any release, in a few words."""
    bad = pa.table(
        [[None, "meter 1", "meter 2"], [None, None, TABLE["time"][0].as_py()], [0.0, 777.0, 1.0]],
        schema=TABLE.schema,
    )
    pq.write_table(bad, folder / "in" / "3.parquet")
    assert release() == 2
    shown = capsys.readouterr().err
    assert "every row must have" in shown
    assert "Traceback" not in shown
    assert "777" not in shown
    assert not (folder / "out.parquet").exists()
    assert release("--drop-invalid", "--json") == 0
    receipt = json.loads(capsys.readouterr().out)
    assert receipt["dropped"] == {"without an id": 1, "without a time": 1, "at a repeated time": 2}
    assert receipt["rows"] == 899


REFUSED = {
    "text": ({"source": "text.csv"}, [], "on Spark the input must be Parquet"),
    "nothing": ({"source": "none.parquet"}, [], "no such file"),
    "damaged": ({"source": "damaged.parquet"}, [], "the input cannot be read"),
    "inside": ({"output": "in"}, ["--force"], "must not be one of the inputs"),
    "nowhere": ({"output": "no/where"}, [], "folder of the output is not there"),
    "foreign": ({"output": "foreign"}, ["--force"], "without a receipt"),
    "window": ({"window": "soon"}, [], "neither a count nor a duration"),
    "steps": ({"window": "90s"}, [], "must span at least two steps"),
    "column": ({}, ["--keep", "house"], "must name columns of the table"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_is_refused(kind: str, folder: Path, capsys) -> None:
    """Exit code 2, what is wrong, a hint, and nothing left behind."""
    (folder / "text.csv").write_text("meter,time,kwh\na,1,2\n")
    (folder / "damaged.parquet").write_bytes(b"PAR1 and no more")
    (folder / "foreign").mkdir()
    given, more, problem = REFUSED[kind]
    before = sorted(folder.rglob("*"))
    assert release(*more, **given) == 2
    shown = capsys.readouterr().err
    assert problem in shown
    assert "Hint:" in shown
    assert "Traceback" not in shown
    assert sorted(folder.rglob("*")) == before


def test_as_a_person_types_it(tmp_path: Path) -> None:
    """A session of its own: nothing but the result is printed, and nothing of Spark's."""
    pq.write_table(TABLE, tmp_path / "in.parquet")
    command = [
        sys.executable,
        "-m",
        "whenmask",
        "release",
        "in.parquet",
        "-o",
        "out",
        "--by",
        "meter",
        "--time",
        "time",
    ]
    command += ["--window", "6h", "--epsilon", "4", "--engine", "spark", "--master", "local[1]"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "SPARK_LOCAL_IP": "127.0.0.1"}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "900 rows of 9 series to out" in ran.stdout
    assert pq.read_table(tmp_path / "out").num_rows == 900


def test_without_java_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package to install is named."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(WhenmaskError, match="Spark needs Java 17.*openjdk"), cluster.started("local[1]"):
        pass
