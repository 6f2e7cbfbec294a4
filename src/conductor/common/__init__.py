"""Small modules that every other package may import. These modules import no other modules of this project.

- `backoff`: growing delays between failed attempts.
- `clock`: the real clock, which tests can replace.
- `lazy_names`: names of a package that are imported on first use.
- `machine`: the state directory, file locks, loopback addresses and the event loop.
- `signals`: signal handlers that are set for a block and restored after it.
- `text`: text that is safe to print.
"""
