"""Replication of the database by Litestream, a separate program. In reading order:

- `replica_url`: where a replica is stored; hides the password of the URL.
- `litestream`: finds the program, writes its configuration, and runs its commands.
- `replicator`: runs Litestream as a child process, numbers the replica of each run, and reads its state.
- `restore`: makes a database from a copy or a replica.

Two coordinators must never write to one replica, because they would destroy it silently. A restarted Litestream can
destroy its own replica. So each start of Litestream begins a replica with a new number below the URL: `000001`,
`000002` and so on. The database records its last number.
"""
