"""Runs workflows on a Conductor server and on the coordinator, and compares them task by task.

- `definitions`: a definition from a folder, made harmless: its addresses lead to a stub, its waits are short.
- `values`: inputs and outputs that lead a workflow through its definition, made up from how they are used.
- `run`: one workflow worked off by hand on one server, always the same task first.
- `shape`: what of a run is compared: type, status, output keys and order of every task.
- `stub`: answers every call of an HTTP task.
"""
