"""Reading the one TOML file of a gateway, with errors that name the line and what is allowed there."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from whenmask.errors import FileError, ParameterError, WhenmaskError
from whenmask.gateway.configuration import Configuration, Fields, Section
from whenmask.gateway.lines import find_line

PATH = re.compile(r"(?: - at `\$(?P<path>[^`]*)`)?$")
PART = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")


def load_configuration(path: str | Path) -> Configuration:
    """Read and check a configuration file.

    Raises:
        FileError: The file cannot be read.
        ParameterError: It is no TOML, or a setting is unknown, missing or wrong.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no UTF-8 text"
        raise FileError("the configuration cannot be read", reason, "check its path and owner") from None
    return parse_configuration(text, Path(path).name)


def parse_configuration(text: str, name: str = "the configuration") -> Configuration:
    """Check the text of a configuration file; see `load_configuration`."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        hint = "see examples/gateway/gateway.toml"
        raise ParameterError(f"{name} is not TOML: {error}", hint=hint) from None
    try:
        configuration = msgspec.convert(content, Configuration)
    except msgspec.ValidationError as error:
        raise _refusal(text, name, str(error)) from None
    try:
        configuration.privacy.chosen()
    except WhenmaskError as error:
        line = find_line(text, ("privacy", _named_setting(error.problem)))
        raise ParameterError(f"{name}, line {line}: {error.problem}", error.got, error.hint) from None
    return configuration


def parse_fields(content: dict[str, Any]) -> Fields:
    """Check what fields are, where there is no file.

    Raises:
        ParameterError: They do not go together.
    """
    try:
        return msgspec.convert(content, Fields)
    except msgspec.ValidationError as error:
        problem, _, got = _located(str(error))[0].partition("; got ")
        raise ParameterError(problem, got or None, "a field is named by one option") from None


def _named_setting(problem: str) -> str:
    found = re.search(r"`(\w+)`", problem)
    return found[1] if found else "mechanism"


def _refusal(text: str, name: str, message: str) -> ParameterError:
    """Return the error of a setting, with its line and what is allowed there."""
    problem, path = _located(message)
    unknown = re.search(r"unknown field `([^`]*)`", problem)
    missing = re.search(r"missing required field `([^`]*)`", problem)
    section = _section_at(path)
    hint = "see examples/gateway/gateway.toml"
    if unknown:
        path = (*path, unknown[1])
        problem = f"there is no setting `{unknown[1]}` here"
        hint = f"the settings here are {', '.join(_names(section))}"
    elif missing:
        problem = f"the setting `{missing[1]}` is missing"
        hint = f"the settings here are {', '.join(_names(section))}"
    elif problem.startswith(("Expected", "Invalid")):
        kind = re.search(r"got (`\w+`)|value ('.*')", problem)
        problem = f"`{path[-1]}` cannot be this" + (f"; got {kind[1] or kind[2]}" if kind else "")
        allowed = _allowed(path)
        hint = f"allowed are {allowed}" if allowed else hint
    problem, _, own_hint = problem.partition(". Hint: ")
    problem, _, got = problem.partition("; got ")
    line = find_line(text, path)
    where = f"{name}, line {line}" if line else name
    return ParameterError(f"{where}: {problem}", got or None, own_hint or hint)


def _located(message: str) -> tuple[str, tuple[str | int, ...]]:
    """Return a message of msgspec without the paths at its end, and the path that they make up."""
    path: tuple[str | int, ...] = ()
    while (found := PATH.search(message)) and found["path"] is not None:
        message = message[: found.start()]
        parts = PART.finditer(found["path"])
        # The outer path stands last.
        path = (*path, *(int(part[2]) if part[2] else part[1] for part in parts if part[0] != "[...]"))
    return message, path


def _walk_types(path: tuple[str | int, ...]) -> Iterator[Any]:
    """Yield the type of the file and then that of each part of a path, as far as it is known."""
    kind: Any = Configuration
    yield kind
    for part in path:
        if isinstance(part, int):
            kind = get_args(kind)[0]
        else:
            kind = next((arg for arg in (kind, *get_args(kind)) if _is_section(arg)), None)
            names = {field.encode_name: field.name for field in msgspec.structs.fields(kind)} if kind else {}
            if part not in names:
                return
            kind = get_type_hints(kind)[names[str(part)]]
        yield kind


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def _section_at(path: tuple[str | int, ...]) -> Any:
    """Return the innermost table that a path leads through."""
    found = [arg for kind in _walk_types(path) for arg in (kind, *get_args(kind)) if _is_section(arg)]
    return found[-1]


def _names(section: type[Section]) -> list[str]:
    return sorted(field.encode_name for field in msgspec.structs.fields(section))


def _allowed(path: tuple[str | int, ...]) -> str | None:
    """Return the values that a setting may have, where they are few or of a kind that can be named."""
    kinds = list(_walk_types(path))
    if not path or len(kinds) <= len(path):
        return None
    if any(get_origin(arg) is list for arg in (kinds[-1], *get_args(kinds[-1]))):
        return "lists of texts in square brackets"
    choices = [arg for arg in (kinds[-1], *get_args(kinds[-1])) if get_origin(arg) is Literal]
    if choices:
        return ", ".join(f'"{choice}"' for choice in get_args(choices[0]))
    words = {int: "whole numbers", float: "numbers", str: "texts in quotes", bool: "true and false"}
    plain = [words[arg] for arg in (kinds[-1], *get_args(kinds[-1])) if arg in words]
    return plain[0] if plain else None
