# SPDX-License-Identifier: Apache-2.0
# A task killed by a signal is named at once, and what happens next is left to the others.
$SHEAF run -w 2 -- sh -c 'case $TF_CONFIG in *index\":1*) sleep 0.2; kill -9 $$;; esac; sleep 0.6; echo went on'
echo $?
