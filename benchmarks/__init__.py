"""Benchmarks of programs, measured from outside their processes. The compared programs run one after the other.

The suite (`make bench`), in the order of its table: throughput, counts, starts, pickup, shapes, growth, idle, memory.
Each part of the suite has `measure(run)`. The others have `main()` and run only by name: path (how many files and stack
frames a task passes through), compared (a program of ten workers, here and under conductor-python), chaos_comparison,
conversion_cost, audit_cost, journal_cost, metrics_cost, progress_cost, durable_steps (20 steps of a task in a row, and
the same with DBOS), durable_sleepers (10,000 sleeping functions, and how late they wake up), replication (with and
without Litestream), tracing_cost, worker_memory.

Shared modules: `_run` (rounds and turns), `_rivals` (the compared libraries, called contestants),
`_server` (a coordinator and a cheap client),
`_processes` (CPU and memory of programs), `_figures` (medians, spread, ratios), `_publish` (the results).
`programs/` has the programs that run in the environments of other libraries. They do not import this package.
"""
