# SPDX-License-Identifier: Apache-2.0
# Every fault is reported with file, record and offset; verify goes on where it can; the exit code is 1.
damage() { # file, offset, byte
    cp "$DATA/digits-test.tfrecord" "$1"
    printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
damage data 250 '\377' # inside the data of record 2
$SHEAF records verify data
echo $?
$SHEAF records count data
echo $?
echo --- the length of record 1
damage length 113 '\377'
$SHEAF records verify length
echo $?
echo --- cut in the middle of record 2
head -c 300 "$DATA/digits-test.tfrecord" >cut
$SHEAF records verify --json cut
echo $?
$SHEAF records head -n 0 cut >/dev/null
echo $?
echo --- missing, and the others are looked at all the same
cp "$DATA/digits-test.tfrecord" good
$SHEAF records verify missing good
echo $?
$SHEAF records head . >/dev/null
echo $?
