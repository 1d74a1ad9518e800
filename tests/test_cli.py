"""The command line as a person would type it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from whenmask import __version__
from whenmask.cli import run
from whenmask.cli.show import promise

ROOT = Path(__file__).parent.parent


def test_the_demo_keeps_what_and_moves_when(capsys) -> None:
    """The demo shows readings that moved, a total that did not, and claim and guarantee apart."""
    assert run(["demo"]) == 0
    shown = capsys.readouterr().out
    assert "What stayed: all 48 readings" in shown
    assert "here" in shown
    assert "claim" in shown
    assert "proved" in shown


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"], []])
def test_help_comes_with_exit_code_zero(arguments, capsys) -> None:
    """Help is printed for the whole, for a command, and where nothing is asked for."""
    assert run(arguments) == 0
    assert "Usage: whenmask" in capsys.readouterr().out


def test_the_version_is_the_packages() -> None:
    """`whenmask --version` runs as a process of its own and says which version it is."""
    ran = subprocess.run(
        [sys.executable, "-m", "whenmask", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == __version__


@pytest.mark.parametrize("arguments", [["frobnicate"], ["demo", "--frobnicate"], ["demo", "extra"]])
def test_bad_commands_exit_with_two_and_no_traceback(arguments, capsys) -> None:
    """What is wrong goes to standard error, with a hint."""
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "error:" in shown.err
    assert "Hint:" in shown.err
    assert "Traceback" not in shown.err


def test_the_reference_is_what_the_help_says() -> None:
    """docs/cli.md is what `make docs` would write now."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec
    assert spec.loader
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == generate.reference()


def test_no_promise_is_shown_as_less_than_it_is() -> None:
    """Figures of privacy are rounded up, in tables as anywhere."""
    shown = promise({"epsilon": 1.00001, "delta": 0.12341, "basis": "proved"})
    assert shown == "ε = 1.001, δ = 0.1235, proved"
