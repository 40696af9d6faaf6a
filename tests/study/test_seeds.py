"""Seeds that results of earlier versions were measured with."""

from seatrial.study.seeds import seed_of


def test_a_seed_is_that_of_earlier_versions_and_distinct_for_each_part():
    assert seed_of(7, "io/read/8192B/1t/1d", 2) == 11_199_092_550_908_180
    assert len({seed_of(7, "a", number) for number in range(100)}) == 100
