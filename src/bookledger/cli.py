"""The ``clusterbook`` command: parses arguments and prints what the library returns."""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NoReturn

from clusterbook import __version__, paths
from clusterbook.checks import InputError, one_of

from . import config

_EXIT = "exit status: 0 done · 1 it failed · 2 a mistake in the command · 130 interrupted"
_SWEEP = """values:
  -p alpha 1e-4,1e-3     two values
  -p n_clusters 2-5      whole numbers also as a range
  -p k_values '2,3;5'    lists, separated by semicolons: [2, 3] and [5]; '[]' is the empty one
  -p dataset 'a,b.csv;'  a text with a comma ends with a semicolon: one value
Parameters with one value hold for every run. A chapter's own list of further seeds is left
empty unless -p or the profile gives it."""
_TORCHRUN = "TORCHELASTIC_RUN_ID"       # in the environment of the processes that it starts
_OURS = ("clusterbook", "bookledger")
_VALUE = "\0"       # marks the value of a -p; no argument of a command line has it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if named := os.environ.get("CLUSTERBOOK_BOOK"):     # kernels run in other folders
        os.environ["CLUSTERBOOK_BOOK"] = os.path.abspath(named)
    with suppress(ValueError):          # outside of the main thread
        signal.signal(signal.SIGTERM, signal.default_int_handler)   # like Ctrl-C, nothing is left
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):      # for consoles that can't show every sign
            stream.reconfigure(errors="backslashreplace")
    # argparse takes the value -0.5,0.5 for an option.
    marked = [_VALUE + word if word.startswith("-") and option in ("-p", "--parameter") else word
              for option, word in zip(["", "", *words], words, strict=False)]
    try:
        if re.search("[\ud800-\udfff]", "".join(words)):        # it could not be written anywhere
            raise InputError(f"the arguments {words} are not UTF-8 text; rename the file")
        for option, word in itertools.pairwise(words):
            if option in ("-p", "--parameter") and "=" in word:
                raise InputError(f"-p takes a name and a value: -p {word.replace('=', ' ', 1)}")
        parser = _parser()
        if words and not words[0].startswith("-"):
            one_of("command", words[0], [*_COMMANDS, *config.book().commands])
        options, unknown = parser.parse_known_args(marked)
        if unknown:
            command = next(word for word in words if not word.startswith("-"))
            said = shlex.join(word.removeprefix(_VALUE) for word in unknown)
            raise InputError(f"clusterbook {command} has no option or place for {said}; a "
                             f"parameter is given as -p NAME VALUE, and clusterbook {command} "
                             "--help lists the options")
        if options.do is _run:
            options.command = shlex.join(["clusterbook", *words])
        elif _TORCHRUN in os.environ:
            raise InputError("under torchrun each process would do this once more: it starts "
                             "'clusterbook run' only")
        options.do(options)
        print(end="", flush=True)
        return 0
    except SystemExit as end:           # argparse printed help or the version
        return int(end.code or 0)
    except InputError as error:
        return _complain(error, 2)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package in _OURS:
            raise
        extra = "dask" if package == "distributed" else "book"
        return _complain(f"this command needs {package}; install clusterbook with its extra "
                         f"{extra}: pip install 'clusterbook[{extra}]'", 2)
    except OSError as error:                    # of a file, or of the output itself
        if error.filename:
            return _complain(f"{error.filename}: {error.strerror}", 2)
        with suppress(OSError):                 # otherwise Python complains when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # … | head is no mistake
            return 0
        return _complain(f"{error.strerror or error}; make room for the output and in TMPDIR", 1)
    except KeyboardInterrupt as stop:
        return _complain(f"interrupted; {str(stop) or 'no partial files left'}", 130)
    except RuntimeError as error:
        if type(error).__module__.split(".")[0] not in _OURS:
            raise
        return _complain(error, 1)


def _complain(sentence: object, status: int) -> int:
    print(f"clusterbook: {sentence}", file=sys.stderr)
    return status


# --- the commands ------------------------------------------------------------------------------


def _book(options) -> None:
    from .build import build

    # Steps go to stderr, the page's path alone to stdout: open "$(clusterbook book)".
    print(build(run=not options.no_execute, pdf=options.pdf,
                say=partial(print, file=sys.stderr)))


