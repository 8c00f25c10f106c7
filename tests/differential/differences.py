"""Where the two servers may answer differently, each with the rule of the protocol that decides.

The list is data: the test excuses a difference only if an entry fits, and reports entries that no
run has met (see `test_differential.py`), so that none outlives its reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.differential.exchange import Call

ANY: Any = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """``fact`` is what differs: ``status``, a header, ``body``, an SSE field or ``offset``."""

    name: str
    section: str
    rule: str
    operations: tuple[str, ...]
    fact: str
    embedded: Any = ANY
    reference: Any = ANY
    when: Callable[[Call], bool] = lambda _: True
    # The status that both gave, where it matters.
    status: int | None = None
    # Afterwards the servers hold different things.
    diverges: bool = False

    def fits(self, call: Call, fact: str, embedded: Any, reference: Any, status: int) -> bool:
        return (
            fact == self.fact
            and call.operation in self.operations
            and (self.embedded is ANY or self.embedded == embedded)
            and (self.reference is ANY or self.reference == reference)
            and (self.status is None or self.status == status)
            and self.when(call)
        )


READS = ("read", "long-poll", "sse", "malformed")
WRITES = ("create", "fork", "append", "close")


def _shouts_closed(call: Call) -> bool:
    return call.headers.get("Stream-Closed") == "TRUE"


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        name="what is wrong with a request is told before whether its stream exists",
        section="5.6",
        rule="400 and 404 are both listed, without an order; a request that is malformed is so on "
        "any stream",
        operations=READS,
        fact="status",
        embedded=400,
        reference=404,
    ),
    Difference(
        name="what is wrong with a fork is told before whether its source exists",
        section="4.2",
        rule="400 (malformed offset or sub-offset) and 404 (no source) are listed without an order",
        operations=("fork",),
        fact="status",
        embedded=400,
        reference=404,
    ),
    Difference(
        name="what is wrong with a fork is told before what conflicts",
        section="4.2",
        rule="400 (a sub-offset that names nothing) and 409 (another content type, or a stream "
        "that is there already) are listed without an order",
        operations=("fork",),
        fact="status",
        embedded=400,
        reference=409,
    ),
    Difference(
        name="Stream-Closed: TRUE closes: the answer says so",
        section="4.1",
        rule="the value is compared case-insensitively (MUST); the reference compares exactly",
        operations=("create", "append"),
        fact="Stream-Closed",
        embedded="true",
        reference=None,
        when=_shouts_closed,
        diverges=True,
    ),
    Difference(
        name="Stream-Closed: TRUE closes: an empty body is then allowed",
        section="4.1",
        rule="the value is compared case-insensitively (MUST); the reference compares exactly and "
        "sees an empty append",
        operations=("append",),
        fact="status",
        reference=400,
        when=lambda call: _shouts_closed(call) and not call.body,
        diverges=True,
    ),
    Difference(
        name="HEAD carries no ETag",
        section="5.5",
        rule="the headers of HEAD are listed, an ETag is not among them: it names a range, and "
        "none was asked for",
        operations=("head",),
        fact="ETag",
        embedded=False,
        reference=True,
    ),
    Difference(
        name="an empty Stream-TTL is malformed",
        section="5.1",
        rule="the value MUST be a non-negative integer in decimal notation",
        operations=("create", "fork"),
        fact="status",
        embedded=400,
        when=lambda call: call.headers.get("Stream-TTL") == "",
    ),
    Difference(
        name="an unknown live mode is refused",
        section="5.6",
        rule="400 for invalid parameters; the reference takes it for a catch-up read",
        operations=("malformed",),
        fact="status",
        embedded=400,
        reference=200,
        when=lambda call: call.query.get("live") in ("other", ""),
    ),
    *(
        Difference(
            name=f"304 repeats {name}",
            section="10.1",
            rule="304 replaces a 200 with the same content; a client may go on from its headers as "
            "from those of the 200",
            operations=("read",),
            fact=name,
            reference=reference,
            when=lambda call: call.conditional,
            status=304,
        )
        for name, reference in (
            ("Stream-Next-Offset", False),
            ("Stream-Up-To-Date", None),
            ("Stream-Closed", None),
        )
    ),
    Difference(
        name="the last control event says upToDate too",
        section="5.8",
        rule="streamClosed implies upToDate, which MAY be omitted then",
        operations=("sse",),
        fact="upToDate",
        embedded=True,
        reference=None,
    ),
    Difference(
        name="a long-poll on an empty stream waits, from its beginning too",
        section="5.7",
        rule="without data at the offset the server waits, and answers 204; the reference answers "
        "200 with an empty body at once when the offset is -1",
        operations=("long-poll",),
        fact="status",
        embedded=204,
        reference=200,
        when=lambda call: call.offset == "-1",
    ),
    Difference(
        name="JSON does not begin with a byte order mark",
        section="9.1.4",
        rule="the body MUST be valid JSON, whose grammar has no byte order mark; the reference's "
        "decoder drops it",
        operations=("create", "append"),
        fact="status",
        embedded=400,
        when=lambda call: call.body.startswith(b"\xef\xbb\xbf"),
        diverges=True,
    ),
    Difference(
        name="Stream-Closed: TRUE is another closure status than that of an open stream",
        section="4.1",
        rule="the value is compared case-insensitively (MUST); the reference compares exactly and "
        "finds the same configuration",
        operations=("create",),
        fact="status",
        embedded=409,
        reference=200,
        when=_shouts_closed,
    ),
    Difference(
        name="a stream of Application/JSON is a JSON stream: at its end",
        section="8",
        rule="offset=now answers [] on a JSON stream (MUST), and media types are compared without "
        "regard to case; the reference answers nothing",
        operations=("read",),
        fact="body",
        embedded=[],
        reference=b"",
        when=lambda call: call.offset == "now",
    ),
    Difference(
        name="a stream of Application/JSON is a JSON stream: in its events",
        section="5.8",
        rule="events of a JSON stream hold JSON arrays; the reference sends its stored bytes, with "
        "the commas between messages",
        operations=("sse",),
        fact="events",
        when=lambda call: call.note == "Application/JSON; charset=utf-8",
    ),
    Difference(
        name="a close that repeats an earlier append closes nothing, and does not say so",
        section="5.2.1",
        rule="seq <= lastSeq is a duplicate: 204, nothing is done; Stream-Closed confirms a closed "
        "stream (5.3), the reference sends it while the stream stays open",
        operations=("close",),
        fact="Stream-Closed",
        embedded=None,
        reference="true",
        when=lambda call: "Producer-Id" in call.headers,
    ),
    *(
        Difference(
            name=f"409 of a closed stream tells a producer it knows its {name}",
            section="11.1",
            rule="servers may add headers; with this one a producer learns which of its requests "
            "arrived before the stream was closed (5.2.1 asks for 409 and Stream-Closed alone)",
            operations=("append", "close"),
            fact=name,
            reference=None,
            when=lambda call: "Producer-Id" in call.headers,
            status=409,
        )
        for name in ("Producer-Epoch", "Producer-Seq")
    ),
    Difference(
        name="the same moment written differently is the same expiry",
        section="5.1",
        rule="200 if the configuration matches; Stream-Expires-At is a time, the reference "
        "compares its text",
        operations=("create", "fork"),
        fact="status",
        embedded=200,
        reference=409,
        when=lambda call: "Stream-Expires-At" in call.headers,
    ),
)
