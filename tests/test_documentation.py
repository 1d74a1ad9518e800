"""The documentation and the examples do what they say: every command and every file is run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from whenmask.cli import run

ROOT = Path(__file__).parent.parent
# Those for Spark are run by its own tests, since they need Java.
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if "spark" not in path.name)


def commands(page: Path) -> list[str]:
    """Return the commands of a page that call whenmask, in order."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    # `reproduce` takes minutes, and `gateway` needs a broker; their own tests run them.
    own = ("whenmask reproduce", "whenmask gateway")
    return [line for line in lines if line.startswith("whenmask ") and not line.startswith(own)]


def fed(command: str) -> int:
    """Run a command that reads a file from standard input; return its exit code."""
    words, _, name = command.partition("<")
    with Path(name.strip()).open("rb") as file:
        call = [sys.executable, "-m", "whenmask", *shlex.split(words)[1:]]
        return subprocess.run(call, stdin=file, stdout=subprocess.DEVNULL, check=False).returncode


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_every_command_runs_as_it_stands(name, tmp_path, monkeypatch, capsys) -> None:
    """One after the other in an empty folder; what is said to be refused is."""
    monkeypatch.chdir(tmp_path)
    found = commands(ROOT / name)
    assert len(found) >= 4
    for line in found:
        command, _, remark = line.partition("#")
        code = fed(command) if "<" in command else run(shlex.split(command)[1:])
        shown = capsys.readouterr()
        assert code == (2 if "refused" in remark else 0), (line, shown.err)


def test_the_tutorial_says_what_happens(tmp_path, monkeypatch, capsys) -> None:
    """The counter is found, the repeat is the same file and free, and two releases add up."""
    monkeypatch.chdir(tmp_path)
    said = {}
    contents = []
    for number, line in enumerate(commands(ROOT / "docs" / "tutorial.md")):
        run(shlex.split(line.partition("#")[0])[1:])
        said[number] = (line, " ".join(capsys.readouterr().out.split()))
        if "january.csv.gz --by" in line:
            contents.append(Path("january.csv.gz").read_bytes())
    checked = next(text for line, text in said.values() if line.startswith("whenmask check"))
    assert "useless: counter, column 'total'" in checked
    spent = next(text for line, text in said.values() if line.startswith("whenmask ledger"))
    assert "20 series were released 2 times: each has spent epsilon 8" in spent
    assert len(contents) == 2
    assert contents[0] == contents[1]
    assert run(["ledger", "--json"]) == 0
    assert capsys.readouterr().out.count('"output": "january.csv.gz"') == 1


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_runs(example, tmp_path) -> None:
    """As a process of its own, in an empty folder; it says something, and warns of nothing."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", example], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
    assert not ran.stderr
