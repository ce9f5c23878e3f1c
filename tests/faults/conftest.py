"""The faults' table at the end of the run."""


def pytest_terminal_summary(terminalreporter) -> None:
    """One line a fault: caught by which checks, missed, or crashed where."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    rows = sorted(value for report in reports if getattr(report, "when", None) == "call"
                  for name, value in report.user_properties if name == "fault")
    if rows:
        terminalreporter.section("injected faults")
    for name, verdict, details in rows:
        terminalreporter.write_line(f"{verdict:8} {name:40}  {details}")
