"""The page of a table, as Markdown: what it asks, one table that fits a screen, the command, smaller tables below."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from robustmat.dataset.pairs import NEGATIVES
from robustmat.files import write_text
from robustmat.tables.labels import condition_label, row_label
from robustmat.tables.paper import PAPER_DATA, paper_figures
from robustmat.tables.values import HEADLINE, LOWER_IS_BETTER, Line, Section

METRIC_LABELS = {
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "auc_paper": "AUC (paper)",
    "roc_auc": "ROC AUC",
    "fpr95": "FPR at 95 %",
    "match_f1": "match F1",
}
BESIDE = ("f1", "auc_paper", "match_f1")  # stand beside the headline metric; the CSV has all
MOST_ROWS = 25  # of one table; more are split by what the scores know
GROUPS = {  # what stands behind the plus of a row's name -> the heading of its rows
    "": "Single pairs",
    "neighbors": "With the neighbours' scores averaged in",
    "competition": "With competition between all landmarks of two frames",
    "frames": "With competition between all landmarks of two frames",
    "placement": "With box positions and categories as well",
}
SEVERAL_SEEDS = "Mean ± standard deviation over seeds; the best is bold."
ONE_SEED = "One seed, so no deviations; the best is bold."
REFERENCE_ROWS = (
    "Reference rows, which learn nothing of pixels, are in italics: *always match* says yes to every pair, "
    "*same class* to every pair of one category; *VGG* and *BoostDesc* are OpenCV's local descriptors."
)
READING = (
    "ROC AUC, F1 and AUC (paper), which is (TPR + TNR) / 2, are of single pairs, three matched to one unmatched; match "
    "F1 is of one-to-one matches in whole frame pairs. Thresholds come from validation data. The CSV beside this page "
    "holds all metrics of all rows."
)
LEADS = (
    "A lead is in ROC AUC, over {rival}, with a 95 % interval by a paired bootstrap over objects{chosen}; bold where "
    "the interval leaves out zero."
)
CHOSEN = ", widened for the choice of the best among so many rivals (Bonferroni)"


@dataclass(frozen=True)
class Column:
    """A column of numbers: one metric in one section."""

    heading: str
    section: Section
    metric: str
    with_deviation: bool = False


@dataclass(frozen=True)
class Commands:
    """How a table is made: `whole` trains for the `amount` that a sentence tells, `again` reads the predictions."""

    whole: str
    again: str
    amount: str


def write_page(
    path: Path, table: str, title: str, question: str, sections: Sequence[Section], commands: Commands
) -> Path:
    """All sections of a table on one page; the first of each condition is the mean over tests where there are several.

    Args:
        table: whose figures of the paper stand beside ours.
    """
    same, other = ([section for section in sections if section.negatives == kind] for kind in NEGATIVES)
    if not same:
        same, other = other, []
    parts = [f"# {path.stem}: {title}", f"{question} {_scope(same)}"]
    groups = list(_groups(same[0]))
    head, *rest = groups
    leads = _shown(same)
    parts.append(_table(_columns(same), head[1], leads))
    several = any(len(line.values[HEADLINE]) > 1 for line in same[0].lines)
    expected = "the numbers above, within their deviation" if several else "about the numbers above"
    parts += [
        _reading(same[0], leads, several),
        "## Command",
        f"{commands.amount} Expect {expected}.",
        _shell(commands.whole),
        "Without training, from the file of predictions, exactly the numbers above:",
        _shell(commands.again),
    ]
    for heading, rows in rest:
        parts += [f"## {heading}", _table(_columns(same), rows, leads)]
    if rest:
        parts.append("Below are the rows of the first table alone, test by test; all others are in the CSV.")
    tests = [test for test in dict.fromkeys(section.test for section in same) if test != same[0].test]
    if len({section.condition for section in same}) > 1:
        for test in tests:
            mine = [section for section in same if section.test == test]
            parts += [f"## {test}", *_split(_columns(mine), groups[:1])]
    if other:
        parts += ["## Random negatives", "Unmatched pairs of any two landmarks, not of one category alone."]
        parts += _split(_columns(other), groups[:1])
    parts += _beside_paper(table, same)
    write_text(path, "\n\n".join(parts) + "\n")
    return path


def _reading(section: Section, leads: Section, several_seeds: bool) -> str:
    said = [SEVERAL_SEEDS if several_seeds else ONE_SEED]
    said += [REFERENCE_ROWS] if any(line.is_reference for line in section.lines) else []
    said += [READING, *([_reading_of_leads(leads)] if leads.differences else [])]
    return " ".join(said)


def _reading_of_leads(section: Section) -> str:
    if section.against:
        return LEADS.format(rival=row_label(section.against), chosen="")
    return LEADS.format(
        rival="the best other method with the same evidence (pairs, all landmarks, or boxes as well)", chosen=CHOSEN
    )


def shown_condition(conditions: Sequence[str]) -> str:
    """The condition whose other metrics, bars and examples are shown: the paper's medium noise where it is there."""
    return "paper:16" if "paper:16" in conditions else conditions[-1]


