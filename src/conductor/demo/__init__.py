"""The demo that `conductor-worker demo` runs: a small shop and its customers. In reading order:

- `shop`: five workers, their workflow, and the orders of a day. Read this one for example code.
- `customers`: starts a workflow for each order, waits for its end, and cancels one.
- `worker_page`: reads the readiness and the metrics of the workers over HTTP.
- `summary`: prints a table from the server's records and the workers' metrics.
- `day`: runs the demo, from the start of the workers to the last line.
"""
