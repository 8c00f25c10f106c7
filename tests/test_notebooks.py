"""The notebooks run from top to bottom, what they assert holds, and outputs are stored with them.

Run as a program this file runs them at full size and stores what they print and plot.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
NAMES = ["agent_sessions", "databricks_guide", "exactly_once_under_fire", "quickstart"]
PLOTTED = {"agent_sessions", "exactly_once_under_fire", "quickstart"}

# What a test needs to show the point; the stored outputs are of the full size.
SMALL = {"SESSIONS": "300", "ROWS": "120000", "KILLS": "2"}


def run(name: str, directory: Path) -> nbformat.NotebookNode:
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    client = NotebookClient(
        notebook, timeout=500, kernel_name="python3", resources={"metadata": {"path": directory}}
    )
    return client.execute()


def printed(notebook: nbformat.NotebookNode) -> str:
    return "".join(
        output.text
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "stream"
    )


def plots(notebook: nbformat.NotebookNode) -> int:
    return sum(
        "image/png" in output.get("data", {})
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )


def test_all_notebooks_are_tested() -> None:
    assert sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in SMALL.items():
        monkeypatch.setenv(variable, value)
    done = run(name, tmp_path)
    assert plots(done) == (name in PLOTTED)
    if name == "exactly_once_under_fire":
        assert "lost 0, doubled 0" in printed(done)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_stored_with_its_outputs(name: str) -> None:
    stored = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert plots(stored) == (name in PLOTTED)
    names = {output.get("name") for cell in code for output in cell.outputs}
    assert "stderr" not in names


def store(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Without what Spark says on stderr when it starts: it is of this machine alone."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            cell.metadata = {}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    for each in sys.argv[1:] or NAMES:
        store(run(each, Path("/tmp")), NOTEBOOKS / f"{each}.ipynb")
