"""The page itself: sections of HTML around the figures, one template, and nothing from outside.

Whatever comes from the data or from a person is escaped. The page carries a policy that forbids a browser to load
anything, so that it cannot even by mistake.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from html import escape
from importlib.resources import files

import numpy as np

from whenmask.law import UnitCosts
from whenmask.losses import Loss
from whenmask.report import charts
from whenmask.report.charts import percent, plain
from whenmask.report.data import ReportData

# Columns drawn in one figure, and bars in a histogram, at most.
LINES = 4
BARS = 301
# A probability below which nothing has to be expected to happen.
NEVER = 1e-12

TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<main>
{sections}
</main>
</body>
</html>
"""


def page(data: ReportData) -> str:
    """Return the page as HTML."""
    sections = (
        header(data),
        promise(data),
        findings(data),
        movement(data),
        costs(data),
        losses(data),
        shown(data),
    )
    style = files("whenmask.report").joinpath("style.css").read_text(encoding="utf-8").strip()
    return TEMPLATE.format(
        title="Release report", style=style, sections="\n".join(part for part in (*sections, footer(data)) if part)
    )


def header(data: ReportData) -> str:
    """Return what was released, and who may see this page."""
    facts = {
        "Rows": f"{data.rows:,}",
        "Series": f"{data.series:,}",
        "Window": f"{data.law.window:,} slots",
        "Mechanism": data.mechanism.partition("(")[0],
    }
    if data.key_kind is not None:
        facts["Key"] = data.key_kind
    if data.run is not None:
        facts["Run"] = data.run
    listed = "".join(f"<div><dt>{name}</dt><dd>{escape(fact)}</dd></div>" for name, fact in facts.items())
    testing = (
        '<div class="banner stop"><p><strong>Made with a testing key.</strong> Whoever knows its number can undo '
        "this release. Release again with a secret key before anything leaves the house.</p></div>"
        if data.key_kind == "testing"
        else ""
    )
    return f"""<header>
<h1>What this release hides, and what it costs</h1>
<p class="lead">Values are exact; the moments they occurred at have traded places.</p>
<dl class="facts">{listed}</dl>
</header>
{testing}<div class="banner"><p><strong>Keep this page with the original data.</strong> Its counts come from the
secret plan, and the guarantee does not cover them. Do not publish it beside the release.</p></div>"""


def promise(data: ReportData) -> str:
    """Return the guarantee and the claim, told apart by more than a word."""
    return f"""<section id="promise">
<h2>What is promised</h2>
<p>Take two values of one series, less than {data.law.window:,} slots apart, and someone who knows everything but
which of the two came first. A guarantee of (ε, δ) says that the release changes that person's odds by a factor of
e<sup>ε</sup> at most, but for a probability of δ, with which it may tell.</p>
<div class="cards">{_guarantee(data)}{_claim(data)}</div>
</section>"""


def _guarantee(data: ReportData) -> str:
    given = data.guarantee
    if given.basis == "proved":
        kind, tag, title, words = "proved", "guarantee · proved", "What holds", _proved(data)
    else:
        kind, tag, title, words = (
            "audited",
            "measured · evidence, not a proof",
            "What was measured",
            _measured(data),
        )
    return f"""<div class="card {kind}"><span class="tag">{tag}</span>
<h3>{title}</h3><p class="big">ε = {up(given.epsilon)}, δ = {up(given.delta)}</p>
<p>{words}</p></div>"""


def _proved(data: ReportData) -> str:
    """Return what a proved guarantee says."""
    delta = data.guarantee.delta
    if delta == 0:
        exceptions = "Without exception: δ is 0."
    elif delta < NEVER:
        exceptions = "Exceptions are so rare that none will ever be seen."
    else:
        exceptions = f"But with a probability of up to <strong>{percent_up(delta)}</strong> it may tell."
    return f"Odds change by a factor of {_factor(data)} at most. {exceptions}"


