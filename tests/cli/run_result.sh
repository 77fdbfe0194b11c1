# SPDX-License-Identifier: Apache-2.0
# The last line of the chief, else of worker 0, comes last and without its mark.
$SHEAF run -w 2 -- sh -c 'case $TF_CONFIG in *index\":1*) sleep 0.5; echo late;; *) echo first; echo result;; esac'
echo --- chief
$SHEAF run --chief 1 -w 1 -- sh -c 'case $TF_CONFIG in *type\":\"chief*) echo chief says;; *) sleep 0.5; echo worker says;; esac'
echo --- shown when nothing follows for a while, and again at the end
$SHEAF run -- sh -c 'echo one; echo two; sleep 1.3'
echo --- a line without end
$SHEAF run -- printf 'one\ntwo'
echo --- nobody to speak
$SHEAF run -w 0 -p 1 -- echo ps says
echo --- not after a failure
$SHEAF run -- sh -c 'echo one; echo two; exit 3'
echo --- in files
$SHEAF run --log-dir logs -- sh -c 'echo one; echo warning >&2; echo two'
sort logs/worker-0.log
echo --- behind what an earlier run has written
$SHEAF run -w 2 --log-dir logs -- echo three
sort logs/worker-0.log | grep -v ^-
sed -n 's/^--- sheaf run 20..-..-.. ..:..:.. [-+]....$/--- sheaf run TIME/; /^---/,$p' logs/worker-0.log
cat logs/worker-1.log
echo --- a NUL byte is a byte like any other
$SHEAF run -- printf 'a\0b\nc\0d\n' | tr '\0' 0
