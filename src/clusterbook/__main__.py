"""``python -m clusterbook``: the command, as ``torchrun -m`` starts it."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
