"""The connector's core tests on every Spark it supports, with the wheel in clean environments.

    make test-matrix [ARGS="4.0 4.1"]

Each version has a virtual environment of its own under .venv-matrix, which is kept. The wheel is
built and installed there, writes and reads outside of the repository without ``register``, in
classic Spark and through Spark Connect, and then the core tests run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".venv-matrix"
VERSIONS = {"4.0": "4.0.*", "4.1": "4.1.*", "4.2": "4.2.0"}
TOOLS = ("pytest", "pytest-timeout", "hypothesis", "chispa", "pandas<3")
# Batch and streaming, both ways, and replays.
CORE = (
    "tests/test_datasource.py",
    "tests/sink/test_writer.py",
    "tests/sink/test_replay.py",
    "tests/source/test_batch.py",
    "tests/source/test_stream.py",
)


def call(*command: str | Path, cwd: Path = ROOT) -> bool:
    # Each environment's Spark runs that environment's Python.
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_HOME"))
    }
    environment = {**inherited, "SPARK_LOCAL_IP": "127.0.0.1"}
    print("$", *command, flush=True)
    return subprocess.run(list(map(str, command)), cwd=cwd, env=environment).returncode == 0


def build(where: Path) -> Path:
    if not call(
        sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", where
    ):
        raise SystemExit("the wheel could not be built")
    [wheel] = where.glob("*.whl")
    return wheel


def environment(name: str, wheel: Path) -> Path | None:
    """The environment's Python, with that Spark and this wheel in it; None if it cannot be made."""
    python = ENVIRONMENTS / name / "bin" / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    made = (
        (python.exists() or call(sys.executable, "-m", "venv", ENVIRONMENTS / name))
        and call(*pip, f"pyspark[connect]=={VERSIONS[name]}", f"{wheel}[server]", *TOOLS)
        and call(*pip, "--force-reinstall", "--no-deps", wheel)
    )
    return python if made else None


def check(name: str, wheel: Path, outside: Path) -> list[str]:
    """What fails with this Spark."""
    python = environment(name, wheel)
    if python is None:
        return ["installation"]
    failed = [
        f"wheel, {kind}"
        for kind in ("classic", "connect")
        if not call(python, ROOT / "tests" / "zero_step.py", kind, cwd=outside)
    ]
    if not call(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *CORE):
        failed.append("core tests")
    return failed


def main(names: list[str]) -> int:
    unknown = set(names) - set(VERSIONS)
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(VERSIONS)}")
        return 2
    lines, good = [], True
    with tempfile.TemporaryDirectory() as directory:
        outside = Path(directory)
        wheel = build(outside)
        for name in names or VERSIONS:
            start = time.monotonic()
            failed = check(name, wheel, outside)
            good = good and not failed
            seconds = time.monotonic() - start
            lines.append(
                f"pyspark {name}: {'FAILED: ' + ', '.join(failed) if failed else 'passed'}"
                f" in {seconds:.0f} s"
            )
    print("\n".join(["", *lines]))
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
