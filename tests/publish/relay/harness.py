"""Relay processes that are killed, a target that fails, and what must hold in the end."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults import PASS, Fault, Kind, Request

JOB = Path(__file__).parents[3] / "jobs" / "outbox_relay.py"
POISON = b"poison"


@dataclass(frozen=True, slots=True)
class Given:
    """One event as the producer wrote it."""

    event_id: str
    number: int
    key: str
    poisoned: bool

    @property
    def payload(self) -> bytes:
        document: dict[str, object] = {"n": self.number, "k": self.key}
        if self.poisoned:
            document["x"] = POISON.decode()
        return json.dumps(document).encode()


def make_events(count: int, keys: int, poisoned: int, seed: int) -> list[Given]:
    rng = random.Random(seed)
    bad = set(rng.sample(range(count), poisoned))
    return [
        Given(str(uuid.UUID(int=rng.getrandbits(128))), n, f"key-{rng.randrange(keys)}", n in bad)
        for n in range(count)
    ]


def batch_size(events: Sequence[Given]) -> int:
    """Events of one request: so many that few events still take some twenty requests."""
    return 25 if len(events) > 1000 else 10


@dataclass(slots=True)
class Faults:
    """Refusals and lost answers at random; a body that holds a poisoned event is always refused."""

    seed: int
    share: float
    rng: random.Random = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)
    posts: int = 0
    outage: bool = False

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def __call__(self, request: Request) -> Fault:
        if self.outage:
            return Fault(Kind.REFUSE, status=503)
        if request.method != "POST" or not request.is_append:
            return PASS
        with self.lock:
            self.posts += 1
            if POISON in request.body:
                return Fault(Kind.REFUSE, status=400)
            if self.rng.random() >= self.share:
                return PASS
            return self.rng.choice(
                [
                    Fault(Kind.REFUSE, status=429, retry_after="0"),
                    Fault(Kind.REFUSE, status=503, retry_after="0"),
                    Fault(Kind.LOSE_ANSWER),
                ]
            )


def start(arguments: Sequence[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(JOB), *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run_to_end(
    arguments: Sequence[str], **environment: str
) -> tuple[int, list[dict[str, object]], str]:
    """Exit code, the figures of each run, and what was said on standard error."""
    process = start(arguments, **environment)
    out, err = process.communicate(timeout=1500)
    reports = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return process.returncode, reports, err


def kill_in_the_middle(faults: Faults, posts: int, arguments: Sequence[str], **env: str) -> bool:
    """Starts a relay and kills it, JVM and workers too, once it has sent ``posts`` requests.

    False if it came to its end before that.
    """
    goal = faults.posts + posts
    process = start(arguments, **env)
    drains = [
        threading.Thread(target=stream.read, daemon=True)
        for stream in (process.stdout, process.stderr)
        if stream is not None
    ]
    for drain in drains:
        drain.start()
    while faults.posts < goal:
        if process.poll() is not None:
            return False
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    return True


def check_arrived(given: Sequence[Given], arrived: Sequence[dict[str, object]]) -> None:
    """Every good event once, none of the poisoned, in order per key."""
    numbers = [message["n"] for message in arrived]
    assert len(numbers) == len(set(numbers)), "an event arrived twice"
    assert set(numbers) == {event.number for event in given if not event.poisoned}
    by_key: dict[object, list[object]] = {}
    for message in arrived:
        by_key.setdefault(message["k"], []).append(message["n"])
    for key, found in by_key.items():
        assert found == sorted(found), f"order of {key}"  # type: ignore[type-var]