def _measured(data: ReportData) -> str:
    """Return what is known where nothing is proved."""
    given = data.guarantee
    words = (
        f"As far as was measured, odds change by a factor of {_factor(data)} at most, but for a probability of "
    )
    words += f"up to <strong>{percent_up(given.delta)}</strong>, with which it may tell"
    if given.interval is not None and given.trials is not None and given.confidence is not None:
        words += f": on {given.trials:,} drawn plans δ lies between {down(given.interval[0])} and "
        words += f"{up(given.interval[1])}, with a confidence of {100 * given.confidence:.6g}%"
    if data.least_delta > 0:
        words += f". What is proved is a lower bound: no δ below {down(data.least_delta)} holds, at any ε"
    return f"{words}."


def _factor(data: ReportData) -> str:
    return up(math.exp(min(data.guarantee.epsilon, 700)))


def _claim(data: ReportData) -> str:
    claim = data.claim
    if claim is None:
        return ""
    return f"""<div class="card claimed"><span class="tag">published claim · not a guarantee</span>
<h3>What the paper says</h3><p class="big">ε = {up(claim.epsilon)}, δ = {up(claim.delta)}</p>
<p>{escape(claim.source)}. It bounds single outputs only, and stands here so that figures can be compared with
the paper's. Do not rely on it.</p></div>"""


def findings(data: ReportData) -> str:
    """Return what the check found about the table, if anything."""
    if not data.findings:
        return ""
    listed = "\n".join(
        f"<li><strong>{escape(one.severity)}</strong>: {escape(str(one))}</li>" for one in data.findings
    )
    useless = any(one.severity == "useless" for one in data.findings)
    told = "This table was released although the check found that it tells the order by itself."
    banner = f'<div class="banner stop"><p><strong>{told}</strong></p></div>' if useless else ""
    return f"""<section id="findings"><h2>What the check found</h2>{banner}
<ul class="findings">{listed}</ul></section>"""


def movement(data: ReportData) -> str:
    """Return the histogram of displacements against the law."""
    figure, beyond, step = _histogram(data)
    key = '<span class="k-law">the mechanism\'s law</span><span class="k-edge">the window</span>'
    words = f"By its law, {percent(data.law.probability(0))} of values stay at their own timestamp, and a value "
    words += f"moves {plain(data.law.mean_distance)} slots on average."
    if data.counts is not None:
        key = f'<span class="k-bar">this release</span><span class="k-still">values that stayed</span>{key}'
        words += f" {_agreement(data)}"
    if beyond:
        words += f" Not drawn, as they lie further out: {percent(beyond)} of values."
    if step > 1:
        words += f" Each point is the mean over {step} neighbouring displacements."
    return f"""<section id="movement"><h2>How far values moved</h2>
<figure><div class="key">{key}</div>{figure}<figcaption>{words}</figcaption></figure></section>"""


def _agreement(data: ReportData) -> str:
    """Return how well counts and law agree, in words."""
    if data.counts is None or data.displacements is None or not data.counts.sum():
        return "In this release there was nothing to count."
    released = int(data.counts.sum())
    distance = plain(float(np.abs(data.displacements) @ data.counts) / released)
    stayed = percent(float(data.counts[data.displacements == 0].sum()) / released)
    return f"Counted over {released:,} values: {stayed} stayed, and the mean distance was {distance} slots."


def _histogram(data: ReportData) -> tuple[str, float, int]:
    """Return the figure, the share of values that it leaves out, and how many displacements a bar stands for."""
    law = dict(zip(data.law.displacements.tolist(), data.law.probabilities.tolist(), strict=True))
    counted: dict[int, float] = {}
    if data.counts is not None and data.displacements is not None and data.counts.sum():
        shares = data.counts / data.counts.sum()
        counted = dict(zip(data.displacements.tolist(), shares.tolist(), strict=True))
    peak = max((share for place, share in law.items() if place), default=0.0)
    drawn = [place for place, share in law.items() if share > peak / 200] or [0]
    low, high = min(0, *drawn), max(0, *drawn)
    step = max(1, math.ceil((high - low) / BARS))
    first, last = math.ceil(-low / step), math.ceil(high / step)

    bars = list(range(-first, last + 1))
    heights = [np.array([_height(shares, bar, step) for bar in bars]) for shares in (law, counted)]
    places = np.array([bar * step - math.copysign((step - 1) / 2, bar) if bar else 0.0 for bar in bars])
    beyond = sum(share for place, share in (counted or law).items() if not -first * step <= place <= last * step)
    seen = heights[1] if counted else None
    return charts.histogram(places, heights[0], seen, (data.law.window, step)), beyond, step


