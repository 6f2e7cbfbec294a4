"""An empty task for huey on Redis: `huey_consumer huey_noop.huey` works,
`python huey_noop.py fill|pickup COUNT` sends."""

import json
import os
import sys

import progress
from huey import RedisHuey

huey = RedisHuey("bench", url=os.environ["BENCH_REDIS"])


@huey.task()
def noop(n):
    progress.task(n)


# huey names a task by its module, so the sender imports this module instead of defining the task in `__main__`.
if __name__ == "__main__":
    from huey_noop import noop as send

    if sys.argv[1] == "fill":
        print(json.dumps(progress.sends(send, int(sys.argv[2]))))
    else:
        taken = progress.pickups_us(os.environ["BENCH_DIRECTORY"], send, int(sys.argv[2]), float(sys.argv[3]))
        print(json.dumps(taken))
