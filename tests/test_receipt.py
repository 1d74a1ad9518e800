"""Receipts: they say what was done, tell when file or receipt were altered, and give nothing away."""

import datetime as dt
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from whenmask import Key, RanSwitch, StaSwitch
from whenmask.columns import Columns
from whenmask.errors import DataError, FileError, SecretError
from whenmask.files import Job, open_inputs, release_files
from whenmask.receipt import Receipt, fingerprint, receipt_of

SECRETS = ["meter-4711", "31.4159", "2024-01-01"]


def release(folder, key, mechanism=None, run="a run"):
    """Release a small table; return the receipt."""
    table = pa.table(
        {
            "id": ["meter-4711"] * 4,
            "time": [dt.datetime(2024, 1, 1, hour) for hour in range(4)],
            "kwh": [31.4159, 1.0, 2.0, 3.0],
        }
    )
    pq.write_table(table, folder / "in.parquet")
    columns = Columns(by=("id",), time="time")
    with open_inputs([folder / "in.parquet"], columns, output=folder / "out.csv") as inputs:
        job = Job(folder / "out.csv", key=key, run=run, force=True)
        return release_files(inputs, mechanism or RanSwitch(4, window=2), job)


def test_a_receipt_says_what_was_done_and_gives_nothing_away(tmp_path) -> None:
    """Mechanism, guarantee and claim apart, rows, run, versions; no key, value, time or id."""
    key = Key.fresh()
    receipt = release(tmp_path, key)
    text = receipt_of(tmp_path / "out.csv").read_text()
    content = json.loads(text)
    assert content["mechanism"]["identity"] == RanSwitch(4, window=2).identity
    assert content["guarantee"]["basis"] == "proved"
    assert content["claim"]["basis"] == "claimed by its paper"
    assert (content["rows"], content["series"], content["run"], content["key"]) == (4, 1, "a run", "secure")
    assert content["columns"] == {"by": ["id"], "time": "time", "values": ["kwh"], "keep": [], "left_out": []}
    assert set(content["versions"]) == {"whenmask", "numpy", "pyarrow", "duckdb"}
    assert not [secret for secret in [*SECRETS, key.expose()[1:].hex()] if secret in text]
    assert Receipt.read(tmp_path / "out.csv") == receipt


def test_a_repeated_run_makes_the_same_receipt(tmp_path) -> None:
    """Byte by byte; and a testing key is named one."""
    release(tmp_path, Key.for_testing(7))
    first = receipt_of(tmp_path / "out.csv").read_bytes(), (tmp_path / "out.csv").read_bytes()
    receipt = release(tmp_path, Key.for_testing(7))
    assert (receipt_of(tmp_path / "out.csv").read_bytes(), (tmp_path / "out.csv").read_bytes()) == first
    assert receipt.key == "testing"


def test_what_is_not_proved_is_not_called_so(tmp_path) -> None:
    """A mechanism without a proof has a claim, and at most a measured guarantee."""
    receipt = release(tmp_path, Key.fresh(), StaSwitch(4, window=2, calibrate="claim"))
    assert receipt.guarantee is None or receipt.guarantee["basis"] == "audited"
    assert receipt.claim


def test_altered_files_and_receipts_are_found(tmp_path) -> None:
    """A byte more, a byte changed, another receipt: each is told, the last with the key only."""
    key, output = Key.fresh(), tmp_path / "out.csv"
    release(tmp_path, key)
    Receipt.read(output).check(output, key)
    Receipt.read(receipt_of(output)).check(receipt_of(output), key)
    with pytest.raises(SecretError, match="altered, or made with another key"):
        Receipt.read(output).check(output, Key.fresh())
    content = output.read_bytes()
    output.write_bytes(content + b"\n")
    with pytest.raises(DataError, match="another size"):
        Receipt.read(output).check(output)
    output.write_bytes(content[:-2] + b"9\n")
    with pytest.raises(DataError, match="other content"):
        Receipt.read(output).check(output)
    output.write_bytes(content)
    path = receipt_of(output)
    path.write_text(path.read_text().replace('"epsilon": 4', '"epsilon": 1'))
    Receipt.read(output).check(output)
    with pytest.raises(SecretError, match="altered"):
        Receipt.read(output).check(output, key)


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '{"form": 1}', "\ufffd"])
def test_what_is_no_receipt_is_refused(tmp_path, content) -> None:
    """Damaged, of another kind, or not there."""
    with pytest.raises(FileError, match="cannot be read"):
        Receipt.read(tmp_path / "out.csv")
    receipt_of(tmp_path / "out.csv").write_text(content)
    with pytest.raises(FileError, match="no receipt"):
        Receipt.read(tmp_path / "out.csv")


def test_other_versions_and_lost_files_are_told(tmp_path) -> None:
    """A receipt of a later form, and one whose file is gone."""
    release(tmp_path, Key.fresh())
    path = receipt_of(tmp_path / "out.csv")
    found = Receipt.read(path)
    (tmp_path / "out.csv").unlink()
    with pytest.raises(FileError, match="output cannot be read"):
        found.check(tmp_path / "out.csv")
    path.write_text(path.read_text().replace("whenmask receipt 1", "whenmask receipt 2"))
    with pytest.raises(FileError, match="of this version"):
        Receipt.read(path)


def test_fingerprints_need_the_key_and_the_purpose() -> None:
    """The same digest under another key, or for another purpose, looks like anything else."""
    key = Key.for_testing(7)
    seen = {fingerprint(key, b"input", b"x"), fingerprint(key, b"output", b"x"), fingerprint(key, b"input", b"y")}
    assert len(seen | {fingerprint(Key.for_testing(8), b"input", b"x")}) == 4
