"""The faults' table at the end of the run."""

from __future__ import annotations


def pytest_terminal_summary(terminalreporter) -> None:
    """One line a fault: caught by which checks, missed, or crashed where."""
    reports = [report for group in terminalreporter.stats.values() for report in group
               if getattr(report, "when", None) == "call"]
    rows = sorted(dict(report.user_properties)["fault"] for report in reports
                  if "fault" in dict(report.user_properties))
    if not rows:
        return
    terminalreporter.section("injected faults")
    width = max(len(name) for name, _, _ in rows)
    for name, verdict, details in rows:
        terminalreporter.write_line(f"{verdict:8} {name:{width}}  {details}")
    verdicts = [verdict for _, verdict, _ in rows]
    terminalreporter.write_line(", ".join(
        f"{verdicts.count(word)} {word}" for word in ("caught", "missed", "crashed")))
