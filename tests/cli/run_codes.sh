# SPDX-License-Identifier: Apache-2.0
# The exit code is the first that is not 0, as a shell counts it.
code() { "$SHEAF" run "$@"; echo "$?"; }
code true
code false
code -w 2 -- sh -c 'case $TF_CONFIG in *'"'"'"index":1'"'"'*) exit 7;; esac; sleep 0.3; exit 8'
code sh -c 'kill -9 $$'
code sh -c 'kill -TERM $$'
code ./missing
touch plain; code ./plain
