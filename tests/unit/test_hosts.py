"""Host lists in Slurm's syntax."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysched import hosts

NAMES = st.lists(
    st.from_regex(r"[a-z]{1,3}[0-9]{0,4}(-[a-z][0-9]{1,2})?", fullmatch=True), min_size=1
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("n[1,3-4],x", ["n1", "n3", "n4", "x"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("a-b.c_d", ["a-b.c_d"]),
        ("n1,n1", ["n1", "n1"]),
    ],
)
def test_that_a_list_is_expanded_as_slurm_does(text: str, names: list[str]) -> None:
    assert hosts.expand(text) == names


@pytest.mark.parametrize(
    "text",
    ["", "n[", "n]", "n[]", "n[2-1]", "n[a]", "n[1-]", ",n", "n,", "n,,m", "n m", "n[1-999999]"],
)
def test_that_a_list_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a host list"):
        hosts.expand(text)


@given(NAMES)
def test_that_collecting_loses_no_name_and_adds_none(names: list[str]) -> None:
    assert sorted(hosts.expand(hosts.collect(names))) == sorted(set(names))


@given(NAMES)
def test_that_the_order_of_names_has_no_influence(names: list[str]) -> None:
    assert hosts.collect(names) == hosts.collect(names[::-1])


def test_that_brackets_are_only_at_the_end_of_a_name() -> None:
    assert hosts.collect(["r1a", "r2a", "r1n1", "r1n2", "r2n1"]) == "r1a,r1n[1-2],r2a,r2n1"


def test_that_a_long_list_is_cut_into_lines_that_fit() -> None:
    names = hosts.expand("n[00001-10000]")[::2] + hosts.expand("m[1-9000]")[::3]
    lines = hosts.collect_lines(names)
    assert max(map(len, lines)) <= hosts.LONGEST_LINE
    assert len(lines) < 20
    assert sorted(name for line in lines for name in hosts.expand(line)) == sorted(names)


def test_that_a_short_list_is_one_line() -> None:
    assert hosts.collect_lines(["b1", "a2", "a1"]) == ["a[1-2],b1"]
