"""Messages to rows: JSON to Arrow batches, with the result of Spark's ``from_json``.

PERMISSIVE and FAILFAST are those of ``from_json(value, schema, {mode, columnNameOfCorruptRecord})``
with Spark's default settings, down to what is kept of a malformed record. DROPMALFORMED, which
``from_json`` does not have, drops the messages that PERMISSIVE reports, and blank ones, as
``spark.read.json`` does. A JSON array at the top is malformed, as in ``from_json``;
``spark.read.json`` would make rows of its elements.

Where the result may differ:

- A column declared NOT NULL stays so, and a message without a value for it is an error in every
  mode. ``from_json`` takes every column for nullable.
- Types that are refused: void, variant, time, char and varchar, calendar and year-month intervals,
  user-defined types, maps whose keys are not strings. So is a schema with one name twice.
- A number with a fraction or an exponent in a string column has the digits that Java 19 and later
  print. Java 17 prints more than needed for some.
- Region names of time zones follow the time zone data of this Python, which may be of another year
  than the JDK's.
- Options of ``from_json`` other than the mode and the corrupt column (formats of dates and
  timestamps, locale, comments, unquoted names), and Spark's legacy settings, are not followed.
"""

from spark_durable.codec.decode.decoder import JsonDecoder
from spark_durable.codec.decode.options import Decoded, DecodeMode, DecodeOptions

__all__ = ["DecodeMode", "DecodeOptions", "Decoded", "JsonDecoder"]
