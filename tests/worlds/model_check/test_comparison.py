"""Which differences between the model and a real API server count."""

from contextlib import AbstractContextManager, nullcontext

import pytest
import trustme

from tests.worlds.model_check import comparison
from tests.worlds.model_check.comparison import Comparison
from tests.worlds.model_check.generator import generate
from tests.worlds.model_check.players import ModelServer


@pytest.mark.parametrize(("quick", "paced", "counts"), [(37, 31, False), (37, 37, True), (31, 37, False)])
def test_a_difference_counts_if_it_stays_with_each_write_of_a_pod_in_its_own_second(
    monkeypatch: pytest.MonkeyPatch, quick: int, paced: int, counts: bool
) -> None:
    def connect(url: str, tls: object, token: str, *, is_paced: bool) -> AbstractContextManager[ModelServer]:
        return nullcontext(ModelServer(paced if is_paced else quick))

    monkeypatch.setattr(comparison, "RealServer", connect)
    compared = Comparison("https://127.0.0.1", trustme.CA().cert_pem.bytes().decode(), "token", 31)
    assert any(compared.compare(generate(seed, 31)) for seed in range(10)) is counts
