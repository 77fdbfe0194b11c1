# SPDX-License-Identifier: Apache-2.0
# Who ends because of another task's error says it in that one's words: it is shown once, and those that have failed are
# named in one line.
same='echo "worker:0: the disk is full (file a)" >&2; exit 1'
$SHEAF run -w 4 -- sh -c 'case $TF_CONFIG in *index\":0*) ;; *) sleep 0.3;; esac; '"$same" 2>&1
echo --- also with what another one was about, and by those that have found the same
$SHEAF run -w 3 -- sh -c 'case $TF_CONFIG in *index\":0}*) echo "worker:0: a is full" >&2; exit 1;;
    *index\":1}*) sleep 0.3; echo "worker:0: save: a is full" >&2; exit 1;; esac
    sleep 0.5; echo "worker:2: a is full" >&2; echo "worker:2: aa is full" >&2; exit 1' 2>&1
echo --- as the task itself repeats it, and what is no such line, it is shown
$SHEAF run -w 1 -- sh -c 'echo "ps:1: gone" >&2; echo "ps:1: gone" >&2'  2>&1
$SHEAF run -w 2 -- sh -c 'for line in "worker:x: a" "worker: b" "worker:1: " "worker:1:c" " worker:1: d" "workers:1: e"
    do echo "$line" >&2; done' 2>&1 | sort
echo --- what none of them would start with is said before any does
SHEAF_THREADS=many $SHEAF run -w 2 touch ran 2>&1
echo $? $(ls ran 2>/dev/null)
echo --- other codes are other lines
$SHEAF run -w 11 -- sh -c 'case $TF_CONFIG in *index\":0}*) exit 3;; *index\":1}*) sleep 0.5; exit 4;; esac; sleep 0.5; exit 5' 2>&1
echo --- in files nothing is left out
$SHEAF run -w 2 --log-dir logs -- sh -c 'echo "worker:0: the disk is full (file a)" >&2'
cat logs/*