def _shown(sections: Sequence[Section]) -> Section:
    """The first test, or the mean over tests, under the condition that is shown."""
    condition = shown_condition(list(dict.fromkeys(section.condition for section in sections)))
    return next(section for section in sections if (section.test, section.condition) == (sections[0].test, condition))


def _columns(sections: Sequence[Section]) -> list[Column]:
    """The headline metric by condition, or by test where there is one condition; other metrics of the first test."""
    conditions = list(dict.fromkeys(section.condition for section in sections))
    first = [section for section in sections if section.test == sections[0].test]
    name = METRIC_LABELS[HEADLINE]
    if len(conditions) > 1:
        columns = [
            Column(f"{name}, {condition_label(section.condition)}", section, HEADLINE, True) for section in first
        ]
    else:
        columns = [
            Column(f"{name}, {heading}" if heading else name, section, HEADLINE, True)
            for section, heading in zip(sections, _test_headings(sections), strict=True)
        ]
    shown = _shown(sections)
    suffix = f", {condition_label(shown.condition)}" if len(conditions) > 1 else ""
    return columns + [Column(METRIC_LABELS[metric] + suffix, shown, metric) for metric in BESIDE]


def _groups(section: Section) -> Iterator[tuple[str, list[str]]]:
    """Row names by what their scores know; reference rows that know more than the table's own rows come last."""
    own = {_step(line.label) for line in section.lines if not line.is_reference}
    fitting = [line.label for line in section.lines if _step(line.label) in own]
    if len(fitting) <= MOST_ROWS:
        yield "", fitting
    else:
        headings = [GROUPS.get(_step(name), "Others") for name in fitting]
        for heading in dict.fromkeys(headings):
            yield heading, [name for name, mine in zip(fitting, headings, strict=True) if mine == heading]
    rest = [line.label for line in section.lines if _step(line.label) not in own]
    if rest:
        yield "More reference rows", rest


def _step(name: str) -> str:
    return name.partition("+")[2]


def _split(columns: Sequence[Column], groups: Sequence[tuple[str, list[str]]]) -> Iterator[str]:
    for heading, rows in groups:
        if heading:
            yield f"### {heading}"
        yield _table(columns, rows)


def _table(columns: Sequence[Column], rows: Sequence[str], leads: Section | None = None) -> str:
    """The rows, best first by the first column; `leads` adds how far each is above its best rival, if it knows."""
    leads = leads if leads and leads.differences else None
    lines = [{line.label: line for line in column.section.lines} for column in columns]
    value = {name: lines[0][name].mean(columns[0].metric) for name in rows}
    order = sorted(rows, key=lambda name: -value[name] if value[name] == value[name] else float("inf"))
    head = ["method", *(column.heading for column in columns)]
    if leads:
        over = row_label(leads.against) if leads.against else "the best rival"
        head.append(f"lead over {over}, {condition_label(leads.condition)}")
    cells = [head, ["---"] + ["---:"] * (len(head) - 1)]
    best = [_best([known[name] for name in rows], column.metric) for known, column in zip(lines, columns, strict=True)]
    for name in order:
        label = row_label(name)
        row = [f"*{label}*" if lines[0][name].is_reference else label]
        for column, known, leader in zip(columns, lines, best, strict=True):
            row.append(_cell(known[name], column, name == leader))
        if leads:
            row.append(_lead(leads, name))
        cells.append(row)
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def _cell(line: Line, column: Column, is_best: bool) -> str:
    text = f"{line.mean(column.metric):.3f}"
    if column.with_deviation and len(line.values[column.metric]) > 1:
        text += f" ± {line.deviation(column.metric):.3f}"
    return f"**{text}**" if is_best else text


