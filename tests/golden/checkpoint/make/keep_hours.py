"""What tf.train.CheckpointManager keeps with keep_checkpoint_every_n_hours, over restarts and a clock that is put back.

Writes ../keep-hours.txt, a line an event: "manager TIME NEWEST HOURS", or "save TIME FILES LISTED PRESERVED" with the numbers of
the checkpoints that are there and that the state file names ("-" between them), and its last_preserved_timestamp.
"""
import glob
import os
import random
import re
import tempfile
from unittest import mock

import tensorflow as tf
from tensorflow.python.checkpoint import checkpoint_management

HERE = os.path.dirname(os.path.abspath(__file__))


def numbers(paths):
    return '-'.join(map(str, sorted(int(re.search(r'ckpt-(\d+)', p)[1]) for p in paths))) or 'none'


def events(folder, newest, hours, gaps, restarts):
    now = 1700000000.0
    for gap in gaps:
        if gap == gaps[0] or restarts.random() < 0.25:
            with mock.patch.object(checkpoint_management.time, 'time', lambda: now):
                checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
                manager = tf.train.CheckpointManager(checkpoint, folder, newest, keep_checkpoint_every_n_hours=hours)
                checkpoint.restore(manager.latest_checkpoint)
            yield f'manager {now} {newest} {hours}'
        now += gap
        with mock.patch.object(checkpoint_management.time, 'time', lambda: now):
            manager.save()
        state = tf.train.get_checkpoint_state(folder)
        yield (f'save {now} {numbers(glob.glob(folder + "/*.index"))} {numbers(state.all_model_checkpoint_paths)} '
               f'{state.last_preserved_timestamp}')


def main():
    chance = random.Random(5)
    with open(f'{HERE}/../keep-hours.txt', 'w') as out:
        for newest, hours, back in (2, 1.0, 0), (3, 0.5, 0), (1, 2.5, 0), (2, 1.0, 1):
            gaps = [chance.choice((60.0, 600.0, 900.5, 1800.0, 3600.0, 7200.25)) for _ in range(24)]
            if back:
                gaps[12] = -9000.0
            with tempfile.TemporaryDirectory() as folder:
                print(*events(folder, newest, hours, gaps, chance), sep='\n', file=out)


if __name__ == '__main__':
    main()
