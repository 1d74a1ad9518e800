"""`whenmask stream`: readings as JSON lines in, releases as JSON lines out."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console

from whenmask.cli.options import Flag, Listed, Secrets
from whenmask.errors import DataError
from whenmask.gateway.configuration import Privacy
from whenmask.gateway.exchange import Exchange, Inlet, Limits
from whenmask.gateway.loading import parse_fields
from whenmask.gateway.pipe import finish, pipe
from whenmask.gateway.reading import REASONS, Reader
from whenmask.gateway.service import Law
from whenmask.gateway.state import MEMORY
from whenmask.mechanisms import MECHANISMS


def stream(
    *,
    time: str,
    time_format: Literal["iso", "s", "ms", "us", "ns"] = "iso",
    by: Annotated[list[str] | None, Listed] = None,
    values: Annotated[list[str] | None, Listed] = None,
    keep: Annotated[list[str] | None, Listed] = None,
    rest: Literal["refuse", "move", "keep", "drop"] | None = None,
    epsilon: float,
    window: int,
    mechanism: str = next(iter(MECHANISMS)),
    calibrate: Literal["guarantee", "claim"] | None = None,
    delay: int | None = None,
    secrets: Secrets = Secrets(),
    state: Path | None = None,
    end: Annotated[bool, Flag] = False,
    quiet: Annotated[bool, Flag] = False,
) -> None:
    """Release JSON lines from standard input on standard output, one by one.

    Each line is an object; the fields `time`, `by` and `keep` stay, the others move within their series. Lines
    that cannot be used are left out and counted, and the exit code is then 2.

    Example: `whenmask stream --time time --by meter --values kwh --epsilon 4 --window 48 < in.jsonl`

    Args:
        time: The field that orders a series.
        time_format: ISO 8601 text, or a number of seconds or of parts of one.
        by: The field that names the series; repeat it for several.
        values: A field that moves; repeat it for several. By default all that have no other part.
        keep: A further field that stays where it is, in the clear; repeat it for several.
        rest: What becomes of lines with other fields, or of those fields; by default they move, or the line is
            refused where --values names what moves.
        epsilon: The privacy budget.
        window: How many readings of a series may trade places.
        mechanism: PureSwitch, RanSwitch, StaSwitch, Threshold, Backward or Forward.
        calibrate: What epsilon bounds; by default the guarantee, or the claim where nothing is proved.
        delay: After how many further readings a slot leaves; by default so many that watching the clock adds at
            most 1e-6 to delta.
        secrets: The key and the run.
        state: A file that keeps what waits for the next start; needs --key-file. Without it, all that waits is
            released when the input ends.
        end: Release all that waits when the input ends, with --state too.
        quiet: Print nothing on standard error.
    """
    key, run = secrets.opened_for(state)
    law = Law.of(Privacy(epsilon=epsilon, window=window, mechanism=mechanism, calibrate=calibrate, delay=delay))
    roles = {"time": time, "time_format": time_format, "id": by or [], "move": values or [], "keep": keep or []}
    others = rest or ("refuse" if values else "move")
    fields = parse_fields({**roles, "rest": others, "max_ahead_seconds": 0})
    inlet = Inlet(Reader(fields))
    opened = law.open_state(MEMORY if state is None else str(state), key, encrypt=state is not None, run=run)
    with opened:
        exchange = Exchange(law.course(key, opened), opened, Limits(series=sys.maxsize))
        pipe(exchange, inlet, fields.max_bytes)
        if end or state is None:
            finish(exchange, ((inlet, name) for name in exchange.names()))
        counts, waiting = exchange.counts, opened.totals()["pending"]
    if key.kind == "testing" and not quiet:
        Console(stderr=True).print("testing key: anybody can undo this release")
    report(dict(counts), waiting, quiet=quiet)


def report(counts: dict[str, int], waiting: int, *, quiet: bool) -> None:
    """Say what happened.

    Raises:
        DataError: Lines were refused.
    """
    refused = {
        name.removeprefix("refused "): count for name, count in counts.items() if name.startswith("refused ")
    }
    if not quiet:
        lines = f"{counts.get('inputs', 0):,} lines in, {counts.get('released', 0):,} out"
        doubled = f", {counts['duplicates']:,} came again" if counts.get("duplicates") else ""
        Console(stderr=True, highlight=False).print(f"{lines}{doubled}, {waiting:,} waiting")
    if refused:
        reason = max(refused, key=lambda name: refused[name])
        got = ", ".join(f"{count:,} {name}" for name, count in sorted(refused.items()))
        raise DataError("lines were left out", got, f"{reason}: {REASONS[reason]}")
