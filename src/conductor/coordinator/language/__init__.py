"""The small languages inside definitions. Every text comes from strangers: all of it is read in linear time.

- `expressions`: `${workflow.input.x}` and the like.
- `paths`: JSONPath, the syntax between `${` and `}`.
- `conditions`: what a SWITCH and a DO_WHILE evaluate, the part of JavaScript that needs no engine.
- `engines`: whether what runs scripts is installed.
- `durations`: how long, or until when, a WAIT waits.
- `cron`: when a schedule is due.
- `sizes`: how large a value may become.
"""
