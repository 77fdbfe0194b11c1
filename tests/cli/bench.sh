# SPDX-License-Identifier: Apache-2.0
# Benchmarks print their four fields; wrong names and missing folders are refused.
$SHEAF bench ps | tr '\t' '|'
# The loop with a compiled step, and the eager one.
$SHEAF bench loop | tr '\t' '|'
$SHEAF bench nonsense
echo $?
$SHEAF bench input
echo $?
$SHEAF bench --data nowhere input
echo $?