def _height(shares: dict[int, float], bar: int, step: int) -> float:
    """Return the mean share of the displacements that a bar stands for; 0 stands alone."""
    places = range((abs(bar) - 1) * step + 1, abs(bar) * step + 1) if bar else range(1)
    return sum(shares.get(-place if bar < 0 else place, 0.0) for place in places) / len(places)


def costs(data: ReportData) -> str:
    """Return the costs, counted and expected."""
    units, window, law, counted = UnitCosts(), data.law.window, data.law, data.costs
    rows = [
        ("Slots moved", units.displacement, law.mean_distance, counted and counted.displacement),
        ("Missing values", window, law.missing, counted and counted.missing),
        ("Repeated values", window, law.repeated, counted and counted.repeated),
        ("Empty slots", window, law.empty, counted and counted.empty),
    ]
    cells = []
    for name, unit, expected, count in rows:
        seen = (
            "" if counted is None else f"<td>{count:,}</td><td>{plain((count or 0) / max(counted.slots, 1))}</td>"
        )
        cells.append(f"<tr><td>{name}</td>{seen}<td>{plain(expected)}</td><td>× {plain(unit)}</td></tr>")
    total = "" if counted is None else f"<td></td><td>{plain(counted.per_slot())}</td>"
    heads = "" if counted is None else "<th>counted</th><th>counted per slot</th>"
    return f"""<section id="costs"><h2>What it costs</h2>
<p>Every slot that a value is moved by costs 1; a value that is missing or repeated, and a slot that stays empty,
cost as much as the window. These are the unit costs of the paper's experiments.</p>
<div class="scroll"><table><thead><tr><th></th>{heads}<th>expected per slot</th><th>unit cost</th></tr></thead>
<tbody>{"".join(cells)}
<tr class="sum"><td>Cost per slot</td>{total}<td>{plain(law.expected_cost())}</td><td></td></tr></tbody></table>
</div>
<p class="small">Expected is what the law gives away from the ends of a series; the start and end of each series
cost a little less or more.</p></section>"""


def losses(data: ReportData) -> str:
    """Return what moving averages and counts lost."""
    if not data.losses:
        return """<section id="losses"><h2>What statistics lose</h2>
<p>Totals and averages over a whole series lose nothing. No column of numbers was compared over shorter
ranges.</p></section>"""
    by_column: dict[str, list[Loss]] = {}
    for loss in data.losses:
        by_column.setdefault(loss.column, []).append(loss)
    lengths = sorted({loss.rows for loss in data.losses})
    complete = {name: found for name, found in by_column.items() if len(found) == len(lengths)}
    varied = {name: found for name, found in complete.items() if found[0].spread > 0}
    averages = [(name, [100 * one.average / one.spread for one in found]) for name, found in varied.items()]
    counts = [(name, [100 * one.count / one.rows for one in found]) for name, found in complete.items()]
    titles = (
        ("error of moving averages, % of the column's standard deviation", "%"),
        ("error of counts above a threshold, % of the rows in the range", "%"),
    )
    figures = "".join(
        f"<figure>{charts.curves(lengths, lines[:LINES], data.law.window, title)}"
        f"<figcaption>{caption}</figcaption></figure>"
        for lines, title, caption in (
            (averages, titles[0], "How far a moving average over the release is from that over the original."),
            (counts, titles[1], "How far the number of values above the threshold is from the true one."),
        )
        if lines
    )
    left = max(len(averages), len(counts)) - LINES
    more = f'<p class="small">{left} further columns are in the table only.</p>' if left > 0 else ""
    return f"""<section id="losses"><h2>What statistics lose</h2>
<p>Sums and averages over a whole series lose nothing, since values only trade places (where none is missing or
repeated). Over shorter ranges they differ from the original's; the longer the range, the less. All errors are root
mean squares.</p>{figures}{more}{_loss_table(data)}</section>"""


