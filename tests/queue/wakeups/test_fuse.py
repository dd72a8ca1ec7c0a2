"""When Redis is left alone: the pure rules."""

from hypothesis import given
from hypothesis import strategies as st

from jobs.wakeup.fuse import FIRST_PAUSE, LONGEST_PAUSE, STRIKES, Fuse


def test_one_failure_blows_it_and_one_answer_mends_it() -> None:
    fuse = Fuse()
    assert not fuse.is_blown
    fuse.failed(100.0)
    assert fuse.is_blown
    assert fuse.seconds_left(100.0) == FIRST_PAUSE
    fuse.answered()
    assert not fuse.is_blown
    assert fuse.seconds_left(100.0) == 0


def test_several_slow_answers_in_a_row_blow_it() -> None:
    fuse = Fuse()
    for _ in range(STRIKES - 1):
        fuse.dawdled(1.0)
    assert not fuse.is_blown
    fuse.answered()
    for _ in range(STRIKES - 1):
        fuse.dawdled(1.0)
    assert not fuse.is_blown, "they were not in a row"
    fuse.dawdled(1.0)
    assert fuse.is_blown


def test_each_failed_try_doubles_the_pause_up_to_the_longest() -> None:
    fuse, now, pauses = Fuse(), 0.0, []
    for _ in range(8):
        fuse.failed(now)
        pauses.append(fuse.seconds_left(now))
        now += pauses[-1]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]


def test_those_that_fail_together_count_once() -> None:
    fuse = Fuse()
    for moment in (1.0, 1.1, 1.2):
        fuse.failed(moment)
    assert fuse.seconds_left(1.2) < FIRST_PAUSE
    fuse.failed(1.0 + FIRST_PAUSE)
    assert fuse.seconds_left(1.0 + FIRST_PAUSE) == 2 * FIRST_PAUSE


@given(st.lists(st.tuples(st.sampled_from(["answered", "dawdled", "failed"]), st.floats(0, 20))))
def test_nobody_waits_longer_than_the_longest_pause(steps: list[tuple[str, float]]) -> None:
    fuse, now = Fuse(), 0.0
    for step, later in steps:
        now += later
        if step == "answered":
            fuse.answered()
        else:
            getattr(fuse, step)(now)
        assert 0 <= fuse.seconds_left(now) <= LONGEST_PAUSE + 1e-9
        assert fuse.is_blown or fuse.seconds_left(now) == 0
        if step == "answered":
            assert not fuse.is_blown
        if step == "failed":
            assert fuse.is_blown
