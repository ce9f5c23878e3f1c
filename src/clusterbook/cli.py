"""The ``clusterbook`` command: arguments in, one sentence out for a mistake; nothing else."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path

from . import __version__, paths
from .errors import InputError

_EXIT = "exit status: 0 done · 1 it failed · 2 a mistake in what was asked · 130 interrupted"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stderr is None:                      # closed, and nobody is told anything
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    if sys.stdout is None:
        return _complain("the standard output is closed; open it or lead it to /dev/null", 1)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):      # what a console can't show is spelled out
            stream.reconfigure(errors="backslashreplace")
    try:
        with redirect_stdout(_Printer(sys.stdout)):
            try:
                return _do(words)
            finally:
                sys.stdout.flush()
    except InputError as error:
        return _complain(str(error), 2)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _EXTRAS:
            raise
        needed = _EXTRAS[error.name.split(".")[0]]
        install = needed if needed == "distributed" else "papermill 'jupyter-book<2'"
        return _complain(f"this command needs {needed}; install it with: pip install {install}", 2)
    except BrokenPipeError:
        # The reader of our output is gone (… | head): not a mistake, and nothing to say to.
        _print_nowhere()
        return 0
    except _NotPrinted as error:
        _print_nowhere()
        return _complain(f"the output can't be printed: {error}", 1)
    except OSError as error:
        if not _is_named(error.filename, words):
            raise
        return _complain(f"{error.filename}: {error.strerror}; name another file or folder", 2)
    except KeyboardInterrupt:
        return _complain("interrupted; nothing half-written was left", 130)
    except RuntimeError as error:
        if type(error).__module__.split(".")[0] != __package__:
            raise
        return _complain(str(error), 1)


def _do(words: Sequence[str]) -> int:
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:      # what is written into a notebook or a page has to be text
            raise InputError(f"the argument {word!r} is not UTF-8 text; rename the file") from None
    parser = _parser()
    options = parser.parse_args(_values(words))
    if not hasattr(options, "do"):
        parser.print_help()
        return 2
    return options.do(options) or 0


def _complain(sentence: str, status: int) -> int:
    """Print a sentence where mistakes are said, if that can be; the status."""
    with suppress(OSError):
        print(f"clusterbook: {sentence}", file=sys.stderr)
    return status


class _NotPrinted(Exception):
    """The standard output takes nothing."""


class _Printer:
    """The standard output; what fails there is told from what fails in a file."""

    def __init__(self, stream):
        self._stream = stream

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._tried(self._stream.write, text)

    def flush(self) -> None:
        self._tried(self._stream.flush)

    def _tried(self, what, *arguments):
        try:
            return what(*arguments)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _NotPrinted(error.strerror) from error


def _print_nowhere() -> None:
    """Let what is still to be printed vanish; otherwise Python complains when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_named(file: str | bytes | None, words: Sequence[str]) -> bool:
    """Whether a file is one that a person named, lies below it or above it, or is the book's."""
    if not file:
        return False
    named = [*words, *(word.partition("=")[2] for word in words)]
    places = [Path(os.path.abspath(os.path.expanduser(name.removeprefix("folder:"))))
              for name in [*named, str(paths.root()), str(paths.data_home())] if name]
    path = Path(os.path.abspath(os.fsdecode(file)))
    return any(path.is_relative_to(place) or place.is_relative_to(path) for place in places)


def _values(arguments: Sequence[str]) -> list[str]:
    """The arguments, a -p's value marked as one: argparse takes -0.5,0.5 for an option."""
    return [_VALUE + word if word.startswith("-") and i >= 2
            and arguments[i - 2] in ("-p", "--parameter") else word
            for i, word in enumerate(arguments)]


_VALUE = "\0"       # in no argument of a command line
_EXTRAS = {"papermill": "papermill", "nbformat": "papermill", "jupyter_book": "jupyter-book",
           "markdown_it": "jupyter-book", "distributed": "distributed"}


