"""`whenmask release`, `receipt` and `ledger`, as a person types them."""

import datetime as dt
import importlib
import json
import re
import stat

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from whenmask import Key
from whenmask.cli import EXAMPLES, run
from whenmask.cli.progress import progress
from whenmask.mechanisms import MECHANISMS

SHUFFLED = np.random.default_rng(1).permutation(200)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to stand in, with readings."""
    monkeypatch.chdir(tmp_path)
    times = [dt.datetime(2024, 1, 1) + dt.timedelta(minutes=30 * slot) for slot in range(100)] * 2
    table = pa.table({"meter": ["a"] * 100 + ["b"] * 100, "time": times, "kwh": SHUFFLED, "room": ["x"] * 200})
    pq.write_table(table, tmp_path / "readings.parquet")
    Key.fresh().save(tmp_path / "secret.key")
    return tmp_path


def release(*more, source="readings.parquet", output="out.csv", window="4", epsilon="4"):
    """Run a release; return the exit code."""
    options = ["--by", "meter", "--time", "time", "--window", window, "--epsilon", epsilon]
    return run(["release", source, "-o", output, *options, *more])


def test_the_command_of_the_help_works(folder, capsys) -> None:
    """The example in the help runs as it stands."""
    assert run(["release", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    example = re.search(r"Example: (whenmask release .*?--epsilon 4)", shown)
    (folder / "readings.parquet").rename(folder / "in.parquet")
    assert example, shown
    assert run(example[1].split()[1:]) == 0
    assert "200 rows of 2 series to out.parquet" in capsys.readouterr().out


@pytest.mark.parametrize("command", sorted(EXAMPLES))
def test_every_command_shows_its_example(command, capsys) -> None:
    """The help ends with the example of the docstring."""
    module = importlib.import_module(f"whenmask.cli.{command}")
    assert f"Example: `{EXAMPLES[command]}`" in getattr(module, command).__doc__
    assert run([command, "--help"]) == 0
    assert EXAMPLES[command] in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("folder")
def test_a_release_is_shown_receipted_and_remembered(capsys) -> None:
    """What was done is printed with claim and guarantee apart; receipt and ledger agree."""
    assert release("--window", "24h", "--mechanism", "ranswitch", window="48") == 2  # given twice
    capsys.readouterr()
    assert release("--mechanism", "ranswitch", window="24h") == 0
    shown = capsys.readouterr().out
    assert "200 rows of 2 series to out.csv" in shown
    assert "RanSwitch(window=48" in shown
    assert "proved" in shown
    assert "claimed by its paper" in shown
    assert run(["receipt", "out.csv"]) == 0
    assert "The file is the one that was released" in capsys.readouterr().out
    assert release("--force", "--quiet") == 0
    assert capsys.readouterr().out == ""
    assert run(["ledger"]) == 0
    shown = capsys.readouterr().out
    assert "2 series were released 2 times: each has spent epsilon 8" in shown
    assert "not proved" not in shown


@pytest.mark.usefixtures("folder")
def test_json_is_for_machines(capsys) -> None:
    """Every command prints what it knows as JSON, and nothing else."""
    assert release("--json", "--testing-key", "7") == 0
    receipt = json.loads(capsys.readouterr().out)
    assert (receipt["rows"], receipt["key"], receipt["mechanism"]["name"]) == (
        200,
        "testing",
        next(iter(MECHANISMS)),
    )
    assert run(["receipt", "out.csv", "--json", "--testing-key", "7"]) == 0
    assert json.loads(capsys.readouterr().out) == receipt
    assert run(["ledger", "whenmask.ledger", "--json"]) == 0
    ledger = json.loads(capsys.readouterr().out)
    assert [one["output"] for one in ledger["runs"]] == ["out.csv"]
    assert [one["runs"] for one in ledger["spent"]] == [1]


@pytest.mark.usefixtures("folder")
def test_a_testing_key_is_announced(capsys) -> None:
    """Nobody can miss that such a release hides nothing."""
    assert release("--testing-key", "0") == 0
    assert "testing: anybody can undo this release" in capsys.readouterr().out


def test_a_run_is_repeated_bit_for_bit_and_never_on_other_rows(folder, capsys) -> None:
    """The same key, run and rows give the same file; other rows are refused, and the file stays."""
    same = ["--key-file", "secret.key", "--run-id", "january"]
    assert release(*same) == 0
    first = (folder / "out.csv").read_bytes()
    assert release(*same, "--force") == 0
    assert (folder / "out.csv").read_bytes() == first
    assert run(["receipt", "out.csv", "--key-file", "secret.key"]) == 0
    assert "made with this key" in capsys.readouterr().out
    table = pq.read_table("readings.parquet")
    pq.write_table(table.slice(0, 199), "readings.parquet")
    assert release(*same, "--force") == 2
    assert "other rows were released under the same key and run id" in capsys.readouterr().err
    assert (folder / "out.csv").read_bytes() == first
    assert release("--key-file", "secret.key", "--force") == 0


def test_a_key_file_is_made_for_its_owner_only_and_never_overwritten(folder, capsys) -> None:
    """`whenmask key` makes a key that releases take; its content is not shown."""
    assert run(["key", "new.key"]) == 0
    made = (folder / "new.key").read_text().strip()
    assert stat.S_IMODE((folder / "new.key").stat().st_mode) == 0o600
    shown = capsys.readouterr().out
    assert "secret" in shown
    assert made not in shown
    assert release("--key-file", "new.key", "--run-id", "x", "--quiet") == 0
    assert run(["key", "new.key"]) == 2
    assert "never overwritten" in capsys.readouterr().err
    assert (folder / "new.key").read_text().strip() == made
    assert run(["key", "other.key"]) == 0
    assert (folder / "other.key").read_text().strip() != made


@pytest.mark.usefixtures("folder")
def test_columns_are_chosen_by_repeating_options(capsys) -> None:
    """`--values` and `--keep` take one name each; a column without a part is refused."""
    assert release("--values", "kwh") == 2
    assert "1 columns without a role" in capsys.readouterr().err
    assert release("--values", "kwh", "--keep", "room", "--json") == 0
    assert json.loads(capsys.readouterr().out)["columns"]["keep"] == ["room"]
    assert release("--by", "room", "--values", "kwh", "--force", "--json") == 0
    assert json.loads(capsys.readouterr().out)["columns"]["by"] == ["meter", "room"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--mechanism", "Magic"], "names no mechanism"),
        (["--epsilon", "-1"], "epsilon"),
        (["--epsilon", "much"], "epsilon"),
        (["--window", "1"], "`window` must be at least 2"),
        (["--window", "soon"], "neither a count nor a duration"),
        (["--time", "when"], "must name columns of the table"),
        (["--time", "room"], "cannot be the time"),
        (["--run-id", "x"], "`--run-id` needs `--key-file`"),
        (["--key-file", "none.key"], "key file cannot be read"),
        (["--key-file", "secret.key", "--testing-key", "1"], "exclude each other"),
        (["--testing-key", "-1"], "number"),
        (["--memory", "1KB"], "`memory` is too little"),
        (["--ledger", "nowhere/ledger"], "ledger cannot be written"),
        (["--spill", "nowhere"], "folder to work in cannot be made"),
        (["--output", "nowhere/out.csv"], "cannot be made"),
        (["--output", "out.xlsx"], "must say its format"),
        (["--output", "readings.parquet", "--force"], "must not be one of the inputs"),
        (["--frobnicate"], "frobnicate"),
    ],
)
def test_bad_options_are_refused(folder, capsys, options, problem) -> None:
    """Exit code 2, what is wrong, a hint; no traceback, and nothing left behind."""
    given = {"--window": "4", "--epsilon": "4", "--time": "time", "--output": "out.csv"}
    given.update(zip(options[::2], options[1::2], strict=False) if options[0] in given else {})
    extra = options[2:] if options[0] in given else options
    flat = [part for pair in given.items() for part in pair]
    assert run(["release", "readings.parquet", "--by", "meter", *flat, *extra]) == 2
    shown = capsys.readouterr()
    assert problem in shown.err
    assert "Hint:" in shown.err
    assert "Traceback" not in shown.err
    assert not (folder / "out.csv").exists()
    assert not list(folder.glob(".whenmask*"))


@pytest.mark.usefixtures("folder")
def test_missing_files_are_refused_by_every_command(capsys) -> None:
    """Nothing to release, no receipt, no ledger."""
    for command in (["receipt", "out.csv"], ["ledger"], ["receipt", "readings.parquet"]):
        assert run(command) == 2
        assert "Hint:" in capsys.readouterr().err
    assert release(source="no.parquet") == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_invalid_rows_are_counted_for_the_reader(capsys) -> None:
    """Refused with a hint to the option; with it, the counts are shown."""
    table = pq.read_table("readings.parquet")
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), "readings.parquet")
    assert release() == 2
    shown = capsys.readouterr().err
    assert "must occur only once" in shown
    assert "--drop-invalid" in shown
    assert release("--drop-invalid") == 0
    assert "2 at a repeated time" in capsys.readouterr().out


def test_progress_counts_rows_and_is_shown_on_a_terminal_only(capsys) -> None:
    """Where nobody looks there is no bar."""
    with progress(100, "releasing", quiet=False) as advance:
        advance(50)
    assert capsys.readouterr().err == ""


def test_progress_on_a_terminal(monkeypatch, capsys) -> None:
    """On a terminal: rows, rate and time left."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress(100, "releasing", quiet=False) as advance:
        advance(50)
        advance(50)
    shown = capsys.readouterr().err
    assert "releasing" in shown
    assert "rows" in shown
