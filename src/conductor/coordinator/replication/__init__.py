"""Replication of the database by Litestream, a separate program. In reading order:

- `replica_url`: where a replica is stored; hides the password of the URL.
- `litestream`: finds the program, writes its configuration, and runs its commands.
- `replicator`: numbers the replica of each start, runs Litestream as a child process, and reads its state.
- `restore`: makes a database from a copy or a replica.

Two coordinators must never write to one replica, because they would destroy it silently. So each start of a coordinator
begins a replica with a new number below the URL: `000001`, `000002` and so on. The database records its last number.
"""
