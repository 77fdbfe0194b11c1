"""Checkpoints of optimizers before Keras 3, and where the next step takes the variables.

python slots.py OUTDIR, with tensorflow 2.21 and tf_keras 2.21: writes OUTDIR/checkpoint/slots, for each optimizer a checkpoint
after STEPS steps and a line of next.txt: its name, then w and b (hexadecimal floats) after one step more. Names begin with
"legacy" (tf.keras.optimizers.legacy, by tf.train.Checkpoint), "v1" (tf.compat.v1.train, likewise) and "saver" (both, by
tf.compat.v1.train.Saver: names only).
"""
import os
import shutil
import sys

import tensorflow as tf
from tf_keras.optimizers import legacy

v1 = tf.compat.v1.train
STEPS = 3
W, B = [1.0, -2.0, 3.0, 0.5], [0.25, -0.75]
GW, GB = [0.5, -1.25, 2.0, -0.75], [1.5, -0.125]

LEGACY = {
    'sgd': lambda: legacy.SGD(0.0625, momentum=0.75),
    'sgd-plain': lambda: legacy.SGD(0.0625),
    'adam': lambda: legacy.Adam(0.0625, beta_1=0.8, beta_2=0.95, decay=0.25),
    'adam-amsgrad': lambda: legacy.Adam(0.0625, amsgrad=True),
    'adagrad': lambda: legacy.Adagrad(0.0625),
    'rmsprop': lambda: legacy.RMSprop(0.0625, rho=0.75),
    'rmsprop-centered': lambda: legacy.RMSprop(0.0625, momentum=0.5, centered=True),
    'ftrl': lambda: legacy.Ftrl(0.0625, l1_regularization_strength=0.125),
    'adadelta': lambda: legacy.Adadelta(0.5),
    'adamax': lambda: legacy.Adamax(0.0625),
}
V1 = {
    'momentum': lambda: v1.MomentumOptimizer(0.0625, 0.75),
    'adam': lambda: v1.AdamOptimizer(0.0625),
    'adagrad': lambda: v1.AdagradOptimizer(0.0625),
    'rmsprop': lambda: v1.RMSPropOptimizer(0.0625, momentum=0.5),
    'rmsprop-centered': lambda: v1.RMSPropOptimizer(0.0625, momentum=0.5, centered=True),
    'ftrl': lambda: v1.FtrlOptimizer(0.0625),
}


def gradients(step):
    return [tf.constant([g * step for g in gs]) for gs in (GW, GB)]


def eager(optimizer):
    w, b = tf.Variable(W, name='w'), tf.Variable(B, name='b')
    step = lambda k: optimizer.apply_gradients(zip(gradients(k), [w, b]))
    for k in range(STEPS):
        step(k + 1)
    return w, b, lambda: (step(STEPS + 1), (w.numpy(), b.numpy()))[1]


def graph(path, make):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        w, b = (tf.compat.v1.get_variable(n, initializer=tf.constant(v)) for n, v in (('w', W), ('b', B)))
        count = v1.get_or_create_global_step()
        step = make().apply_gradients([(g * tf.cast(count + 1, tf.float32), v) for g, v in zip(gradients(1), (w, b))], count)
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(STEPS):
            session.run(step)
        v1.Saver().save(session, path, write_meta_graph=False, write_state=False)
        session.run(step)
        return session.run([w, b])


def main():
    out = os.path.join(sys.argv[1], 'checkpoint', 'slots')
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    lines = []
    for kind, table in ('legacy', LEGACY), ('v1', V1):
        for name, make in table.items():
            o = make()
            w, b, step = eager(o)
            tf.train.Checkpoint(w=w, b=b, optimizer=o).write(f'{out}/{kind}-{name}')
            lines.append((f'{kind}-{name}', step()))
    for name, make in V1.items():
        lines.append((f'saver-{name}', graph(f'{out}/saver-{name}', make)))
    o = LEGACY['adam']()
    w, b, step = eager(o)
    v1.Saver([w, b] + o.variables()).save(None, f'{out}/saver-legacy-adam', write_meta_graph=False, write_state=False)
    lines.append(('saver-legacy-adam', step()))
    with open(f'{out}/next.txt', 'w') as f:
        for name, values in lines:
            print(name, *(float(x).hex() for v in values for x in v), file=f)


main()
