"""Every option, once: name, type, default and reason.

A field of ``CommonOptions``, ``SinkOptions`` or ``SourceOptions`` *is* the declaration; parsing,
the error for an unknown key and the README's tables all come from it. ``check_options`` runs in
``DataSource.__init__``, where an error reaches the user as it is; ``read_options`` runs where the
side, source or sink, is known.
"""

from spark_durable.options.common import CommonOptions
from spark_durable.options.reading import check_options, declared, options_table, read_options
from spark_durable.options.sink import BigNumbers, RowOrder, SinkOptions, WireProtocol
from spark_durable.options.source import ParseMode, SourceOptions

__all__ = [
    "BigNumbers",
    "CommonOptions",
    "ParseMode",
    "RowOrder",
    "SinkOptions",
    "SourceOptions",
    "WireProtocol",
    "check_options",
    "declared",
    "options_table",
    "read_options",
]
