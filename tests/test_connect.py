from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ZERO_STEP = Path(__file__).parent / "zero_step.py"


def test_the_format_is_found_through_spark_connect(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, str(ZERO_STEP), "connect"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("500 rows, connect")
