"""May a task send? What the server has of its producer decides, before the first append."""

from __future__ import annotations

from dataclasses import dataclass

from spark_durable.protocol.errors import ReplayMismatchError, StaleEpochError
from spark_durable.protocol.results import ProbeResult, ProbeState
from spark_durable.protocol.urls import redact
from spark_durable.sink.fingerprint import alternatives
from spark_durable.sink.identity import (
    MAX_FINGERPRINT,
    Place,
    WriteIdentity,
    batch_of,
    fingerprint_of,
)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a producer stands: under which epoch it sends, and what is there already.

    ``begun``: an earlier attempt has sent some or all of the very same appends. ``closed``: the
    stream takes none any more, so nothing may be sent.
    """

    epoch: int
    begun: bool = False
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Sender:
    """Who asks: a partition's producer of one write, on one stream."""

    url: str
    identity: WriteIdentity
    producer: str

    @classmethod
    def of(cls, url: str, place: Place) -> Sender:
        return cls(url, place.identity, place.identity.producer(place.partition))

    def __str__(self) -> str:
        return f"producer {self.producer} on {redact(self.url)}"

    def facts(self) -> dict[str, object]:
        return {
            "url": redact(self.url),
            "producer_id": self.producer,
            "batch": self.identity.batch,
        }


def judge(
    sender: Sender, fingerprint: int, probe: ProbeResult, *, accept_doubles: bool = False
) -> Standing:
    """Decides from a probe at the batch's ``probe_epoch``.

    Nothing of the batch there: send. The same fingerprint there: send, the server stores nothing
    twice. Another one: ReplayMismatchError, for the same seqs would stand for other rows. A newer
    batch: StaleEpochError, this is a zombie.
    """
    identity = sender.identity
    wanted = identity.epoch(fingerprint)
    if probe.state is ProbeState.CLOSED:
        return Standing(wanted, begun=probe.current_epoch == wanted, closed=True)
    current = probe.current_epoch
    if probe.state in (ProbeState.UNKNOWN_PRODUCER, ProbeState.EPOCH_NOT_BEGUN):
        return Standing(wanted)
    if current is None:
        raise StaleEpochError(
            f"The {sender} is fenced in batch {identity.batch}, and the server does not tell by "
            "which epoch, so it cannot be told whether this batch was begun. Nothing was sent. Use "
            "a server that answers 403 with Producer-Epoch.",
            **sender.facts(),
        )
    if batch_of(current) > identity.batch:
        raise _fenced(sender, current)
    if current == wanted:
        return Standing(wanted, begun=True)
    if accept_doubles:
        return _above(sender, fingerprint, current)
    raise _mismatch(sender, wanted, current)


def _above(sender: Sender, fingerprint: int, current: int) -> Standing:
    """An epoch under which this batch can be sent anew, and which a retry recognises as its own."""
    found = fingerprint_of(current)
    own = alternatives(fingerprint)
    if found in own:
        return Standing(current, begun=True)
    higher = [value for value in own if value > found]
    if higher:
        return Standing(sender.identity.epoch(min(higher)))
    if found < MAX_FINGERPRINT:
        # No value of ours is left above: a retry will not know this one and send once more.
        return Standing(current + 1)
    raise ReplayMismatchError(
        f"The {sender} stands at the last epoch of batch {sender.identity.batch} ({current}): "
        "acceptDoublesForBatch has no epoch left. Begin under other producer ids, with a new "
        "checkpoint or another producerPrefix.",
        current_epoch=current,
        **sender.facts(),
    )


def _fenced(sender: Sender, current: int) -> StaleEpochError:
    batch = sender.identity.batch
    return StaleEpochError(
        f"The {sender} wants to write batch {batch} (epochs from {sender.identity.probe_epoch}), "
        f"but epoch {current} of batch {batch_of(current)} is current: this write is older than "
        "what the stream has. Nothing was sent. It is either a leftover task of an earlier run, "
        "which may die, or a txnVersion below one already written, or a checkpoint set back.",
        current_epoch=current,
        **sender.facts(),
    )


def _mismatch(sender: Sender, wanted: int, current: int) -> ReplayMismatchError:
    batch = sender.identity.batch
    return ReplayMismatchError(
        f"The {sender} has begun batch {batch} with other rows, another order of rows or another "
        f"cut (epoch {current}) than this attempt would send (epoch {wanted}). Sending would lose "
        "or double rows, so nothing was sent. Ways on: run the batch as it was begun, with the "
        "same parallelism (cores, shuffle partitions, AQE), maxAppendBytes and rowOrder; or set "
        f"acceptDoublesForBatch={batch} to send this one batch anew, doubles included. To avoid "
        "it: rowOrder=sort if rows come out of a shuffle, spark_durable.repeatable(df, partitions) "
        "if the input's splits depend on the cluster, and no non-deterministic expressions.",
        current_epoch=current,
        epoch=wanted,
        **sender.facts(),
    )
