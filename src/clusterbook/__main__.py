"""``python -m clusterbook`` is the ``clusterbook`` command."""

import sys

from .cli import main

sys.exit(main())
