"""``python -m clusterbook``: the command that this distribution installs, as torchrun starts it.

The library does not import the engine: the command is looked up by its name.
"""

import sys
from importlib.metadata import entry_points

if __name__ == "__main__":
    [command] = entry_points(group="console_scripts", name="clusterbook")
    sys.exit(command.load()())
