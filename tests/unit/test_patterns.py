"""Claims about communication patterns."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysched.placement import patterns
from pysched.placement.patterns import PatternError


def pairs(comm: str, ranks: int) -> dict[tuple[int, int], int]:
    demand = patterns.matrix(comm, ranks)
    assert all(demand[i][j] == demand[j][i] for i in range(ranks) for j in range(ranks))
    assert all(demand[i][i] == 0 for i in range(ranks))
    return {
        pair: demand[pair[0]][pair[1]]
        for pair in combinations(range(ranks), 2)
        if demand[pair[0]][pair[1]]
    }


def test_that_a_ring_closes() -> None:
    assert set(pairs("ring", 4)) == {(0, 1), (1, 2), (2, 3), (0, 3)}


def test_that_a_ring_of_two_is_one_pair() -> None:
    assert pairs("ring", 2) == {(0, 1): 1}


def test_that_a_chain_stays_open() -> None:
    assert set(pairs("chain", 4)) == {(0, 1), (1, 2), (2, 3)}


def test_that_a_tree_has_two_children_each() -> None:
    assert set(pairs("tree", 6)) == {(0, 1), (0, 2), (1, 3), (1, 4), (2, 5)}


def test_that_all_to_all_is_every_pair() -> None:
    assert len(pairs("alltoall", 5)) == 10


@pytest.mark.parametrize("name", patterns.NAMES)
def test_that_one_rank_talks_to_nobody(name: str) -> None:
    assert pairs(name, 1) == {}


def test_that_tensor_groups_talk_more_than_data_groups() -> None:
    tensor = {(0, 1): 8, (2, 3): 8, (4, 5): 8}
    data = {(0, 2): 1, (2, 4): 1, (0, 4): 1, (1, 3): 1, (3, 5): 1, (1, 5): 1}
    assert pairs("tp2xdp3", 6) == tensor | data


def test_that_a_matrix_takes_the_larger_way_of_a_pair() -> None:
    assert patterns.read("0 3\n5,0 # comment\n\n", "f") == ((0, 5), (5, 0))


def test_that_a_fine_matrix_is_scaled_and_keeps_who_talks() -> None:
    assert patterns.read("0 1e-9 0.5\n0 0 0\n0 0 0", "f")[0] == (0, 1, 1000)


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, 999), min_size=n, max_size=n), min_size=n, max_size=n
        )
    )
)
def test_that_the_inline_form_of_a_matrix_reads_back(rows: list[list[int]]) -> None:
    for rank, row in enumerate(rows):
        row[rank] = 0
    demand = patterns.read("\n".join(" ".join(map(str, row)) for row in rows), "f")
    assert patterns.matrix(patterns.write(demand), len(rows)) == demand


WRONG = {
    "torus": '"torus" is no communication pattern: expected none, ring, chain, tree, alltoall',
    "Ring": '"Ring" is no communication pattern',
    "": '"" is no communication pattern',
    "tp4xdp2": "tp4xdp2 needs 8 vGPUs a node, the step has 4",
    "tp0xdp4": '"tp0xdp4" is no communication pattern',
    "matrix:0,1/1,0": "the matrix is for 2 ranks, the step has 4 vGPUs a node",
    "matrix:0,x/1,0": 'matrix:1:3: expected a number from 0 on, found "x"',
    "matrix:": "matrix:1:1: expected a square matrix of at most 32 ranks, found 0 rows of 0",
}


@pytest.mark.parametrize("comm", WRONG)
def test_that_a_wrong_pattern_is_refused_in_one_sentence(comm: str) -> None:
    with pytest.raises(PatternError) as caught:
        patterns.matrix(comm, 4)
    assert str(caught.value).startswith(WRONG[comm])


BROKEN = {
    "0 1\n1": "f:2:1: 1 numbers where the first row has 2",
    "0 1 2\n1 0 2": "f:1:1: expected a square matrix of at most 32 ranks, found 2 rows of 3",
    "0 -1\n1 0": 'f:1:3: expected a number from 0 on, found "-1"',
    "0 nan\n1 0": 'f:1:3: expected a number from 0 on, found "nan"',
    "1 1\n1 0": "f: rank 0 has a demand on itself; expected 0 there",
    "0 1e999\n1 0": 'f:1:3: expected a number from 0 on, found "1e999"',
}


@pytest.mark.parametrize("text", BROKEN)
def test_that_a_broken_matrix_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(PatternError) as caught:
        patterns.read(text, "f")
    assert str(caught.value).startswith(BROKEN[text])


@given(st.text(alphabet="0123456789., \n#-ex/", max_size=200))
def test_that_no_text_makes_the_reader_fall_over(text: str) -> None:
    try:
        demand = patterns.read(text, "f")
    except PatternError as error:
        assert str(error).startswith("f:")
    else:
        assert max(map(max, demand)) <= patterns.LARGEST


def test_that_a_submitted_pattern_is_checked_without_knowing_the_ranks() -> None:
    patterns.check("tp4xdp2", None)
    patterns.check("matrix:0,1/1,0", None)
    with pytest.raises(PatternError):
        patterns.check("torus", None)
