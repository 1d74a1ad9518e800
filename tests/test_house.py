"""The habits of the house: the public surface, runnable documentation, no leaks of machine or registry."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import whenmask
from whenmask import errors

ROOT = Path(__file__).parent.parent
MODULES = sorted(module.name for module in pkgutil.walk_packages(whenmask.__path__, "whenmask."))
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def test_the_surface_is_small_sorted_and_documented() -> None:
    """What is public is listed once, in order, and each name has a docstring of its own."""
    assert whenmask.__all__ == sorted(whenmask.__all__)
    for name in whenmask.__all__:
        assert inspect.getdoc(getattr(whenmask, name)), name


@pytest.mark.parametrize("name", [name for name in MODULES if "__main__" not in name])
def test_examples_in_docstrings_run(name: str) -> None:
    """Every example gives what it says it gives."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_the_documentation_runs(page: Path) -> None:
    """Every Python block of a page runs, one after the other in one namespace."""
    namespace: dict[str, object] = {"print": lambda *_: None}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(page), "exec"), namespace)  # noqa: S102 - our own pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_in_the_documentation_lead_somewhere(page: Path) -> None:
    """Every relative link names a file that is there."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_in_the_documentation_exist(page: Path) -> None:
    """Every path of code or tests that a page names in backquotes is there."""
    for path in re.findall(
        r"`((?:src|tests|docs|benchmarks|examples)/[\w./-]+)`", page.read_text(encoding="utf-8")
    ):
        assert (ROOT / path).exists(), path


def test_versions_agree() -> None:
    """The package says the version that it is built as."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == whenmask.__version__


def test_errors_have_one_form_and_survive_a_process() -> None:
    """Problem, got, hint; and an error can be sent back from a worker."""
    import pickle

    error = errors.ParameterError("`x` must be small", "x=9", "try 1")
    assert str(pickle.loads(pickle.dumps(error))) == "`x` must be small; got x=9. Hint: try 1"  # noqa: S301
    assert str(errors.DataError("it ended.")) == "it ended."
    assert issubclass(errors.ParameterError, ValueError)


def test_the_repository_names_no_registry_and_no_machine() -> None:
    """Neither hosts of package registries nor absolute paths of a machine are written down."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    suspicious = re.compile(r"index-url|find-links|pypi\.org|/(work|root|home|farm)/")
    for name in listed.stdout.splitlines():
        text = (ROOT / name).read_text(encoding="utf-8", errors="ignore")
        assert name == "tests/test_house.py" or not suspicious.search(text), name
