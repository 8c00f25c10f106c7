from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_durable.codec.encode import check_json_values
from spark_durable.protocol.errors import BadRowError

GOOD = ['{"a": [1, 2.5e3, null, true]}', "1", ' "x"\n', "\t[]", '"\\ud83d\\ude00"', "1e999"]
GOOD += ['{"a":1,"a":2}', "9" * 5000, '"\\ud800"', '"\x7f\u2028"', "-0.0", '"a,b]"', "[1,\n2]"]
BAD = ["", " ", "{", "nul", "NaN", "-Infinity", "01", "1.", "+1", "'a'", '"a\nb"', '{"a":1,}']
BAD += ["1,2", "[1", "2]", "1 2", '"a', "\ufeff1", "\xa01", '"\\x"', ",", "[1,]", "]", "[" * 5000]
KINDS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]


def as_array(texts: list[str | None], kind: pa.DataType) -> Any:
    return pa.array([None if t is None else t.encode() for t in texts], pa.binary()).cast(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_json_passes(kind: pa.DataType) -> None:
    check_json_values(as_array(GOOD, kind))
    check_json_values(as_array(GOOD, kind)[3:5])
    check_json_values(as_array([], kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", BAD)
def test_first_bad_row_is_named(bad: str, kind: pa.DataType) -> None:
    values = as_array([*GOOD, bad, "2", "also bad", None], kind)
    with pytest.raises(BadRowError, match=rf"Row {len(GOOD)} .*not JSON|too deep") as refused:
        check_json_values(values)
    assert refused.value.facts["row"] == len(GOOD)
    with pytest.raises(BadRowError, match="Row 2 "):
        check_json_values(values[len(GOOD) - 2 :])


def test_null_is_named() -> None:
    with pytest.raises(BadRowError, match=r"Row 1 .*null"):
        check_json_values(pa.array(["1", None, "bad"]))
    with pytest.raises(BadRowError, match=r"Row 0 .*not JSON"):
        check_json_values(pa.array(["bad", None]))


def test_what_is_no_utf8_is_named() -> None:
    with pytest.raises(BadRowError, match=r"Row 1 .*UTF-8"):
        check_json_values(pa.array([b"1", b'"\xff"', b"bad"]))
    with pytest.raises(BadRowError, match=r"Row 0 .*not JSON"):
        check_json_values(pa.array([b"bad", b'"\xff"']))


def test_rows_that_only_fit_together_are_refused() -> None:
    # As elements of one array these are three values as well, but not these three.
    with pytest.raises(BadRowError, match="Row 0 "):
        check_json_values(pa.array(["1,2", "[1", "2]"]))
    with pytest.raises(BadRowError, match="Row 0 "):
        check_json_values(pa.array(["[1", "2]", "1,2"]))
    with pytest.raises(BadRowError, match="Row 1 "):
        check_json_values(pa.array(["1", '"a', ',b"', "1,2"]))


def test_more_than_is_parsed_at_once() -> None:
    fat = json.dumps("x" * 2**20)
    check_json_values(pa.array([fat] * 40))
    with pytest.raises(BadRowError, match="Row 39 "):
        check_json_values(pa.array([fat] * 39 + [fat[:-1]]))


@given(st.lists(st.text(alphabet='0,"[]{}:a\\ \n', max_size=6), max_size=8))
def test_agrees_with_a_parser_row_by_row(texts: list[str]) -> None:
    def is_json(text: str) -> bool:
        try:
            json.loads(text)
        except ValueError:
            return False
        return True

    first = next((row for row, text in enumerate(texts) if not is_json(text)), None)
    if first is None:
        check_json_values(pa.array(texts, pa.string()))
        return
    with pytest.raises(BadRowError) as refused:
        check_json_values(pa.array(texts, pa.string()))
    assert refused.value.facts["row"] == first
