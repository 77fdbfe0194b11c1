# SPDX-License-Identifier: Apache-2.0
# Bad input files: one clear line that says where, exit code 1, nothing left behind.
try() { "$DIGITS" --epochs 1 "$@" 2>&1; echo "$?"; }
echo --- missing
try --data nowhere --out out
echo --- a flipped byte
cp -r "$DATA" flipped
chmod -R u+w flipped
printf '\377' | dd of=flipped/digits-train-00001-of-00004.tfrecord bs=1 seek=250 conv=notrunc 2>/dev/null
try --data flipped --out out
echo --- cut off
cp -r "$DATA" cut
chmod -R u+w cut
head -c 300 "$DATA/digits-train-00002-of-00004.tfrecord" >cut/digits-train-00002-of-00004.tfrecord
try --data cut --out out
echo --- a directory that cannot be written
: >file
try --data "$DATA" --out file/out
ls
