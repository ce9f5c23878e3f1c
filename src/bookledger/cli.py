"""The ``clusterbook`` command: parses arguments and prints what the library returns."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from clusterbook import __version__, paths
from clusterbook.errors import InputError

from . import config

_EXIT = "exit status: 0 done · 1 it failed · 2 a mistake in what was asked · 130 interrupted"
_SWEEP = """values:
  -p alpha 1e-4,1e-3     two values
  -p n_clusters 2-5      whole numbers also as a range
  -p k_values '2,3;5'    lists, parted by semicolons: [2, 3] and [5]; '[]' is the empty one
  -p dataset 'a,b.csv;'  a semicolon also lets a text keep its comma: one value
Parameters with one value hold for every run. A chapter's own list of further seeds is left
empty unless -p or the profile gives it."""
_TORCHRUN = "TORCHELASTIC_RUN_ID"       # in the environment of the processes that it starts
_OURS = ("clusterbook", "bookledger")
_VALUE = "\0"       # marks the value of a -p; no argument of a command line has it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stdout is None:
        return _complain("the standard output is closed; lead it to a file or /dev/null", 1)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):      # for consoles that can't show every sign
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _do(words)
        print(end="", flush=True)
        return status
    except InputError as error:
        return _complain(str(error), 2)
    except ModuleNotFoundError as error:
        if str(error.name).split(".")[0] in _OURS:
            raise
        extra = "dask" if error.name == "distributed" else "book"
        return _complain(f"this command needs {error.name}; install clusterbook with its extra "
                         f"{extra}: pip install 'clusterbook[{extra}]'", 2)
    except OSError as error:                    # of a file, or of the output itself
        with suppress(OSError):                 # otherwise Python complains when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # … | head is no mistake
            return 0
        if error.filename:
            return _complain(f"{error.filename}: {error.strerror}", 2)
        return _complain(f"{error.strerror}; make room for the output and in TMPDIR", 1)
    except KeyboardInterrupt:
        return _complain("interrupted; no partial files left", 130)
    except RuntimeError as error:
        if type(error).__module__.split(".")[0] not in _OURS:
            raise
        return _complain(str(error), 1)


def _complain(sentence: str, status: int) -> int:
    with suppress(OSError):
        print(f"clusterbook: {sentence}", file=sys.stderr)
    return status


def _do(words: Sequence[str]) -> int:
    try:
        "".join(words).encode()         # else it could not be written into a notebook or a page
    except UnicodeEncodeError:
        raise InputError(f"the arguments {words} are not UTF-8 text; rename the file") from None
    # argparse takes the value -0.5,0.5 for an option.
    marked = [_VALUE + word if word.startswith("-") and i >= 2
              and words[i - 2] in ("-p", "--parameter") else word for i, word in enumerate(words)]
    try:
        options = _parser().parse_args(marked)
    except SystemExit as end:           # argparse printed help, the version or a mistake
        return int(end.code or 0)
    options.command = shlex.join(["clusterbook", *words])       # for a contact sheet
    if _TORCHRUN in os.environ and options.do is not _run:
        raise InputError("under torchrun each process would do this once more: it starts "
                         "'clusterbook run' only")
    return options.do(options) or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="clusterbook", epilog=_EXIT,
        description=config.book().about)
    parser.add_argument("--version", action="version", version=f"clusterbook {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, do, says: str) -> Callable[..., argparse.Action]:
        added = commands.add_parser(name, help=says, description=says, epilog=_EXIT)
        added.set_defaults(do=do)
        return added.add_argument

    option = command("book", _book, "execute the chapters that changed and build the book")
    option("--no-execute", action="store_true", help="render the committed outputs")
    option("--pdf", action="store_true",
           help="one PDF of the whole book instead of the site; needs LaTeX")

    run = command("run", _run, "run a chapter, with other parameters if asked")
    sweep = command("sweep", _sweep, "run a chapter over a grid of parameters, draw its metric")
    for option, value, says in (
            (run, "VALUE", "one parameter; may be given several times"),
            (sweep, "V1,V2", "a parameter and its values; a second one with several values is "
                             "drawn as lines")):
        option("name", metavar="CHAPTER")
        option("--profile", metavar="NAME", help="a named parameter set")
        option("-p", "--parameter", nargs=2, action="append", default=[], dest="overrides",
               metavar=("NAME", value), help=says)
        option("--seeds", metavar="0-4", help="make every run with each of these seeds")
    run("--output", type=Path, metavar="FILE", help="write the executed notebook here")
    run("--figures", type=Path, metavar="DIR",
        help="write each figure with its numbers, and a contact sheet over them")
    run("--only", nargs="+", action="extend", default=[], metavar="FIGURE",
        help="run what these figures need and nothing else; clusterbook figures names them")
    run("--format", dest="formats", metavar="pdf,svg,png",
        help="of the figures' files (default: png,svg); each figure's numbers lie beside as CSV")
    run("--width", metavar="WIDTH",
        help="of the figures: single (3.5 inches), double (7.2), or a number of inches")
    run("--style", metavar="STYLE", help="of the figures: plain, paper (small, black on white) or "
        "dark")
    run("--record", dest="records", type=Path, metavar="DIR", nargs="?",
        const=(config.checkout() or Path()) / "data" / "records",
        help="write the run's record (default DIR: the checkout's data/records)")
    run("--for", dest="budget", metavar="2h",
        help="with --record: stop at the end of an epoch after this time; the same command goes on")
    sweep("--metric", dest="metrics", nargs="+", action="extend", default=[], metavar="NAME",
          help="what is drawn (default: the chapter's main metric)")
    sweep("--workers", type=int, metavar="N",
          help="processes at a time, one thread each (default: one per processor)")
    sweep("--scheduler", metavar="ADDRESS",
          help="make the runs on a Dask cluster instead: tcp://HOST:8786")
    sweep("--output", type=Path, metavar="DIR",
          help="write records, table and figures here (default: sweep-CHAPTER-NAME)")
    commands.choices["sweep"].formatter_class = argparse.RawDescriptionHelpFormatter
    commands.choices["sweep"].epilog = f"{_SWEEP}\n\n{_EXIT}"

    command("status", _status, "recorded runs that are unfinished, and how each goes on")
    command("parameters", _parameters, "a chapter's parameters and profiles")(
        "name", metavar="CHAPTER")
    command("figures", _figures, "figures: live or recorded, their cost alone, what changes them")(
        "names", metavar="CHAPTER", nargs="*")
    command("data", _data, "data sets: what is known, what is here; fetches what is named")(
        "names", metavar="NAME", nargs="*")
    option = command("scorecard", _scorecard, "the claims against the records")
    option("--fail-on-regression", action="store_true",
           help="exit 1 where a claim reproduced at the last tag is no longer")
    option = command("site", _site, "the book's public address: say it, or write it everywhere")
    option("--repository", metavar="URL",
           help="https://github.com/OWNER/NAME; '' takes the address out again")
    option("--ref", metavar="TAG", help="the tag that readers are led to, and whose library a "
           "notebook on Colab or Kaggle installs; without it, this version's")
    option("--released", action="store_true",
           help="the tag's version is on the package index: notebooks install that")
    return parser


def _book(options) -> None:
    from .build import build

    # Steps go to stderr, the page's path alone to stdout: open "$(clusterbook book)".
    print(build(run=not options.no_execute, pdf=options.pdf,
                say=partial(print, file=sys.stderr)))


def _run(options) -> None:
    from . import runs

    go = partial(runs.run, **_asked(options))
    if _TORCHRUN in os.environ:
        go = partial(config.book().under_torchrun(), go)
    if (said := go()) is None:
        return
    print("\n".join(said))
    if not (options.output or options.figures or options.records):
        print(f"{options.name} ran to its end; nothing was kept. "
              "--output FILE keeps the notebook, --figures DIR its figures, --record its numbers.")


def _sweep(options) -> None:
    from . import sweep

    print("\n".join(sweep.sweep(**_asked(options))))


def _asked(options) -> dict[str, Any]:
    """The arguments of a run or a sweep."""
    from .parameters import Parameter, from_text
    from .settings import MOST_VALUES

    asked = {**vars(options), "overrides": {}}
    del asked["do"]
    for name, value in options.overrides:
        if name in asked["overrides"]:
            raise InputError(f"-p {name} is given twice")
        asked["overrides"][name] = value.removeprefix(_VALUE)
    if options.seeds is not None:
        kind = Parameter("--seeds", "list[int]", [0, 2, 7], "", "", "")
        seeds = asked["seeds"] = from_text(kind, options.seeds)
        if not 0 < len(seeds) <= MOST_VALUES:
            raise InputError(f"--seeds has {len(seeds):,} values; give 1 to {MOST_VALUES:,}")
    return asked


def _status(options) -> None:
    from . import underway

    print("\n\n".join(underway.unfinished()) or "no run is unfinished")


def _parameters(options) -> None:
    from .parameters import parameter_table, profile_table

    print(parameter_table(options.name), profile_table(options.name), sep="\n\n")


def _figures(options) -> None:
    from .parameters import figure_table

    for name in options.names or config.chapters():
        print(figure_table(name), end="\n\n")


def _data(options) -> None:
    from clusterbook.checks import one_of

    datasets = config.book().datasets()

    known = config.book().catalog()
    for name in options.names:
        one_of("data set", name, known)     # before anything is downloaded
    for name in options.names:
        datasets.fetch(name)
    print(f"data files: {paths.data_home()}\n")
    for source in (known[name] for name in options.names or known):
        print(f"{source.name:<16}{datasets.status(source.name):<10}{source.title}")
        print(f"{'':16}{source.size} · license: {source.license}")
        for file, checksum in source.files.items():
            print(f"{'':16}{file}  sha256 {checksum}")
    if not options.names:
        print(f"{'folder:PATH':<16}{'your own':<10}A folder of images, or of one folder per class")


def _scorecard(options) -> int:
    from .views import at_last_tag, scorecard

    card = scorecard()
    print(card)
    before = at_last_tag() if options.fail_on_regression else {}
    if before is None:
        print("no tag to compare with: nothing can have got worse")
    worse = card.regressions(before or {})
    for line in worse:
        print(line, file=sys.stderr)
    return 1 if worse else 0


def _site(options) -> None:
    from . import site

    now = site.current()
    if options.repository is None and options.ref is None and not options.released:
        print(f"{now.repository} at {now.ref}" if now.repository else "no address is set")
        if now.repository and (checkout := config.checkout()):
            marks = {True: "yes", False: "no", None: "look"}    # None: git can't tell
            print(*(f"{marks[done]:>4}  {step}" for step, done in site.steps(now, checkout)),
                  sep="\n")
        return
    repository = now.repository if options.repository is None else options.repository
    wanted = site.Address(repository.rstrip("/").removesuffix(".git"),
                          options.ref or site.Address.ref, options.released)
    changed = site.write(wanted)
    print("\n".join(changed) or "every place has this address already")
    if changed and wanted.repository:
        print(f"Commit these, then: git tag {wanted.ref} && git push origin {wanted.ref}. "
              "`clusterbook site` lists what is left to do.")
