"""Hostile data against a real coordinator, with a neighbour that must not notice. In reading order:

- `test_hostile`: each case in turn: the neighbour is served meanwhile, memory is bounded, and after `kill -9` the same
  file opens and serves.
- `server`: a coordinator in a process of its own, on a file that outlives it.
- `neighbour`: asks for /health and starts small workflows, beside the case and in a process of its own.
- `world`: what a case can do: register, start, work, ask, and wait for an end.
- `cases`: the table of all cases, and which of them run in the fast suite.
- `texts`: durations, queries, conditions, expressions, templates, and names.
- `shapes`: nesting, numbers, characters, wrong types, and sizes of JSON.
- `schemas`: JSON schemas that ask for endless work.
- `flows`: loops, forks, joins, sub-workflows and failure workflows.
- `work`: polls, reports, logs, limits and bulk requests.
"""
