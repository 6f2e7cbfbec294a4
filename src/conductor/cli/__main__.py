"""The entry point of `python -m conductor.cli`."""

import sys

from conductor.cli import main

# Worker processes import this file again and must not run a command.
if __name__ == "__main__":
    sys.exit(main())
