"""The small languages inside definitions. Every text comes from strangers: all of it is read in linear time.

- `expressions`: `${workflow.input.x}` and the like.
- `jsonpath`: JSONPath, the syntax between `${` and `}`.
- `javascript_subset`: what a SWITCH and a DO_WHILE evaluate, the part of JavaScript that needs no engine.
- `script_engines`: whether what runs scripts is installed.
- `durations`: how long, or until when, a WAIT waits.
- `cron`: when a schedule is due.
- `value_sizes`: how large a value may become.
"""
