"""Putting appends into a stream: the seam behind which a wire protocol's producers live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from spark_durable.options import SinkOptions
from spark_durable.protocol import DurableClient, Producer, RetryPolicy
from spark_durable.protocol.errors import ConfigurationMismatchError, NotFoundError
from spark_durable.protocol.results import ProbeResult, ProbeState
from spark_durable.sink.guard import Sender, Standing, judge
from spark_durable.sink.spool import Bytes


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of the appends: stored now, or found there from an earlier attempt."""

    appended: int = 0
    duplicates: int = 0

    def __add__(self, other: Sent) -> Sent:
        return Sent(self.appended + other.appended, self.duplicates + other.duplicates)


class Appender(Protocol):
    """Sends the appends of one producer to one stream, each stored once however often it is sent.

    ``begin`` decides by the fingerprint of all of them whether they may be sent; ``send`` then
    takes them one by one, in order. Belongs to one thread.
    """

    def begin(self, fingerprint: int) -> Standing: ...

    def send(self, body: Bytes) -> None: ...

    @property
    def sent(self) -> Sent: ...


class DurableAppender:
    """Appends under a producer triple of the base protocol, behind the guard."""

    def __init__(self, client: DurableClient, options: SinkOptions, sender: Sender) -> None:
        self._client = client
        self._options = options
        self._sender = sender
        self._retry = RetryPolicy(deadline_s=options.retry_timeout)
        self._producer: Producer | None = None

    @property
    def sent(self) -> Sent:
        if self._producer is None:
            return Sent()
        return Sent(self._producer.appended, self._producer.duplicates)

    def begin(self, fingerprint: int) -> Standing:
        """Probes, and creates the stream if it is missing and may be created."""
        try:
            probe = self._probe()
        except NotFoundError:
            if not self._options.create_if_missing:
                raise
            self._create()
            probe = self._probe()
        accept = self._options.accept_doubles_for_batch == self._sender.identity.batch
        standing = judge(self._sender, fingerprint, probe, accept_doubles=accept)
        self._producer = Producer(
            self._client,
            self._sender.url,
            self._sender.producer,
            standing.epoch,
            content_type=self._options.content_type,
            retry=self._retry,
        )
        return standing

    def send(self, body: Bytes) -> None:
        assert self._producer is not None, "begin() comes first"
        self._producer.send(body)

    def begun(self) -> bool:
        """Whether any attempt has sent something of this batch under this producer."""
        try:
            probe = self._probe()
        except NotFoundError:
            return False
        return probe.state in (ProbeState.EPOCH_CURRENT, ProbeState.NEWER_EPOCH)

    def _probe(self) -> ProbeResult:
        sender = self._sender
        return self._retry.run(
            lambda: self._client.probe(
                sender.url,
                sender.producer,
                sender.identity.probe_epoch,
                self._options.content_type,
            ),
            resend_unknown=True,
        )

    def _create(self) -> None:
        create_stream(self._client, self._retry, self._sender.url, self._options.content_type)


def create_stream(client: DurableClient, retry: RetryPolicy, url: str, content_type: str) -> bool:
    """Creates a stream that another task may be creating at the same moment. False if one was."""
    try:
        made = retry.run(lambda: client.create(url, content_type=content_type), resend_unknown=True)
    except ConfigurationMismatchError:
        # It is there by now, perhaps as the user made it: what differs shows at the first append.
        client.head(url)
        return False
    return made.created
