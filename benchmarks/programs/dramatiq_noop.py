"""An empty task for dramatiq on Redis: `dramatiq dramatiq_noop` works,
`python dramatiq_noop.py fill|pickup COUNT` sends."""

import json
import os
import sys

import dramatiq
import progress
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=os.environ["BENCH_REDIS"]))


@dramatiq.actor
def noop(n):
    progress.task(n)


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        print(json.dumps(progress.sends(noop.send, int(sys.argv[2]))))
    else:
        taken = progress.pickups_us(os.environ["BENCH_DIRECTORY"], noop.send, int(sys.argv[2]), float(sys.argv[3]))
        print(json.dumps(taken))
