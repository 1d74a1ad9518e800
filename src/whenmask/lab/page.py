"""The page: all sections as one file of HTML that loads nothing, in the style of the release report."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from whenmask.lab.experiment import Figure, Finding, Section, Table
from whenmask.lab.record import Record
from whenmask.report.page import TEMPLATE

# Longer tables are folded away.
SHORT = 14
VERDICTS = {
    "holds": "holds",
    "holds in part": "part",
    "does not hold": "fails",
    "beyond the paper": "ours",
}
MARKS = {"holds": "✓", "part": "◐", "fails": "✗", "ours": "→"}


def page(record: Record, sections: Sequence[tuple[str, Section]]) -> str:
    """Return the page as HTML."""
    styles = [files("whenmask.report").joinpath("style.css"), files("whenmask.lab").joinpath("style.css")]
    style = "\n".join(style.read_text(encoding="utf-8").strip() for style in styles)
    parts = [_header(record, sections), *(_section(name, each) for name, each in sections), _footer(record)]
    return TEMPLATE.format(title="The paper, reproduced", style=style, sections="\n".join(parts))


def _header(record: Record, sections: Sequence[tuple[str, Section]]) -> str:
    listed = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(fact)}</dd></div>" for name, fact in record.facts())
    rows = "".join(_summary(name, each) for name, each in sections)
    return f"""<header>
<h1>The paper, reproduced</h1>
<p class="lead">Every table and figure of <em>Stateful Switch: Optimized Time Series Release with Local
Differential Privacy</em>, measured again, and further.</p>
<dl class="facts">{listed}</dl>
</header>
<nav><table class="summary">
<tr><th>statements of the paper</th><th>hold</th><th>in part</th><th>do not</th></tr>{rows}</table></nav>
<p class="small">An epsilon is what a mechanism's paper <em>claims</em>, unless the section says that it is
guaranteed; PureSwitch has no claim, its epsilon is always guaranteed, with delta 0. The two are promises of
different strength: see “At equal guarantee”.</p>"""


def _summary(name: str, section: Section) -> str:
    counts = [sum(found.verdict == verdict for found in section.findings) for verdict in list(VERDICTS)[:3]]
    cells = "".join(f"<td>{count or '–'}</td>" for count in counts)
    return f'<tr><td><a href="#{name}">{escape(section.title)}</a></td>{cells}</tr>'


def _section(name: str, section: Section) -> str:
    blocks = "\n".join(_figure(block) if isinstance(block, Figure) else _table(block) for block in section.blocks)
    notes = "".join(f"<li>{escape(note)}</li>" for note in section.notes)
    found = "".join(map(_finding, section.findings))
    return f"""<section id="{name}">
<h2>{escape(section.title)}</h2>
<p>{escape(section.intro)}</p>
<p class="small">Data: {escape(section.basis)}</p>
<ul class="said">{found}</ul>
{blocks}
<ul class="notes">{notes}</ul>
</section>"""


def _finding(finding: Finding) -> str:
    kind = VERDICTS[finding.verdict]
    return (
        f'<li class="{kind}"><span class="verdict">{MARKS[kind]} {escape(finding.verdict)}</span> '
        f"<strong>{escape(finding.said)}</strong><br>{escape(finding.found)}</li>"
    )


def _figure(figure: Figure) -> str:
    return f"<figure>{figure.svg}<figcaption>{escape(figure.caption)}</figcaption></figure>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    drawn = f'<div class="scroll"><table class="data"><tr>{head}</tr>{body}</table></div>'
    if len(table.rows) > SHORT:
        return f"<details><summary>{escape(table.caption)}</summary>{drawn}</details>"
    return f'<p class="caption">{escape(table.caption)}</p>{drawn}'


def _footer(record: Record) -> str:
    words = (
        "Every draw comes from a testing key, so a re-run gives the same numbers. A row for each repeat is in "
        "measurements.parquet, one for each mean in results.csv."
    )
    return f'<footer><p class="small">whenmask {escape(record.version)}. {words}</p></footer>'
