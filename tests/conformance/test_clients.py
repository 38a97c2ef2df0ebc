"""Every client does what docs/conformance.md says that it does, and the document says all of it."""

from __future__ import annotations

import asyncio

import pytest

from tests.conformance.clients import STARTER_STEPS, STEPS, Outcome, run_all
from tests.conformance.environment import prepare
from tests.conformance.matrix import DOCUMENT, claimed, render


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return asyncio.run(run_all(prepare(), tmp_path_factory.mktemp("conformance")))


@pytest.mark.parametrize(("client", "step"), claimed())
def test_a_stock_client_can(client: str, step: str, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[client][step] is None, STEPS[step]


def test_the_matrix_in_the_documentation_is_what_the_run_shows(outcomes: dict[str, Outcome]) -> None:
    assert DOCUMENT.read_text() == render(outcomes)


SPOKEN_TO_MODELS = ("openai-python", "@openai/agents-realtime")
"""One of each language; ``python -m tests.conformance.matrix --starter`` is for all of them."""


@pytest.fixture(scope="session")
def answers_of_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return asyncio.run(run_all(prepare(), tmp_path_factory.mktemp("starter"), "starter", SPOKEN_TO_MODELS))


@pytest.mark.parametrize("step", STARTER_STEPS)
@pytest.mark.parametrize("client", SPOKEN_TO_MODELS)
def test_a_stock_client_talks_with_the_starter_pipeline(
    client: str, step: str, answers_of_models: dict[str, Outcome]
) -> None:
    assert answers_of_models[client][step] is None, STEPS[step]
