"""A producer in one epoch: numbered appends, one in flight, each stored once."""

from __future__ import annotations

from spark_durable.protocol.client import DurableClient
from spark_durable.protocol.errors import StreamClosedError
from spark_durable.protocol.headers import CONTENT_TYPE_JSON
from spark_durable.protocol.results import AppendOutcome, AppendResult, ProducerTriple
from spark_durable.protocol.retry import RetryPolicy
from spark_durable.protocol.transport import Body


class Producer:
    """Sends bodies as seq 0, 1, … of ``(id, epoch)``.

    When ``send`` returns, the body is durable in the stream, once, however often it was sent. A
    producer that repeats the bodies of an earlier run under the same id and epoch gets them counted
    in ``duplicates`` and adds nothing. After an error the seq has not moved: sending the same body
    again is right, sending another is not, for the first may have been stored. It never raises the
    epoch by itself: whether to fence another sender is not a question for a retry.
    """

    def __init__(
        self,
        client: DurableClient,
        url: str,
        producer_id: str,
        epoch: int,
        *,
        content_type: str = CONTENT_TYPE_JSON,
        retry: RetryPolicy | None = None,
    ) -> None:
        self._client = client
        self._content_type = content_type
        self._retry = retry or RetryPolicy()
        self.url = url
        self.id = producer_id
        self.epoch = epoch
        self.next_seq = 0
        self.appended = 0
        self.duplicates = 0

    def send(self, body: Body, *, close: bool = False) -> AppendResult:
        """Append ``body`` as the next seq, and close the stream with it if asked to."""
        triple = ProducerTriple(self.id, self.epoch, self.next_seq)

        def attempt() -> AppendResult:
            return self._client.append(
                self.url, body, content_type=self._content_type, producer=triple, close=close
            )

        try:
            result = self._retry.run(attempt, resend_unknown=True)
        except StreamClosedError as closed:
            result = _delivered_before_close(triple, closed)
        self.next_seq += 1
        if result.outcome is AppendOutcome.DUPLICATE:
            self.duplicates += 1
        else:
            self.appended += 1
        return result


def _delivered_before_close(triple: ProducerTriple, closed: StreamClosedError) -> AppendResult:
    """A repetition on a stream closed since: delivered if the server says it has this seq."""
    epoch, seq = closed.producer_epoch, closed.producer_seq
    if epoch != triple.epoch or seq is None or seq < triple.seq:
        raise closed
    return AppendResult(
        AppendOutcome.DUPLICATE, closed.final_offset, True, producer_epoch=epoch, producer_seq=seq
    )
