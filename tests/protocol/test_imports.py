"""The protocol stands without Spark."""

from __future__ import annotations

import subprocess
import sys

import spark_durable.protocol as protocol


def test_importing_the_protocol_does_not_import_spark() -> None:
    program = (
        "import sys, spark_durable.protocol as p\n"
        "[getattr(p, name) for name in p.__all__]\n"
        "roots = {module.partition('.')[0] for module in sys.modules}\n"
        "sys.exit(bool(roots & {'pyspark', 'pyarrow', 'uvicorn'}))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_every_export_is_there_once() -> None:
    assert len(set(protocol.__all__)) == len(protocol.__all__)
    assert all(hasattr(protocol, name) for name in protocol.__all__)
