#!/usr/bin/env bash
# A Spark cluster on this machine from pip's pyspark: one master, one worker, no containers.
#
#   conf/local-cluster.sh start     # prints the master's URL when the worker has joined
#   spark-submit --master spark://127.0.0.1:7077 --properties-file conf/spark-defaults.conf jobs/...
#   conf/local-cluster.sh stop
#
# Settings: SPARK_MASTER_PORT (7077), SPARK_MASTER_WEBUI_PORT (8080), SPARK_WORKER_CORES (2),
# SPARK_WORKER_MEMORY (2g), CLUSTER_DIR (where logs, pids and work go), PYTHON (one with pyspark).
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
if [ -z "${PYTHON:-}" ]; then
  PYTHON=python3
  [ -x "$here/.venv/bin/python" ] && PYTHON=$here/.venv/bin/python
fi
dir=${CLUSTER_DIR:-${TMPDIR:-/tmp}/spark-durable-cluster}
host=127.0.0.1
port=${SPARK_MASTER_PORT:-7077}
ui=${SPARK_MASTER_WEBUI_PORT:-8080}
master=spark://$host:$port

running() {  # running NAME: whether the process that was started under this name is alive
  [ -f "$dir/$1.pid" ] && kill -0 "$(cat "$dir/$1.pid")" 2>/dev/null
}

launch() {  # launch NAME CLASS ARGUMENTS...
  local name=$1
  shift
  SPARK_LOCAL_IP=$host nohup "$spark_class" "$@" >"$dir/$name.log" 2>&1 </dev/null &
  echo $! >"$dir/$name.pid"
}

workers() {  # how many workers have joined
  "$PYTHON" - "http://$host:$ui/json/" <<'PY' 2>/dev/null || echo 0
import json, sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print(json.load(opener.open(sys.argv[1], timeout=5))["aliveworkers"])
PY
}

start() {
  if running master; then
    echo "already running: $master"
    return
  fi
  spark_class=$("$PYTHON" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')/bin/spark-class
  mkdir -p "$dir/work"
  launch master org.apache.spark.deploy.master.Master --host $host --port "$port" --webui-port "$ui"
  launch worker org.apache.spark.deploy.worker.Worker --host $host --webui-port 0 \
    --cores "${SPARK_WORKER_CORES:-2}" --memory "${SPARK_WORKER_MEMORY:-2g}" \
    --work-dir "$dir/work" "$master"
  for _ in $(seq 240); do
    if ! running master || ! running worker; then
      break
    fi
    if [ "$(workers)" -ge 1 ]; then
      echo "$master"
      return
    fi
    sleep 0.5
  done
  echo "the cluster did not start, see $dir/master.log and $dir/worker.log:" >&2
  tail -n 5 "$dir/master.log" "$dir/worker.log" >&2
  stop >&2
  exit 1
}

stop() {
  for name in worker master; do
    if running $name; then
      kill "$(cat "$dir/$name.pid")"
      for _ in $(seq 60); do
        running $name || break
        sleep 0.5
      done
    fi
    rm -f "$dir/$name.pid"
  done
  echo "stopped"
}

case "${1:-}" in
  start) start ;;
  stop) stop ;;
  status) running master && echo "$master, workers: $(workers)" || { echo "not running"; exit 1; } ;;
  *) echo "usage: $0 start|stop|status" >&2; exit 2 ;;
esac
