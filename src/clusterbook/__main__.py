"""``python -m clusterbook``: the command, as ``torchrun -m`` starts it."""

import sys

from .cli import main

sys.exit(main())
