"""What a worker process does around a task, seen in processes of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

COLLECTOR = """
import gc
from spark_durable.worker import end_task
end_task()
print(gc.get_freeze_count())
"""

MEMORY = """
import resource
from spark_durable.worker import begin_task
begin_task()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def block():
    return b"x" * (4 << 20)
block()
before = faults()
for _ in range(10):
    block()
print(int(faults() - before < 1000))  # of 10,240 pages
"""

CONNECTION = """
import socket
from spark_durable.worker import before_rows
files = open("/dev/null"), *socket.socketpair()  # neither is a connection over TCP
with socket.create_server(("127.0.0.1", 0)) as server:
    jvm = socket.create_connection(server.getsockname())
    worker, _ = server.accept()
worker.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
before_rows()
print(worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))
"""

IN_A_TASK = "from pyspark import TaskContext; TaskContext._getOrCreate()\n"


def printed(program: str) -> int:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_after_a_task_little_is_left_to_collect() -> None:
    assert printed(IN_A_TASK + COLLECTOR) > 10_000


def test_a_block_uses_the_memory_of_the_last() -> None:
    assert printed(IN_A_TASK + MEMORY) == 1


def test_rows_do_not_wait_for_a_late_acknowledgement() -> None:
    assert printed(IN_A_TASK + CONNECTION) == 1


@pytest.mark.parametrize("program", [COLLECTOR, MEMORY, CONNECTION])
def test_outside_of_a_task_the_process_is_left_alone(program: str) -> None:
    assert printed(program) == 0
