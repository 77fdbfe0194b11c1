#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers that are not the same program are told at once what differs: both sides' name, shape and dtype, or number."""
from job import check, run

FIRST, SECOND = "/job:worker/task:0", "/job:worker/task:1"


def workers(t, what, strategy="multiworker", **jobs):
    """Both workers of a job of which the second differs."""
    cluster = t.cluster(worker=2, **jobs)
    tasks = cluster.start_all(t.helper("mismatch"), strategy, what)
    return [tasks["worker:0"], tasks["worker:1"]]


def both_say(t, what, *parts):
    """At once, and on one line; in which of the two orders is each one's own."""
    for task in workers(t, what):
        task.fails(*parts, FIRST, SECOND, limit=10)


def case_same(t):
    """The test's program trains where nothing differs, also where one worker has built its optimizer and the other not."""
    for what in ("nothing", "built", "build"):
        for task in workers(t, what):
            check(task.ends(20) == 0 and task.out == "done\n", what, task.show())


def case_variables(t):
    both_say(t, "shape", "variable 'w' float32 (3, 4)", "variable 'w' float32 (3, 5)")
    both_say(t, "dtype", "variable 'w' float32 (3, 4)", "variable 'w' float64 (3, 4)")
    both_say(t, "name", "variable 'b' float32 (4,)", "variable 'bias' float32 (4,)")
    both_say(t, "more", "variable 'extra' float32 ()")


def case_variables_ps(t):
    """The server has what the first worker made; the other one is refused and the job goes on."""
    for what, here, there in (("shape", "'w' float32 (3, 4)", "'w' float32 (3, 5)"),
                              ("dtype", "'w' float32 (3, 4)", "'w' float64 (3, 4)"),
                              ("name", "'b' float32 (4,)", "'bias' float32 (4,)"),
                              ("more", "'iteration' int64 ()", "'extra' float32 ()")):
        first, second = workers(t, what, "ps", ps=1)
        second.fails(f"is {here} here, {there} in the worker that attaches", limit=10)
        check(first.ends(20) == 0 and first.out == "done\n", what, first.show())
        t.tasks[-1].kill_all()


def case_optimizers(t):
    for what, first, second in (("rule", "rule adam", "rule sgd"),
                                ("rate", "learning_rate 0.25", "learning_rate 0.5"),
                                ("build-rate", "learning_rate 0.25", "learning_rate 0.5"),
                                ("clip", "no clipping", "clipnorm 2.0"),
                                ("schedule-kind", "schedule piecewise", "schedule exponential"),
                                ("schedule-boundary", "schedule's boundary 4.0", "schedule's boundary 5.0"),
                                ("schedule-value", "schedule's value 0.25", "schedule's value 0.125")):
        both_say(t, what, f"has {first} on {FIRST}, {second} on {SECOND}; all workers must have the same")


def case_optimizers_ps(t):
    """Where servers update by what each worker sends, training goes on; the server says once what is odd."""
    tasks = t.cluster(worker=2, ps=1).start_all(t.helper("mismatch"), "ps", "rule")
    for task in tasks.values():
        check(task.ends(20) == 0, "failed", task.show())
    server = tasks["ps:0"]
    check(server.err.count("is updated by rule ") == 1 and "rule adam for" in server.err and "rule sgd for" in server.err,
          "no warning, or more than one", server.show())


def case_reduced_values(t):
    """The leaf of a structured value is named."""
    both_say(t, "leaf", "field 'loss.count': ", 'of 1 float32 "()"', 'of 2 float32 "(2,)"')
    both_say(t, "leaf-dtype", "field 'loss.count': ", 'of 1 float32 "()"', 'of 1 float64 "()"')


run(globals())
