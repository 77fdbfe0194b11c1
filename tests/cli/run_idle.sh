# SPDX-License-Identifier: Apache-2.0
# A ps that stays when all others have ended is ended and does not count; so is an evaluator after a failure.
$SHEAF run -w 1 -p 1 --grace 0.3 -- sh -c 'case $TF_CONFIG in *type\":\"ps*) sleep 100;; esac; echo done'
echo $?
$SHEAF run -w 1 -p 1 -e 1 -- sh -c 'case $TF_CONFIG in *type\":\"worker*) exit 3;; esac; sleep 100'
echo $?
# Nobody can go on without a ps: those that have not found out are ended.
$SHEAF run -w 1 -p 1 --grace 0.3 -- sh -c 'case $TF_CONFIG in *type\":\"ps*) kill -9 $$;; esac; sleep 100'
echo $?
