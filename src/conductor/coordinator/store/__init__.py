"""SQLite, the one truth. In reading order:

- `database_file`: opens the file: lock, check, schema, epochs.
- `rows`: the rows of tasks and workflows as structs.
- `sql`: the texts of the named statements, the schema and its migrations.
- `statements`: every named statement as a typed constant.
- `writer`: the thread that writes, and group commit.
- `commit_pacer`: which callers share a commit.
- `transaction`: what one caller reads and changes.
- `row_cache`: rows of running workflows in memory, and the way to change their columns.
- `crash_marks`: which workflow was being decided when the process died.
- `lookup`: finds rows by id or key, and removes them.
- `ids`: public ids, derived from keys.
- `retention`: removes finished workflows.
- `online_backup`: copies the file while it is in use.
- `write_probe`: whether the writer can write.
"""
