# SPDX-License-Identifier: Apache-2.0
# A task that stands still (SIGSTOP) keeps nobody for ever: it is killed when the others have given it up.
role() { echo 'case $TF_CONFIG in *type\":\"'"$1"'*) '"$2"';; esac;'; }
echo worker
$SHEAF run -w 2 --grace 0.3 -- sh -c 'case $TF_CONFIG in *index\":1*) kill -STOP $$;; esac; sleep 0.1; exit 3'
echo $?
echo worker of one that ends well
$SHEAF run -w 2 --grace 0.3 -- sh -c 'case $TF_CONFIG in *index\":1*) kill -STOP $$;; esac; sleep 0.1'
echo $?
echo ps
$SHEAF run -w 1 -p 1 --grace 0.3 -- sh -c "$(role ps 'kill -STOP $$') sleep 0.1; exit 3"
echo $?
echo evaluator
$SHEAF run -w 1 -p 1 -e 1 --grace 0.3 -- sh -c "$(role evaluator 'kill -STOP $$') sleep 0.1"
echo $?
echo one that goes on
$SHEAF run -w 2 --grace 2 -- sh -c 'case $TF_CONFIG in *index\":1*) (sleep 0.3; kill -CONT $$)& kill -STOP $$;; esac
  sleep 0.1; echo went on'
echo $?
echo the whole job, to go on later
$SHEAF run --grace 0.1 -- sh -c '(sleep 0.6; kill -CONT $$)& kill -STOP $$; echo went on'
echo $?
