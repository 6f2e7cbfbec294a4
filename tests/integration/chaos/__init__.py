"""Chaos runs: real processes on a bad network and bad disks, attacked while they work, and checked afterwards.

`make chaos` runs it (`ARGS="--tasks 50000"`, `--seed N`, `--kills 200`, `--durable-kills 200`, `--disasters 10`,
`--help`); the tests run small versions.

Every process of a run appends its events at once to the *execution log*, one file whose lines survive the death of
the process that wrote them. A worker writes when it begins a task, the effects that it causes and the verdicts that it
receives. A client writes the answers that it receives. After the run, the log is compared with the server's data.

| File | Contents |
|---|---|
| `__main__.py` | the command: reads its options, prints the figures and the broken promises |
| `run.py` | a chaos run from beginning to end: its plan and its processes |
| `attacks.py` | kills, stops, full disks, drains and terminated workflows, one after the other |
| `processes.py` | the processes that are attacked: the coordinator and the worker programs |
| `disks.py` | the disks that are filled |
| `proxy.py`, `http_stream.py` | the bad network: delays, cuts, resets, duplicates and error pages |
| `server.py` | the coordinator as a client sees it: definitions, starts, questions |
| `workers.py`, `work.py` | the workers and their work: planned endings, and one effect on the world |
| `conductor_python_workers.py` | the same work under conductor-python, for `benchmarks/chaos_comparison.py` |
| `execution_log.py` | the execution log |
| `checks.py` | the figures of a run, and every promise that it broke |
| `durable_kills.py` | kills of workers and coordinator amid durable steps |
| `kills.py` | the other run: only kills of the coordinator, and a check of everything it had answered |
| `disasters.py` | loss of the machine: kills, deletion of the data directory, and a restore elsewhere |

Chance comes from one seed: the same seed gives the same jobs, faults and attacks in the same order. When exactly each
of them meets a process is up to the machine.
"""
