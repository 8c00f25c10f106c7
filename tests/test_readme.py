"""The README is true: its snippets run as they stand, its tables are the declarations."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spark_durable.options import CommonOptions, SinkOptions, SourceOptions, options_table

README = Path(__file__).parent.parent / "README.md"
SCOPES = {scope.__name__: scope for scope in (CommonOptions, SinkOptions, SourceOptions)}
_TABLE = re.compile(r"<!-- options: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)


def with_tables(text: str) -> str:
    """The text with every table of options made anew."""
    return _TABLE.sub(
        lambda found: (
            f"<!-- options: {found[1]} -->\n{options_table(SCOPES[found[1]])}\n<!-- end -->"
        ),
        text,
    )


def test_tables_of_options_are_those_declared() -> None:
    """Run this file as a program to bring the README up to date."""
    text = README.read_text()
    assert {found[1] for found in _TABLE.finditer(text)} == set(SCOPES)
    assert text == with_tables(text)


def test_snippets_run_as_they_stand(tmp_path: Path) -> None:
    snippets = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    program = tmp_path / "readme.py"
    program.write_text("\n".join(snippets))
    assert program.read_text().count("assert ") >= 3
    environment = {key: value for key, value in os.environ.items() if "PYSPARK" not in key}
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "continue at" in done.stdout


@pytest.mark.parametrize("command", ["demo", "test"])
def test_the_two_commands_exist(command: str) -> None:
    makefile = (README.parent / "Makefile").read_text()
    assert re.search(rf"^{command}:", makefile, re.MULTILINE)
    assert f"make {command} " in README.read_text()


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text()))
