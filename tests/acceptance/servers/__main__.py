"""Start a server by hand: `python -m tests.acceptance.servers conductor-postgres`."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.acceptance.servers.missing import Missing
from tests.acceptance.servers.targets import TARGETS

STOPS = (signal.SIGTERM, signal.SIGINT)


def main() -> int:
    """Start it, print its URL, stop it at Ctrl-C or SIGTERM."""
    if len(sys.argv) != 2 or sys.argv[1] not in TARGETS:
        print(f"usage: python -m tests.acceptance.servers NAME   NAME is one of {', '.join(TARGETS)}")
        return 2
    for number in STOPS:  # a shell without job control has us ignore Ctrl-C
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="conductor-") as directory:
        target = TARGETS[sys.argv[1]](Path(directory))
        began = time.monotonic()
        try:
            target.start()
            print(f"{sys.argv[1]} is up after {time.monotonic() - began:.1f} s", flush=True)
            print(f"export CONDUCTOR_SERVER_URL={target.url}", flush=True)
            signal.pause()
        except Missing as missing:
            print(missing)
            return 1
        except KeyboardInterrupt:
            return 0
        finally:
            for number in STOPS:  # a second signal would leave the server behind
                signal.signal(number, signal.SIG_IGN)
            target.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
