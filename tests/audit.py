"""Known vulnerabilities of locked dependencies, by pip-audit against the OSV database.

    python -m tests.audit [--unless-offline] FILE

Exit status 0 means: every dependency was looked up and none is known to be vulnerable. 1: some are,
and they are listed. 2: the database could not be asked, so nothing is known; `--unless-offline`
turns that into a warning and 0, for machines without the internet.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path


def audit(lock: Path, osv_url: str | None = None) -> tuple[int, str]:
    """The exit status and a text that says what was found."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(lock)]
    # What is locked is audited as it is written, without resolving or installing anything.
    command += ["--no-deps", "--disable-pip", "--progress-spinner=off", "--format=json"]
    command += ["--vulnerability-service=osv", "--timeout=20"]
    if osv_url is not None:
        command.append(f"--osv-url={osv_url}")
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(run.stdout)["dependencies"]
    except (ValueError, KeyError):
        reason = run.stderr.strip().splitlines()[-1:] or ["no answer"]
        return 2, f"audit: NOT DONE, the vulnerability database cannot be asked: {reason[0]}"
    skipped = [each["name"] for each in found if "skip_reason" in each]
    if skipped or not found:
        return 2, f"audit: NOT DONE for {', '.join(skipped) or 'anything'}"
    lines = [
        f"  {each['name']} {each['version']}: {flaw['id']}, "
        f"fixed in {', '.join(flaw['fix_versions']) or 'no release'}"
        for each in found
        for flaw in each["vulns"]
    ]
    summary = f"audit: {len(found)} locked dependencies, {len(lines)} known vulnerabilities"
    return int(bool(lines)), "\n".join([summary, *lines])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.audit")
    parser.add_argument("--unless-offline", action="store_true")
    parser.add_argument("lock", type=Path)
    options = parser.parse_args()
    status, text = audit(options.lock)
    print(text, file=sys.stderr if status else sys.stdout)
    return 0 if status == 2 and options.unless_offline else status


if __name__ == "__main__":
    raise SystemExit(main())
