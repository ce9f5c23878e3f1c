"""Reading notebooks and YAML that a person may have damaged: a mistake is one sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import yaml

from ..errors import InputError


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """A notebook with at least one cell, in version 4 of the format.

    Raises
    ------
    InputError
        If the file can't be read or is not such a notebook.
    """
    invalid: dict[str, Exception] = {}
    try:
        notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4,
                                  capture_validation_error=invalid)
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a notebook: it is not UTF-8 text") from None
    except (nbformat.reader.NotJSONError, RecursionError):
        raise InputError(f"{path} is not a notebook: it is empty or not JSON") from None
    except (AttributeError, KeyError, TypeError):       # what nbformat trips over
        raise InputError(f"{path} is not a notebook: it is JSON of another form") from None
    except (nbformat.ValidationError, ValueError) as error:
        invalid["reading"] = error
    if invalid:
        reason = str(next(iter(invalid.values()))).partition("\n")[0]
        raise InputError(f"{path} is not a notebook: {reason[:100]}")
    if not notebook.cells:
        raise InputError(f"{path} is not a notebook of the book: it has no cells")
    return notebook


def read_yaml(path: Path) -> Any:
    """The content of a YAML file.

    Refused are also keys that stand twice, and the numbers ``010`` and ``1:30``, which YAML 1.1
    reads as 8 and 90.

    Raises
    ------
    InputError
        If the file can't be read or is not such YAML; the message begins with the file's name.
    """
    file = "/".join(path.parts[-2:])
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: not YAML: it is not UTF-8 text") from None
    except RecursionError:
        raise InputError(f"{file}: not YAML that can be read: it is nested too deep") from None
    except yaml.YAMLError as error:
        raise InputError(f"{file}: not YAML: {' '.join(str(error).split())}") from None
    except InputError as error:
        raise InputError(f"{file}, {error}") from None


class _Loader(yaml.SafeLoader):
    """YAML's safe loader without what it reads differently from how a person means it."""

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Any, Any]:
        """A mapping whose keys all differ."""
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if (key.tag, str(key.value)) in seen:
                raise InputError(f"{_line(key)}: the key {key.value!r} stands twice; delete one")
            seen.add((key.tag, str(key.value)))
        return super().construct_mapping(node, deep)


def _number(construct):
    def checked(loader: _Loader, node: yaml.ScalarNode) -> Any:
        if re.match(r"[-+]?(0[0-9_]+$|.*:)", node.value):
            raise InputError(f"{_line(node)}: YAML reads {node.value} as "
                             f"{construct(loader, node)}; write the number in full, or in quotes "
                             "if it is a text")
        return construct(loader, node)
    return checked


_Loader.add_constructor("tag:yaml.org,2002:int", _number(yaml.SafeLoader.construct_yaml_int))
_Loader.add_constructor("tag:yaml.org,2002:float", _number(yaml.SafeLoader.construct_yaml_float))


def _line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"
