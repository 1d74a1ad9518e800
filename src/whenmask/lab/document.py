"""The same sections as Markdown, for docs/reproduction.md: tables and words, without the figures."""

from collections.abc import Iterator, Sequence

from whenmask.lab.experiment import Section, Table
from whenmask.lab.record import Record

# Longer tables are in results.csv.
LONGEST = 20
INTRODUCTION = """# The paper, reproduced

<!-- Written by `whenmask reproduce`. -->

Every table and figure of *Stateful Switch: Optimized Time Series Release with Local Differential Privacy*,
measured again with `whenmask reproduce`, and further. That command also draws the figures, and writes longer
tables to results.csv. An epsilon is what a mechanism's paper *claims*, unless it says that it is guaranteed;
PureSwitch has no claim, its epsilon is always guaranteed, with delta 0. `±` is the standard error over repeats.
"""


def document(record: Record, sections: Sequence[tuple[str, Section]]) -> str:
    """Return the sections as Markdown."""
    return INTRODUCTION + "\n".join(
        ["", *_facts(record), *(line for _, each in sections for line in _section(each))]
    )


def _facts(record: Record) -> Iterator[str]:
    for name, fact in record.facts():
        yield f"- **{name}**: {fact}"
    yield ""


def _section(section: Section) -> Iterator[str]:
    yield f"## {section.title}\n\n{section.intro}\n\nData: {section.basis}\n"
    yield "| the paper says | | we find |\n| --- | --- | --- |"
    for finding in section.findings:
        yield f"| {_cell(finding.said)} | **{finding.verdict}** | {_cell(finding.found)} |"
    yield ""
    for block in section.blocks:
        if isinstance(block, Table):
            yield from _table(block)
    for note in section.notes:
        yield f"- {note}"
    yield ""


def _table(table: Table) -> Iterator[str]:
    if len(table.rows) > LONGEST:
        return
    yield f"{table.caption}:\n"
    yield "| " + " | ".join(map(_cell, table.columns)) + " |"
    yield "| --- |" + " ---: |" * (len(table.columns) - 1)
    for row in table.rows:
        yield "| " + " | ".join(map(_cell, row)) + " |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
