"""The one truth: a SQLite file. In reading order:

- `writer`: one thread writes; callers share a commit, readers are beside it.
- `commit_pacer`: which callers share a commit.
- `database_file`: the file itself: taken for this process alone, checked, brought to the newest schema.
- `online_backup`: a copy of the file, while it is written to.
- `transaction`: one caller's part of a transaction.
- `row_cache`: what the writer keeps at hand of workflows that run, and writes once.
- `rows`: the rows of tasks and workflows, as the schema has them.
- `lookup`: finding rows by id or key, and removing them.
- `ids`: public ids, derived from keys and a secret of the file.
- `write_probe`: whether the writer writes, for the health check.
- `retention`: forgetting finished workflows.
- `sql`: the schema, its migrations, and every statement by its name.
"""
