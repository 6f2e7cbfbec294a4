"""The small languages inside definitions. Their texts are not trusted: each is parsed in linear time.

- `expressions`: `${...}`, such as `${workflow.input.x}`.
- `jsonpath`: JSONPath, the syntax between `${` and `}`.
- `javascript_subset`: simple JavaScript conditions, evaluated without an engine.
- `script_engines`: which script engines are installed.
- `durations`: the duration or end of a WAIT.
- `cron`: the due times of a schedule.
- `cron_words`: a cron expression in words.
- `value_sizes`: the size limit of values.
"""
