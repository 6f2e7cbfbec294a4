"""`python -m conductor.cli`."""

import sys

from conductor.cli import main

# Worker processes import this file again: nothing may run then.
if __name__ == "__main__":
    sys.exit(main())
