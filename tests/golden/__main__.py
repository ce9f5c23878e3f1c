"""Write the golden numbers, with which `make test` compares: ``python tests/golden [METHOD…]``.

It runs the fits of these methods, by default of all; keeps each number that still holds, and
refuses others of a method whose ``VERSION`` is still the one that its file is of.
"""

import sys

from golden import write  # beside this file

from clusterbook.checks import InputError

if __name__ == "__main__":
    try:
        sys.exit(write(sys.argv[1:]))
    except InputError as error:
        sys.exit(str(error))