def _loss_table(data: ReportData) -> str:
    rows = "".join(
        f"<tr><td>{escape(one.column)}</td><td>{one.rows:,}</td><td>{plain(one.average)}</td>"
        f"<td>{percent(one.average / one.spread) if one.spread else '–'}</td><td>{plain(one.count)}</td>"
        f"<td>{one.ranges:,}</td></tr>"
        for one in data.losses
    )
    return f"""<details><summary>The same in numbers</summary><div class="scroll"><table><thead><tr><th>column</th>
<th>rows in the range</th><th>error of the average, in units of the column</th><th>relative to its standard
deviation</th><th>error of the count, in values</th><th>ranges compared</th></tr></thead>
<tbody>{rows}</tbody></table></div>
<p class="small">A range lies within one series. A moving average is over the values that are there; ranges without
any are left out. The threshold is the median of the first rows of the column.</p></details>"""


def shown(data: ReportData) -> str:
    """Return one series before and after, if it was asked for."""
    if data.asked is None:
        return ""
    title = f"Series {escape(data.asked)}, before and after"
    if data.example is None:
        return f"""<section id="example"><h2>{title}</h2>
<p>The table has no such series, or no column of numbers to draw.</p></section>"""
    one = data.example
    panels = "".join(
        charts.strip(values, other, one.times, (f"{one.column}, {name}", kind), data.law.window)
        for values, other, name, kind in (
            (one.before, one.after, "as recorded", "before"),
            (one.after, one.before, "as released", "after"),
        )
    )
    lossy = data.law.missing or data.law.repeated or data.law.empty
    lost = " So do values that are missing, and some stand there twice." if lossy else ""
    return f"""<section id="example"><h2>{title}</h2>
<div class="banner stop"><p><strong>This figure shows raw data.</strong> Nothing protects it: whoever sees this
page sees when each of these values occurred. It is here because this series was asked for by name.</p></div>
<figure>{panels}<figcaption>The first {len(one.before):,} rows, both panels on the same scale. Values that come in
or leave at the right edge stand in one panel only.{lost}</figcaption></figure></section>"""


def footer(data: ReportData) -> str:
    """Return how it was made."""
    made = f"whenmask {escape(data.version)}" if data.version else "whenmask"
    return f"""<footer class="small"><p>Made by {made}. Exact parameters: <code>{escape(data.mechanism)}</code>.
This page is complete in itself: it loads nothing and sends nothing.</p></footer>"""


def up(number: float) -> str:
    """Return a number of three significant digits that is not below it: figures of privacy are rounded up."""
    return _rounded(number, ROUND_CEILING)


def down(number: float) -> str:
    """Return a number of three significant digits that is not above it: lower bounds are rounded down."""
    return _rounded(number, ROUND_FLOOR)


def percent_up(share: float) -> str:
    """Return a probability as a percentage that is not below it."""
    return f"{up(min(100.0, math.nextafter(100 * share, math.inf)))}%"


def _rounded(number: float, rounding: str) -> str:
    if number == 0 or not math.isfinite(number):
        return "0" if number == 0 else "∞"
    exact = Decimal(number)
    rounded = exact.quantize(Decimal(1).scaleb(exact.adjusted() - 2), rounding).normalize()
    if -5 <= rounded.adjusted() < 7:
        return f"{rounded:,f}"
    return f"{rounded.scaleb(-rounded.adjusted()):f}e{rounded.adjusted()}".replace("-", "−")
