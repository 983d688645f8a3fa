"""Outcomes are the strings that are stored, and strings of other versions are read beside them."""

import pickle

import pytest

from rookery.errors import USER_ERROR_OUTCOMES, Failed, Outcome
from rookery.records import Failure


@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_is_its_stored_string(outcome: Outcome) -> None:
    stored = Failure("x", outcome).to_json()
    assert stored == f'{{"what":"x","outcome":"{outcome.name.lower()}","detail":""}}'
    assert Failure.from_json(stored) == Failure("x", outcome)
    by_name: dict[str, int] = {outcome: 1}
    assert by_name[outcome.name.lower()] == 1


def test_outcomes_of_other_versions_and_statuses_are_read() -> None:
    line = '{"what":"x","outcome":"http_404"}'
    assert Failure.from_json(line).outcome == "http_404"
    assert Failure.from_json(line).outcome not in USER_ERROR_OUTCOMES


def test_wrong_use_is_known_by_the_stored_string() -> None:
    assert "no_model" in USER_ERROR_OUTCOMES
    assert "timed_out" not in USER_ERROR_OUTCOMES


def test_an_error_passes_from_one_process_to_another() -> None:
    failed = pickle.loads(pickle.dumps(Failed(Failure("x", Outcome.ROBOTS, "no"))))
    assert failed.failure == Failure("x", "robots", "no")