def _run(options) -> None:
    from . import runs

    if options.records is True:
        options.records = (config.checkout() or Path()) / "data" / "records"
    if options.only and not (options.output or options.figures):
        raise InputError("--only draws figures; --figures DIR says where to keep them")
    go = partial(runs.run, **_asked(options))
    said = config.book().under_torchrun()(go) if _TORCHRUN in os.environ else go()
    if said is None:        # of another process than the first
        return
    print("\n".join(said))
    if not (options.output or options.figures or options.records):
        print(f"{options.name} ran to its end; nothing was kept. "
              "--output FILE keeps the notebook, --figures DIR its figures, --record its numbers.")


def _print(function: str, options) -> None:
    """Print what a function of the engine gives: a view, or lines as soon as they are there."""
    given = resolve_name(f"bookledger.{function}")(**_asked(options))
    for line in given if isinstance(given, Iterator | list) else [given]:
        print(line, flush=True)


def _asked(options) -> dict[str, Any]:
    """The options as keyword arguments of the function that does the work."""
    asked = {name: value for name, value in vars(options).items() if name != "do"}
    if "overrides" not in asked:
        return asked
    from .parameters import Parameter, from_text, number_range

    asked["overrides"] = dict(_distinct(options.overrides))
    if options.seeds is not None:
        for part in options.seeds.split(","):
            number_range(part)      # says what is wrong with a range
        with suppress(InputError):
            kind = Parameter("--seeds", "list[int]", [], "", "", "")
            asked["seeds"] = from_text(kind, options.seeds)
        if asked["seeds"] in (options.seeds, []):
            raise InputError("--seeds takes whole numbers, for example 0-4 or 0,2,7, not "
                             f"{options.seeds[:60]!r}")
    return asked


def _figures(options) -> None:
    from .parameters import figure_table

    for name in options.names or config.chapters():
        print(figure_table(name), end="\n\n")


def _data(options) -> None:
    datasets, known = config.book().datasets(), config.book().catalog()
    files = [name for name in options.names if name not in known and Path(name).suffix]
    for name in options.names:
        if name not in known and Path(name).is_dir():
            raise InputError(f"{name} is a folder; a run takes the images of one as -p dataset "
                             f"folder:{name}")
    wanted = [config.pick("data set", name, known) for name in options.names if name not in files]
    if options.overrides and not files:
        raise InputError("-p says how a file is read, and no file is named")
    typed = _typed(options.overrides, datasets.OPTIONS)
    for name in files:
        said = datasets.described(name, **typed)
        print(f"{name}\n", *(f"{part:<20}{text}" for part, text in said.items()), sep="\n")
    if files and not wanted:
        return
    for source in wanted:
        datasets.fetch(source.name)
    print(f"data files: {paths.data_home()}\n")
    for source in wanted or known.values():
        print(f"{source.name:<16}{datasets.status(source.name):<10}{source.title}",
              f"{source.size} · license: {source.license}",
              *(f"{file}  sha256 {checksum}" for file, checksum in source.files.items()),
              sep=f"\n{'':16}")
    if not wanted:
        print(f"{'folder:PATH':<16}{'your own':<10}A folder of images, or of one folder per class")
        print(f"{'FILE':<16}{'your own':<10}A table: what is understood of it")


def _typed(pairs: Sequence[tuple[str, str]], known: Mapping[str, Any]) -> dict[str, Any]:
    """What was typed after -p, converted to the types of the *known* values."""
    from .parameters import Parameter, from_text

    typed = {}
    for name, text in _distinct(pairs):
        default = config.pick("option of a file", name, known)
        kind = "list[str]" if default == [] else type(default).__name__
        one = Parameter(name, kind, default, "", "", "")
        typed[name] = from_text(one, text)
    return typed


