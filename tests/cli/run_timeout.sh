# SPDX-License-Identifier: Apache-2.0
# --timeout ends everything, first kindly, then not.
$SHEAF run -w 2 --timeout 0.3 --grace 0.3 sleep 100
echo $?
$SHEAF run --timeout 1 --grace 0.3 -- sh -c 'trap "" TERM; while :; do sleep 0.05; done'
echo $?
