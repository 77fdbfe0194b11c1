# SPDX-License-Identifier: Apache-2.0
# What is started in the background ignores SIGINT, its tasks inherit that: the launcher goes on to SIGTERM, then to
# SIGKILL. Under nohup SIGHUP ends nothing.
ask() { # signal, what the tasks do
    rm -f ready.* asked
    "$SHEAF" run -w 2 --grace 0.3 -- sh -c ': >ready.$$; '"$2" &
    until [ "$(ls | grep -c ready)" -ge 2 ]; do sleep 0.02; done
    kill "-$1" $!
    : >asked
    wait $!
    echo "$1 $?"
}
ask INT 'sleep 100 & wait; wait'
ask INT 'trap "" TERM; while :; do sleep 0.05; done'
ask TERM 'trap "" TERM; while :; do sleep 0.05; done'
(trap "" HUP; ask HUP 'until [ -f asked ]; do sleep 0.02; done; echo done')
