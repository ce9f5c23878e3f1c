"""The ``clusterbook`` command: parses arguments and prints what the library returns."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path

from . import __version__, paths
from .errors import InputError

_EXIT = "exit status: 0 done · 1 it failed · 2 a mistake in what was asked · 130 interrupted"
_EXTRAS = {"papermill": "papermill", "nbformat": "papermill", "jupyter-book": "jupyter-book",
           "markdown_it": "jupyter-book", "distributed": "distributed"}
_SWEEP = """values:
  -p alpha 1e-4,1e-3     two values
  -p n_clusters 2-5      whole numbers also as a range
  -p k_values '2,3;5'    lists, parted by semicolons: [2, 3] and [5]; '[]' is the empty one
  -p dataset 'a,b.csv;'  a semicolon also lets a text keep its comma: one value
Parameters with one value hold for every run. A chapter's own list of further seeds is left
empty unless -p or the profile gives it."""
_VALUE = "\0"       # marks the value of a -p; no argument of a command line has it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stderr is None:                      # closed
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    if sys.stdout is None:
        return _complain("the standard output is closed; open it or lead it to /dev/null", 1)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):      # for consoles that can't show every sign
            stream.reconfigure(errors="backslashreplace")
    said = io.StringIO()        # printed at the end, so that its errors are no error of a command
    try:
        with redirect_stdout(said):
            status = _do(words)
    except SystemExit as end:                   # argparse printed help, the version or a mistake
        status = int(end.code or 0)
    except InputError as error:
        return _complain(str(error), 2)
    except ModuleNotFoundError as error:
        needed = _EXTRAS.get((error.name or "").split(".")[0])
        if needed is None:
            raise
        install = needed if needed == "distributed" else "papermill 'jupyter-book<2'"
        return _complain(f"this command needs {needed}; install it with: pip install {install}", 2)
    except OSError as error:
        if not _is_named(error.filename, words):
            raise
        return _complain(f"{error.filename}: {error.strerror}; name another file or folder", 2)
    except KeyboardInterrupt:
        return _complain("interrupted; no partial files left", 130)
    except RuntimeError as error:
        if type(error).__module__.split(".")[0] != __package__:
            raise
        return _complain(str(error), 1)
    try:
        print(said.getvalue(), end="", flush=True)
    except OSError as error:
        # Let the rest vanish: otherwise Python complains when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):      # … | head is no mistake
            return _complain(f"the output can't be printed: {error.strerror}", 1)
    return status


def _do(words: Sequence[str]) -> int:
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:      # it could not be written into a notebook or a page
            raise InputError(f"the argument {word!r} is not UTF-8 text; rename the file") from None
    # argparse takes the value -0.5,0.5 for an option.
    marked = [_VALUE + word if word.startswith("-") and i >= 2
              and words[i - 2] in ("-p", "--parameter") else word for i, word in enumerate(words)]
    parser = _parser()
    options = parser.parse_args(marked)
    if not hasattr(options, "do"):
        parser.print_help()
        return 2
    return options.do(options) or 0


def _complain(sentence: str, status: int) -> int:
    with suppress(OSError):
        print(f"clusterbook: {sentence}", file=sys.stderr)
    return status


def _is_named(file: str | bytes | None, words: Sequence[str]) -> bool:
    """Whether a file is one that a person named, lies below it or above it, or is the book's."""
    if not file:
        return False
    named = [*words, *(word.partition("=")[2] for word in words), str(paths.root()),
             str(paths.data_home())]
    path = Path(os.path.abspath(os.fsdecode(file)))
    places = [Path(os.path.abspath(os.path.expanduser(name.removeprefix("folder:"))))
              for name in named if name]
    return any(path.is_relative_to(place) or place.is_relative_to(path) for place in places)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="clusterbook", epilog=_EXIT,
        description="Four works on neural clustering, rerun: build the book, rerun a chapter with "
                    "other parameters, hold the claims against the records.")
    parser.add_argument("--version", action="version", version=f"clusterbook {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, do, says: str, chapter: bool = False) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=says, description=says, epilog=_EXIT)
        added.set_defaults(do=do)
        if chapter:
            added.add_argument("chapter", metavar="CHAPTER")
        return added

    book = command("book", _book, "execute the chapters that changed and build the book")
    book.add_argument("--no-execute", action="store_true", help="render the committed outputs")
    book.add_argument("--pdf", action="store_true",
                      help="one PDF of the whole book instead of the site; needs LaTeX")

    run = command("run", _run, "run a chapter, with other parameters if asked", chapter=True)
    sweep = command("sweep", _sweep, "run a chapter over a grid of parameters, draw its metric",
                    chapter=True)
    for one, value, says in (
            (run, "VALUE", "one parameter; may be given several times"),
            (sweep, "V1,V2", "a parameter and its values; a second one with several values is "
                             "drawn as lines")):
        one.add_argument("--profile", metavar="NAME", help="a named parameter set")
        one.add_argument("-p", "--parameter", nargs=2, action="append", default=[],
                         dest="overrides", metavar=("NAME", value), help=says)
        one.add_argument("--seeds", metavar="0-4", help="make every run with each of these seeds")
    run.add_argument("--output", type=Path, metavar="FILE", help="write the executed notebook here")
    run.add_argument("--figures", type=Path, metavar="DIR",
                     help="write each figure as PNG and SVG, and a contact sheet over them")
    run.add_argument("--record", type=Path, metavar="DIR", nargs="?", const=True,
                     help="write the run's record (default DIR: the checkout's data/records)")
    sweep.formatter_class = argparse.RawDescriptionHelpFormatter
    sweep.epilog = f"{_SWEEP}\n\n{_EXIT}"
    sweep.add_argument("--metric", nargs="+", action="extend", default=[], metavar="NAME",
                       help="what is drawn (default: the chapter's main metric)")
    sweep.add_argument("--workers", type=int, metavar="N",
                       help="processes at a time, one thread each (default: one per processor)")
    sweep.add_argument("--scheduler", metavar="ADDRESS",
                       help="make the runs on a Dask cluster instead: tcp://HOST:8786")
    sweep.add_argument("--output", type=Path, metavar="DIR",
                       help="write records, table and figures here (default: sweep-CHAPTER-NAME)")

    command("parameters", _parameters, "a chapter's parameters and profiles", chapter=True)
    data = command("data", _data, "data sets: what is known, what is here; fetches what is named")
    data.add_argument("names", metavar="NAME", nargs="*")
    scorecard = command("scorecard", _scorecard, "the claims against the records")
    scorecard.add_argument("--fail-on-regression", action="store_true",
                           help="exit 1 where a claim reproduced at the last tag is no longer")
    site = command("site", _site, "the book's public address: say it, or write it everywhere")
    site.add_argument("--repository", metavar="URL", help="https://github.com/OWNER/NAME; '' takes "
                      "the address out again")
    site.add_argument("--ref", metavar="TAG", help="the tag or branch that readers are led to, and "
                      "whose library a notebook on Colab or Kaggle installs")
    return parser


def _book(options) -> None:
    from .book.build import build, build_pdf

    # Steps go to stderr, the page's path alone to stdout: open "$(clusterbook book)".
    print((build_pdf if options.pdf else build)(
        run=not options.no_execute, progress=sys.stderr.isatty(),
        say=lambda line: print(line, file=sys.stderr)))


def _run(options) -> None:
    from .book import runs

    records = options.record
    if records is True:
        here = paths.checkout()
        records = here / "data" / "records" if here else Path("records")
    said = runs.run(options.chapter, profile=options.profile, overrides=_overrides(options),
                    seeds=_seeds(options), output=options.output, figures=options.figures,
                    records=records, progress=sys.stderr.isatty())
    print("\n".join(said), end="\n" if said else "")
    if not (options.output or options.figures or options.record):
        print(f"{options.chapter} ran to its end; nothing was kept. "
              "--output FILE keeps the notebook, --figures DIR its figures, --record its numbers.")


def _overrides(options) -> dict[str, str]:
    overrides: dict[str, str] = {}
    for name, value in options.overrides:
        if name in overrides:
            raise InputError(f"-p {name} is given twice")
        overrides[name] = value.removeprefix(_VALUE)
    return overrides


def _seeds(options) -> list[int] | None:
    from .book.parameters import MOST_VALUES, number_range, whole

    if options.seeds is None:
        return None
    words = [word for part in options.seeds.split(",") for word in number_range(part.strip())]
    if not all(word.isdecimal() for word in words):
        raise InputError(f"--seeds takes whole numbers such as 0-4 or 0,2,7, "
                         f"not {options.seeds[:60]!r}")
    if len(words) > MOST_VALUES:
        raise InputError(f"--seeds has {len(words):,} values; at most {MOST_VALUES:,} can be asked "
                         "for, because each is a run")
    return [whole(word) for word in words]


def _sweep(options) -> None:
    from .book.sweep import sweep

    print("\n".join(sweep(
        options.chapter, _overrides(options), profile=options.profile, seeds=_seeds(options),
        metrics=options.metric, workers=options.workers, scheduler=options.scheduler,
        output=options.output, progress=sys.stderr.isatty())))


def _parameters(options) -> None:
    from .book.parameters import parameter_table, profile_table

    for table in (parameter_table(options.chapter), profile_table(options.chapter)):
        print(f"{table.caption}\n\n{table}\n")


def _data(options) -> None:
    from . import datasets

    known = {source.name: source for source in datasets.catalog()}
    for name in options.names:
        datasets.status(name)  # refuses unknown names before anything is downloaded
    for name in options.names:
        datasets.fetch(name)
    print(f"data files: {paths.data_home()}\n")
    for source in (known[name] for name in options.names or known):
        print(f"{source.name:<16}{datasets.status(source.name).state:<10}{source.title}")
        size = f"{source.size / 1e6:.1f} MB" if source.files else f"in {source.embedded_in}"
        print(f"{'':16}{source.n_samples:,} × {source.n_features:,}, {source.n_classes} classes · "
              f"{size} · license: {source.license}")
        for file, checksum in source.files.items():
            print(f"{'':16}{file}  sha256 {checksum}")
    if not options.names:
        print(f"{'folder:PATH':<16}{'your own':<10}A folder of images, or of one folder per class")


def _scorecard(options) -> int:
    from . import evidence

    card = evidence.scorecard()
    print(card)
    if not options.fail_on_regression:
        return 0
    before = evidence.at_last_tag()
    if before is None:
        print("no tag to compare with: nothing can have got worse")
    worse = card.regressions(before) if before is not None else []
    for line in worse:
        print(line, file=sys.stderr)
    return 1 if worse else 0


def _site(options) -> None:
    from .book import site

    now = site.current()
    if options.repository is None and options.ref is None:
        print(f"{now.repository} at {now.ref}" if now.repository else "no address is set")
        return
    repository = now.repository if options.repository is None else options.repository
    ref = options.ref or (now.ref if repository else site.Address.ref)
    wanted = site.Address(repository.rstrip("/").removesuffix(".git"), ref)
    changed = site.write(wanted)
    print("\n".join(changed) or "every place has this address already")
    if changed and wanted.repository:
        print(f"Commit these and push {wanted.ref}: the links lead to what it names there.")


if __name__ == "__main__":
    sys.exit(main())
