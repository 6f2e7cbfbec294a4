"""The demo that `conductor-worker demo` runs: a small shop and its customers. In reading order:

- `shop`: five workers, the workflow that joins them, and the orders of a day. The example code to look at.
- `customers`: they order, wait, and one of them changes their mind.
- `worker_page`: what the workers say of themselves, over HTTP as Prometheus and Kubernetes would ask.
- `summary`: the table of what happened, from the server's records and the workers' metrics.
- `day`: one day of the shop, from starting the workers to the last line.
"""