def _distinct(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Names and values that were typed after -p; InputError for a name that is given twice."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"-p {name} is given twice")
    return [(name, value.removeprefix(_VALUE)) for name, value in pairs]


def _own(options) -> None:
    print("\n".join(options.own(*options.words)))


# --- their options -----------------------------------------------------------------------------

_SWITCH, _PATH = {"action": "store_true"}, {"type": Path}
_NAMES = {"nargs": "+", "action": "extend", "default": []}
_PAIRS = {"nargs": 2, "action": "append", "default": [], "dest": "overrides"}
_CHAPTER = ("name", "CHAPTER", None, {})
_SHARED = [_CHAPTER, ("--profile", "NAME", "a named parameter set", {}),
           ("--seeds", "0-4", "make every run with each of these seeds", {})]
#: Command → what does it, what it is for, and its options: name, value, help, argparse's settings.
_COMMANDS = {
    "book": (_book, "execute the chapters that changed and build the book", [
        ("--no-execute", None, "render the committed outputs", _SWITCH),
        ("--pdf", None, "one PDF of the whole book instead of the site; needs LaTeX", _SWITCH)]),
    "run": (_run, "run a chapter, with other parameters if asked", [
        *_SHARED,
        ("-p --parameter", ("NAME", "VALUE"), "one parameter; may be given several times", _PAIRS),
        ("--output", "FILE", "write the executed notebook here", _PATH),
        ("--figures", "DIR", "write each figure with its numbers as CSV, and the executed "
         "notebook as a page without code", _PATH),
        ("--only", "FIGURE", "run what these figures need and nothing else; clusterbook figures "
         "names them", _NAMES),
        ("--format", "pdf,svg,png", "file formats of the figures (default: png,svg); svg-text "
         "keeps text as text", {"dest": "formats"}),
        ("--width", "WIDTH", "width of the figures: single (3.5 inches), double (7.2), or inches",
         {}),
        ("--style", "STYLE", "style of the figures: plain, paper (small, black on white) or "
         "dark", {}),
        ("--record", "DIR", "write the run's record (default DIR: the checkout's data/records)",
         {**_PATH, "dest": "records", "nargs": "?", "const": True}),
        ("--for", "2h", "with --record: stop at the end of an epoch after this time; the same "
         "command resumes", {"dest": "budget"})]),
    "sweep": ("sweep.sweep", "run a chapter over a grid of parameters, draw its metric", [
        *_SHARED,
        ("-p --parameter", ("NAME", "V1,V2"), "a parameter and its values; a second one with "
         "several values is drawn as lines", _PAIRS),
        ("--metric", "NAME", "what is drawn (default: the chapter's main metric)",
         {**_NAMES, "dest": "metrics"}),
        ("--workers", "N", "processes at a time, one thread each (default: one per processor)",
         {"type": int}),
        ("--scheduler", "ADDRESS", "make the runs on a Dask cluster instead: tcp://HOST:8786", {}),
        ("--output", "DIR", "write records, table and figures here (default: sweep-CHAPTER-NAME)",
         _PATH)]),
    "status": ("runs.unfinished", "recorded runs that are unfinished, and how each is resumed", []),
    "parameters": ("parameters.shown", "a chapter's parameters and profiles", [_CHAPTER]),
    "figures": (_figures, "figures: what changes each, and the command that draws it alone", [
        ("names", "CHAPTER", None, {"nargs": "*"})]),
    "data": (_data, "list data sets, fetch those that are named, and show how a file of your "
             "own is read", [
        ("names", "NAME", "a data set, or a file", {"nargs": "*"}),
        ("-p --parameter", ("NAME", "VALUE"), "how the file is read: labels, features, id_column, "
         "text, impute, missing, sheet, transpose", _PAIRS)]),
    "verify": ("verify.verify", "run records again and compare", [
        ("names", "RECORD", "such as tell-digits-seed0 (default: three cheap ones)",
         {"nargs": "*"}),
        ("--by", "NAME", "for each, write to data/verified who reran it, when and on which "
         "machine",
         {})]),
    "scorecard": ("views.scorecard", "compare the claims with the records", []),
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say it in one sentence, without the usage."""
        raise InputError(f"{message}; {self.prog} --help lists what it takes")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="clusterbook", epilog=_EXIT, description=config.book().about)
    parser.add_argument("--version", action="version", version=f"clusterbook {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (do, says, options) in _COMMANDS.items():
        command = commands.add_parser(
            name, help=says, description=says, allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=f"{_SWEEP}\n\n{_EXIT}" if name == "sweep" else _EXIT)
        command.set_defaults(do=partial(_print, do) if isinstance(do, str) else do)
        for flags, value, text, settings in options:
            shown = {} if settings is _SWITCH else {"metavar": value}
            text = ", ".join(config.chapters()) if value == "CHAPTER" else text
            command.add_argument(*flags.split(), help=text, **shown, **settings)
    for name, own in config.book().commands.items():
        command = commands.add_parser(name, help=own.says, description=own.says, epilog=_EXIT)
        command.set_defaults(do=_own, own=own)
        for argument, text in own.arguments.items():
            command.add_argument("words", metavar=argument, help=text, action="append")
    return parser