def _best(lines: Sequence[Line], metric: str) -> str:
    sign = -1 if metric in LOWER_IS_BETTER else 1
    known = [line for line in lines if line.mean(metric) == line.mean(metric)]
    return max(known, key=lambda line: sign * line.mean(metric)).label if known else ""


def _lead(section: Section, name: str) -> str:
    if name not in section.differences:
        return ""
    rival, lead = section.differences[name]
    text = f"{lead.value:+.3f} [{lead.low:+.3f}, {lead.high:+.3f}]"
    return f"{f'**{text}**' if lead.is_clear else text} ({row_label(rival)})"


def _beside_paper(table: str, sections: Sequence[Section]) -> list[str]:
    """Our F1 and AUC and the paper's: of the mean where the paper's figures are of no single test."""
    parts: list[str] = []
    for condition in dict.fromkeys(section.condition for section in sections):
        first, *rest = [section for section in sections if section.condition == condition]
        for section in [first] if _figures(table, first) else rest:
            figures = _figures(table, section)
            if not figures:
                continue
            cells = [["method", "F1", "the paper's", "AUC (paper)", "the paper's"], ["---", *["---:"] * 4]]
            for line in section.lines:
                if line.label in figures:
                    theirs, ours = figures[line.label], (line.mean("f1"), line.mean("auc_paper"))
                    numbers = (ours[0], theirs["f1"], ours[1], theirs["auc_paper"])
                    cells.append([row_label(line.label), *(f"{number:.3f}" for number in numbers)])
            heading = ", ".join([_short(section), condition_label(condition)])
            parts += [f"### {heading}", "\n".join("| " + " | ".join(row) + " |" for row in cells)]
    note = f"The paper's figures are of {PAPER_DATA.get(table, 'other data')}, its own sizes and hours on a GPU."
    return ["## Beside the paper", f"{note} They are for orientation.", *parts] if parts else []


def _figures(table: str, section: Section) -> dict[str, dict[str, float]]:
    test = "" if section.mean_of else section.test
    found = {line.label: paper_figures(table, section.condition, line.label, test) for line in section.lines}
    return {label: figures for label, figures in found.items() if figures}


def _scope(sections: Sequence[Section]) -> str:
    first = sections[0]
    conditions = list(dict.fromkeys(condition_label(section.condition) for section in sections))
    tests = f"mean of {' and '.join(first.mean_of)}" if first.mean_of else first.test
    arrow = "Left of the arrow is what methods learn from and are chosen by, right of it what they are tested on"
    return f"{arrow}: {tests}; {', '.join(conditions)}; {first.negatives} negatives."


def _test_headings(sections: Sequence[Section]) -> list[str]:
    """`mean` and each test's name, without the training side where all share it; nothing for a test alone."""
    if len(sections) == 1:
        return [""]
    sides = {section.test.partition(" -> ")[0] for section in sections if not section.mean_of}
    names = [_short(section) for section in sections]
    return [name.partition(" -> ")[2] or name for name in names] if len(sides) == 1 else names


def _short(section: Section) -> str:
    return "mean" if section.mean_of else section.test


def _shell(commands: str) -> str:
    """Commands, one a line, each broken before options where it is long."""
    return "```sh\n" + "\n".join(map(_broken, commands.splitlines())) + "\n```"


def _broken(command: str, width: int = 110) -> str:
    lines = [""]
    for part in command.replace(" --", "\n--").split("\n"):
        if lines[-1] and len(lines[-1]) + 1 + len(part) > width:
            lines.append(part)
        else:
            lines[-1] = f"{lines[-1]} {part}".strip()
    return " \\\n    ".join(lines)
