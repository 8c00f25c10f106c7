"""Rows to messages: Arrow batches to the JSON text that Spark's ``to_json`` gives."""

from spark_durable.codec.encode.encoder import JsonEncoder
from spark_durable.codec.encode.options import EncodeOptions
from spark_durable.codec.encode.schema import check_schema
from spark_durable.codec.encode.values import check_json_values

__all__ = ["EncodeOptions", "JsonEncoder", "check_json_values", "check_schema"]
