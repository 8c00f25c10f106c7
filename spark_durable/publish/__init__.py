"""Publishers of outbox events: one contract, one attempt at a time. The relay is in ``.relay``."""

from spark_durable.publish.contract import (
    Capabilities,
    Event,
    OpenPublisher,
    Publisher,
    PublishResult,
    Scope,
    Verdict,
)
from spark_durable.publish.durable_streams import DurableStreamsPublisher
from spark_durable.publish.file import FilePublisher
from spark_durable.publish.topics import TopicsPublisher

__all__ = [
    "Capabilities",
    "DurableStreamsPublisher",
    "Event",
    "FilePublisher",
    "OpenPublisher",
    "PublishResult",
    "Publisher",
    "Scope",
    "TopicsPublisher",
    "Verdict",
]
