from __future__ import annotations

import json
import random

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructType

from spark_durable.codec.encode import EncodeOptions, JsonEncoder
from tests.codec.encode.real_spark import RealSpark


def test_every_character_is_escaped_as_spark_does(real_spark: RealSpark) -> None:
    odd = [*range(0x180), *range(0x2000, 0x2070), 0xD7FF, 0xE000, 0xFEFF, 0xFFFD, 0xFFFF]
    texts = [chr(code) for code in [*odd, 0x10000, 0x1F600, 0x10FFFF]]
    texts += ["", '"', '\\"', "a\\", '{"json": "\\n"}', "".join(texts), "x" * 1000 + '"']
    # Arrow cuts a name at a NUL.
    names = {f"{n}{text}": text for n, text in enumerate(texts[1:160])}
    struct = StructType()
    for name in names:
        struct.add(name, StringType())
    schema = StructType().add("s", StringType()).add("wide", struct)
    wide = pa.array([names] * len(texts), pa.struct([(name, pa.string()) for name in names]))
    frame = real_spark.frame(schema, [pa.array(texts), wide])
    written = real_spark.written(frame.select("*", F.to_json(F.struct("*")).alias("json")))
    batch = written.drop_columns("json").combine_chunks().to_batches()[0]
    ours = JsonEncoder(schema, EncodeOptions()).encode(batch).to_pylist()
    assert ours == written.column("json").to_pylist()
    assert [json.loads(text)["s"] for text in ours] == texts


def test_bytes_that_are_no_utf8(real_spark: RealSpark) -> None:
    draw = random.Random(11)
    pieces = [b"a", "é€😀".encode(), b"\xff", b"\xed\xa0\x80", b"\xed\xbf", b"\xc3", b"\xc0\x80"]
    pieces += [b"\xe2\x82", b"\xe0\x80\x80", b"\xe0\xa0", b"\xf0\x90\x8f", b"\xf0\x80", b"\xf4\x90"]
    pieces += [b"\xf8\x88\x80\x80\x80", b"\x80", b"\xbf", b'"', b"\\", b"\xf5\x80\x80\x80", b"\xed"]
    values = [b"".join(draw.choices(pieces, k=draw.randrange(1, 6))) for _ in range(2000)]
    values += [draw.randbytes(draw.randrange(6)) for _ in range(2000)]
    schema = StructType().add("raw", BinaryType())
    frame = real_spark.frame(schema, [pa.array(values)])
    frame = frame.select(F.col("raw").cast("string").alias("s"))
    written = real_spark.written(frame.select("s", F.to_json(F.struct("s")).alias("json")))
    batch = written.drop_columns("json").combine_chunks().to_batches()[0]
    ours = JsonEncoder(StructType().add("s", StringType()), EncodeOptions()).encode(batch)
    ours.validate(full=True)
    assert ours.to_pylist() == written.column("json").to_pylist()


def test_base64_of_every_length(real_spark: RealSpark) -> None:
    draw = random.Random(5)
    values = [draw.randbytes(length) for length in range(70)] + [None, b"", None, bytes(range(256))]
    schema = StructType().add("v", BinaryType())
    frame = real_spark.frame(schema, [pa.array(values, pa.binary())])
    written = real_spark.written(frame.select("v", F.to_json(F.struct("v")).alias("json")))
    batch = written.drop_columns("json").combine_chunks().to_batches()[0]
    ours = JsonEncoder(schema, EncodeOptions()).encode(batch)
    assert ours.to_pylist() == written.column("json").to_pylist()
