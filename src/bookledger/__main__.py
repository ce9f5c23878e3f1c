"""``python -m bookledger``: the command ``clusterbook``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
