"""Write the golden numbers, with which `make test` compares: ``python tests/golden``.

It keeps each number that still holds, and refuses others of a method whose ``VERSION`` is still the
one that the file is of.
"""

import sys

from golden import write  # beside this file

if __name__ == "__main__":
    sys.exit(write())
