"""The SQLite file, which holds the whole state of the coordinator. In reading order:

- `database_file`: opens the file: lock, check, schema, epochs.
- `rows`: the rows of tasks and workflows as structs.
- `sql`: the texts of the named statements, the schema and its migrations.
- `statements`: every named statement as a typed constant.
- `writer`: the thread that writes, and group commit.
- `commit_pacer`: decides which callers share a commit.
- `clock_jumps`: detects that the wall clock was set.
- `wal_gap`: lets Litestream reset the write-ahead log while the writer is busy.
- `transaction`: the statements of one caller in a transaction, and its notes for other parts.
- `row_cache`: rows of running workflows in memory, and the way to change their columns.
- `crash_marks`: records which workflow was being decided when the process died.
- `lookup`: finds rows by id or key, and removes them.
- `epoch_fence`: keeps a coordinator from granting tasks after its database was restored elsewhere.
- `ids`: public ids, derived from keys.
- `retention`: removes finished workflows.
- `online_backup`: copies the file while it is in use.
- `disk_space`: refuses starts on a nearly full disk.
- `write_probe`: finds out whether the writer can write.
"""
