"""What a run of several days costs: its pieces, one for each machine that it was on."""

import csv
from datetime import datetime, timedelta
from math import nan

from markupsafe import Markup

from clusterbook import figures

from . import config
from .views import Table, View, html
from .wording import duration


def pieces() -> View:
    """The epochs of a long run by date and by hours of computing, and a row for each piece.

    ``book/pieces.csv`` lists them. A piece without seconds was lost with its machine.
    """
    with (config.root() / "book" / "pieces.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    start, total, dates, hours, cells = datetime.fromisoformat(rows[0]["began"]), 0.0, {}, {}, []
    for row in rows:
        days = [(datetime.fromisoformat(row[end]) - start) / timedelta(1)
                for end in ("began", "ended")]
        first, last, took = int(row["first"]), int(row["last"]), float(row["seconds"] or 0)
        clock = [total / 3600, (total + took) / 3600] if took else [nan, nan]
        for lines, ends in ((dates, days), (hours, clock)):
            times, epochs = lines.setdefault(row["processor"], ([], []))
            times += [*ends, nan]           # which ends a line
            epochs += [first - 1, last, nan]
        total += took
        pace = f"{took / (last - first + 1):.0f} s"
        cells.append([row["began"], row["ended"], f"{first}–{last}",
                      *([duration(took), pace] if took else "––"), row["processor"]])
    said = f"{last:,} epochs, {duration(total)} of computing, {days[1]:.1f} days."
    drawn = figures.training_curves([
        {"label": "epoch", "runs": dates, "x": "days since start"},
        {"label": "epoch", "runs": hours, "x": "hours of computing"}])
    alt = ("Epochs by date and by hours of computing, a line for each piece, a color for each "
           f"processor: {said}")
    picture = Markup(figures.in_a_view(drawn, "pieces", alt, "rerun"))
    heads = ["Began (UTC)", "Ended", "Epochs", "Computing", "Per epoch", "Processor"]
    return View(tuple(rows), [html("picture", picture, said),
                              Table("The pieces", heads, cells, folded=True)])
