"""The words of the wire: header names, query parameters and the limits the protocol fixes.

Client and embedded server share this module and nothing else.
"""

from typing import Final

# Producers
PRODUCER_ID: Final = "Producer-Id"
PRODUCER_EPOCH: Final = "Producer-Epoch"
PRODUCER_SEQ: Final = "Producer-Seq"
PRODUCER_EXPECTED_SEQ: Final = "Producer-Expected-Seq"
PRODUCER_RECEIVED_SEQ: Final = "Producer-Received-Seq"

# Streams
STREAM_NEXT_OFFSET: Final = "Stream-Next-Offset"
STREAM_UP_TO_DATE: Final = "Stream-Up-To-Date"
STREAM_CLOSED: Final = "Stream-Closed"
STREAM_CURSOR: Final = "Stream-Cursor"
STREAM_SEQ: Final = "Stream-Seq"
STREAM_TTL: Final = "Stream-TTL"
STREAM_EXPIRES_AT: Final = "Stream-Expires-At"
STREAM_SSE_DATA_ENCODING: Final = "Stream-SSE-Data-Encoding"
STREAM_FORKED_FROM: Final = "Stream-Forked-From"
STREAM_FORK_OFFSET: Final = "Stream-Fork-Offset"
STREAM_FORK_SUB_OFFSET: Final = "Stream-Fork-Sub-Offset"

# Snapshots and retention
STREAM_SNAPSHOT_OFFSET: Final = "Stream-Snapshot-Offset"
STREAM_RETAINED_OFFSET: Final = "Stream-Retained-Offset"
STREAM_INCARNATION: Final = "Stream-Incarnation"

# Extensions of the embedded server
STREAM_START_OFFSET: Final = "Stream-Start-Offset"
STREAM_MAX_APPEND_BYTES: Final = "Stream-Max-Append-Bytes"
# Ursula announces the same limit under its own name.
URSULA_MAX_REQUEST_BYTES: Final = "Ursula-Max-Request-Bytes"

RETRY_AFTER: Final = "Retry-After"

# Query parameters
PARAM_OFFSET: Final = "offset"
PARAM_LIVE: Final = "live"
PARAM_CURSOR: Final = "cursor"
PARAM_ALIGN: Final = "align"
PARAM_MAX_BYTES: Final = "max_bytes"
PARAM_TIMEOUT_MS: Final = "timeout_ms"

LIVE_LONG_POLL: Final = "long-poll"
LIVE_SSE: Final = "sse"

# Reserved offsets
OFFSET_BEGINNING: Final = "-1"
OFFSET_NOW: Final = "now"

CONTENT_TYPE_JSON: Final = "application/json"
CONTENT_TYPE_NDJSON: Final = "application/x-ndjson"
CONTENT_TYPE_BYTES: Final = "application/octet-stream"

# Largest epoch or seq a server accepts: what a JavaScript number holds exactly.
MAX_SAFE_INTEGER: Final = 2**53 - 1

DEFAULT_PORT: Final = 4437
