"""Sizes and times with explicit units."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysched import hosts, sizes


@pytest.mark.parametrize("module", [sizes, hosts], ids=lambda module: module.__name__)
def test_that_the_examples_in_docstrings_are_true(module: object) -> None:
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)


@given(st.integers(1, 1 << 53))
def test_that_a_written_size_is_read_back(kib: int) -> None:
    size = kib << 10
    if size <= sizes.LARGEST:
        assert sizes.parse_size(sizes.format_size(size)) == size


@given(st.text(max_size=12))
def test_that_any_text_is_a_size_or_a_clear_error(text: str) -> None:
    try:
        assert 0 <= sizes.parse_size(text) <= sizes.LARGEST
    except ValueError as error:
        assert str(error).startswith("expected a")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("4GB", "4GiB"),
        ("4Gib", "4GiB"),
        ("4Gi", "4GiB"),
        ("4g", "4GiB"),
        ("1.5GiB", "1536MiB"),
        ("0.5 T", "512GiB"),
        ("4 GiB", "4GiB"),
        ("+2M", "2MiB"),
    ],
)
def test_that_an_error_names_the_right_spelling(wrong: str, right: str) -> None:
    with pytest.raises(ValueError, match=f"; write {right}$"):
        sizes.parse_size(wrong)


@pytest.mark.parametrize("wrong", ["", "-1", "4", "GiB", "0.3KiB", "1e3M", "0.0001G"])
def test_that_no_spelling_is_invented_where_none_is_meant(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a whole number") as caught:
        sizes.parse_size(wrong)
    assert "write" not in str(caught.value)


@pytest.mark.parametrize("wrong", ["10", "10 ms", "0.1s", "-5ms", "", "9999999999ms"])
def test_that_a_time_needs_milliseconds(wrong: str) -> None:
    with pytest.raises(ValueError, match="whole milliseconds"):
        sizes.parse_milliseconds(wrong)
