# SPDX-License-Identifier: Apache-2.0
# A benchmark prints its four fields; wrong names and missing folders are refused.
$SHEAF bench ps | tr '\t' '|'
$SHEAF bench nonsense
echo $?
$SHEAF bench input
echo $?
$SHEAF bench --data nowhere input
echo $?