_SWEEP = """values:
  -p alpha 1e-4,1e-3     two values
  -p n_clusters 2-5      whole numbers also as a range
  -p k_values '2,3;5'    lists, parted by semicolons: [2, 3] and [5]; '[]' is the empty one
  -p dataset 'a,b.csv;'  a semicolon also lets a text keep its comma: one value
Parameters with one value hold for every run. A chapter's own list of further seeds is left
empty unless -p or the profile gives it."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="clusterbook", epilog=_EXIT,
        description="Four works on neural clustering, rerun: build the book, rerun a chapter with "
                    "other parameters, hold the claims against the records.")
    parser.add_argument("--version", action="version", version=f"clusterbook {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, do, says: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=says, description=says, epilog=_EXIT)
        added.set_defaults(do=do)
        return added

    book = command("book", _book, "execute the chapters that changed and build the book")
    book.add_argument("--no-execute", action="store_true", help="render the committed outputs")
    book.add_argument("--pdf", action="store_true",
                      help="one PDF of the whole book instead of the site; needs LaTeX")

    run = command("run", _run, "run a chapter, with other parameters if asked")
    run.add_argument("chapter", metavar="CHAPTER")
    run.add_argument("--profile", metavar="NAME", help="a named parameter set")
    run.add_argument("-p", "--parameter", nargs=2, action="append", default=[], dest="overrides",
                     metavar=("NAME", "VALUE"), help="one parameter; may be given several times")
    run.add_argument("--seeds", metavar="0-4", help="repeat the run with each of these seeds")
    run.add_argument("--output", type=Path, metavar="FILE", help="write the executed notebook here")
    run.add_argument("--figures", type=Path, metavar="DIR",
                     help="write each figure as PNG and SVG, and a contact sheet over them")
    run.add_argument("--record", type=Path, metavar="DIR", nargs="?", const=True,
                     help="write the run's record (default DIR: the checkout's data/records)")

    sweep = command("sweep", _sweep, "run a chapter over a grid of parameters, draw its metric")
    sweep.formatter_class = argparse.RawDescriptionHelpFormatter
    sweep.epilog = f"{_SWEEP}\n\n{_EXIT}"
    sweep.add_argument("chapter", metavar="CHAPTER")
    sweep.add_argument("--profile", metavar="NAME", help="a named parameter set to begin with")
    sweep.add_argument("-p", "--parameter", nargs=2, action="append", default=[], dest="overrides",
                       metavar=("NAME", "V1,V2"), help="a parameter and its values; a second one "
                                                       "with several values is drawn as lines")
    sweep.add_argument("--seeds", metavar="0-4", help="make every run with each of these seeds")
    sweep.add_argument("--metric", nargs="+", action="extend", default=[], metavar="NAME",
                       help="what is drawn (default: the chapter's main metric)")
    sweep.add_argument("--workers", type=int, metavar="N",
                       help="processes at a time, one thread each (default: one per processor)")
    sweep.add_argument("--scheduler", metavar="ADDRESS",
                       help="make the runs on a Dask cluster instead: tcp://HOST:8786")
    sweep.add_argument("--output", type=Path, metavar="DIR",
                       help="write records, table and figures here (default: sweep-CHAPTER-NAME)")

    parameters = command("parameters", _parameters, "a chapter's parameters and profiles")
    parameters.add_argument("chapter", metavar="CHAPTER")

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


def _book(options) -> int:
    if options.pdf:
        from .book.printing import build_pdf as build
    else:
        from .book.build import build

    # What happens goes to stderr, the page's path alone to stdout: open "$(clusterbook book)".
    index = build(run=not options.no_execute, progress=sys.stderr.isatty(),
                  say=lambda line: print(line, file=sys.stderr))
    print(index)
    return 0


def _run(options) -> int:
    from .book import runs

    overrides, seeds = _overrides(options), _seeds(options)
    records = options.record
    if records is True:
        here = paths.checkout()
        records = here / "data" / "records" if here else Path("records")
    said = runs.run(options.chapter, profile=options.profile, overrides=overrides, seeds=seeds,
                    output=options.output, figures=options.figures, records=records,
                    progress=sys.stderr.isatty())
    for line in said:
        print(line)
    if not (options.output or options.figures or options.record):
        print(f"{options.chapter} ran to its end; nothing was kept. "
              "--output FILE keeps the notebook, --figures DIR its figures, --record its numbers.")
    return 0


def _overrides(options) -> dict[str, str]:
    overrides: dict[str, str] = {}
    for name, value in options.overrides:
        if name in overrides:
            raise InputError(f"-p {name} is given twice")
        overrides[name] = value.removeprefix(_VALUE)
    return overrides


def _seeds(options) -> list[int] | None:
    from .book.parameters import MOST_VALUES, seed_range, whole

    if options.seeds is None:
        return None
    words = [word for part in options.seeds.split(",") for word in seed_range(part.strip())]
    if not words or not all(word.isdecimal() for word in words):
        raise InputError(f"--seeds takes whole numbers such as 0-4 or 0,2,7, "
                         f"not {options.seeds[:60]!r}")
    if len(words) > MOST_VALUES:
        raise InputError(f"--seeds has {len(words):,} values; at most {MOST_VALUES:,} can be asked "
                         "for, because each is a run")
    return [whole(word) for word in words]


def _sweep(options) -> int:
    from .book.sweep import sweep

    for line in sweep(options.chapter, _overrides(options), profile=options.profile,
                      seeds=_seeds(options), metrics=options.metric, workers=options.workers,
                      scheduler=options.scheduler, output=options.output,
                      progress=sys.stderr.isatty()):
        print(line)
    return 0


def _parameters(options) -> int:
    from .book import parameters

    known = parameters.read(options.chapter)
    named = parameters.profiles(options.chapter)
    if not known:
        print(f"{options.chapter} has no parameters")
        return 0
    width = max(len(name) for name in known) + 2
    for parameter in known.values():
        kind = parameters.type_name(parameter.type)
        print(f"{parameter.name:<{width}}{parameter.default!r}  ({kind})")
        about = (parameter.meaning, f"paper: {parameter.paper}", f"changed: {parameter.effect}")
        for line in about:
            print(textwrap.fill(line, 96, initial_indent=" " * width,
                                subsequent_indent=" " * (width + 2)))
    if named:
        print("\nProfiles (clusterbook run", options.chapter, "--profile NAME):")
        for profile in named.values():
            print(textwrap.fill(f"{profile.name}: {profile.says}", 96, initial_indent="  ",
                                subsequent_indent="    "))
    return 0


def _data(options) -> int:
    from . import datasets

    known = {source.name: source for source in datasets.catalog()}
    for name in options.names:
        datasets.status(name)  # refuses what can't be fetched, before anything is downloaded
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
    return 0


def _scorecard(options) -> int:
    from . import evidence

    card = evidence.scorecard()
    print(card)
    if not options.fail_on_regression:
        return 0
    before = evidence.at_last_tag()
    if before is None:
        print("no tag to compare with: nothing can have got worse")
        return 0
    worse = card.regressions(before)
    for line in worse:
        print(line, file=sys.stderr)
    return 1 if worse else 0


def _site(options) -> int:
    from .book import site

    now = site.current()
    if options.repository is None and options.ref is None:
        print(f"{now.repository} at {now.ref}" if now.repository else "no address is set")
        return 0
    repository = now.repository if options.repository is None else options.repository
    # Without an address there is no tag of it either.
    ref = options.ref or (now.ref if repository else site.Address.ref)
    wanted = site.Address(repository.rstrip("/").removesuffix(".git"), ref)
    changed = site.write(wanted)
    for name in changed:
        print(name)
    if not changed:
        print("every place has this address already")
    elif wanted.repository:
        print(f"Commit these and push {wanted.ref}: the links lead to what it names there.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
