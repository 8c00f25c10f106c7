"""The wheel: what is in it, and that it works from wherever it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ZERO_STEP = ROOT / "tests" / "zero_step.py"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", where],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    [built] = where.glob("*.whl")
    return built


def test_it_holds_the_package_and_what_spark_looks_for(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"spark_durable", "pyspark_durablestream.py"}
    assert not any(name.startswith("spark_durable/autoload/") for name in names)
    assert "spark_durable/py.typed" in names
    sources = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "spark_durable").rglob("*.py")
        if path.parent.name != "autoload"
    }
    assert sources <= set(names)


def test_installed_elsewhere_it_works_without_register(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", site, wheel], check=True, timeout=120)
    found = subprocess.run(
        [sys.executable, str(ZERO_STEP), "classic"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip().endswith(f"package in {site}")
