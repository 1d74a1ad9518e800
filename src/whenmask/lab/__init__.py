"""The lab: every table and figure of the paper, measured again, and what the paper leaves open.

`whenmask reproduce` runs the experiments, each in a module of its own, through the public API. An experiment is
tasks that measure, which run on all cores, and a section that tells what came out; results are tidy rows between
the two, so that a page can be drawn again without measuring again.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from whenmask.errors import FileError, ParameterError, whole_number
from whenmask.lab import allocation, averages, bills, clusters, cost, counts, future, promises
from whenmask.lab.datasets import LOADERS
from whenmask.lab.document import document
from whenmask.lab.experiment import Experiment, Scope, Section
from whenmask.lab.page import page
from whenmask.lab.record import Record, Source
from whenmask.lab.results import Measured, Results, read_measurements, write_measurements
from whenmask.lab.running import check_packages, run_tasks

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (allocation, cost, averages, counts, clusters, promises, future, bills)
}


def chosen(names: Sequence[str] | None) -> list[Experiment]:
    """Return the experiments that are named, or all, in their order.

    Raises:
        ParameterError: A name names none.
    """
    for name in names or ():
        if name not in EXPERIMENTS:
            raise ParameterError(
                "there is no such experiment", repr(name[:40]), f"choose from {', '.join(EXPERIMENTS)}"
            )
    return [each for name, each in EXPERIMENTS.items() if not names or name in names]


def reproduce(
    scope: Scope,
    output: Path,
    *,
    only: Sequence[str] | None = None,
    workers: int | None = None,
    version: str,
    progress: Callable[[int], Callable[[], None]] | None = None,
) -> list[tuple[str, Section]]:
    """Run experiments, write their results and the page, and return their sections.

    Args:
        scope: What is to be run, and on what.
        output: The folder to write to; it is made if it is not there.
        only: The names of the experiments; all by default. What is in the folder of others is kept, if it was
            measured on the same data with the same version; the page says with which settings. Each experiment
            is kept as soon as it is done.
        workers: How many processes; by default one for each core.
        version: The version of the package, for the page.
        progress: Is called with the number of tasks, and returns what is called after each.

    Raises:
        WhenmaskError: A package or data file is missing or damaged; nothing has been run then.
    """
    experiments = chosen(only)
    count = whole_number("workers", workers or os.cpu_count() or 1, least=1, hint="it counts processes")
    check_packages(experiments)
    names = list(dict.fromkeys(name for each in experiments for name in each.data))
    sources = {name: Source.of(LOADERS[name](scope.folder)) for name in names}
    tasks = [each.tasks(scope) for each in experiments]
    advance = progress(sum(map(len, tasks))) if progress else lambda: None
    output.mkdir(parents=True, exist_ok=True)
    for each, measured in zip(experiments, run_tasks(tasks, workers=count, advance=advance), strict=True):
        used = [sources[name] for name in each.data]
        _keep(output, Record({each.name: scope.effort}, used, version), measured)
    return redraw(output)


def _keep(output: Path, record: Record, measurements: list[Measured]) -> None:
    """Write what was measured of an experiment beside what is there of others."""
    record, others = _joined(output, record)
    data = {name: record.basis(name, EXPERIMENTS[name].data) for name in record.efforts}
    write_measurements(output, others + measurements, data)
    record.write(output)


def _joined(output: Path, record: Record) -> tuple[Record, list[Measured]]:
    """Return a record of all, and what is there of other experiments, if data and version are the same."""
    try:
        earlier, measurements = Record.read(output), read_measurements(output)
    except FileError:
        return record, []
    known = {source.name: source for source in earlier.sources}
    changed = any(known.get(source.name, source) != source for source in record.sources)
    if changed or earlier.version != record.version:
        return record, []
    efforts = earlier.efforts | record.efforts
    sources = list((known | {source.name: source for source in record.sources}).values())
    others = [each for each in measurements if each.setting.experiment not in record.efforts]
    return Record(
        {name: efforts[name] for name in EXPERIMENTS if name in efforts}, sources, record.version
    ), others


def redraw(output: Path) -> list[tuple[str, Section]]:
    """Draw the page and write the document from the results in a folder; return the sections.

    Raises:
        FileError: There are none, or they are damaged.
    """
    record = Record.read(output)
    results = Results.gathered(read_measurements(output))
    sections = []
    for each in chosen(list(record.efforts)):
        section = each.section(results.where(experiment=each.name))
        sections.append((each.name, replace(section, basis=record.basis(each.name, each.data))))
    (output / "index.html").write_text(page(record, sections), encoding="utf-8")
    (output / "reproduction.md").write_text(document(record, sections), encoding="utf-8")
    return sections


__all__ = ["EXPERIMENTS", "Scope", "chosen", "redraw", "reproduce"]
