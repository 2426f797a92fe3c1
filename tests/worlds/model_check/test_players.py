"""What a player does between the steps of a script."""

from tests.worlds.model_check.players import ModelServer, play
from tests.worlds.model_check.script import Script, Step


def test_the_second_ends_before_each_write_of_a_pod() -> None:
    paths: list[str] = []

    class Server(ModelServer):
        def await_next_second(self) -> None:
            paths.append("next second")

        def send(
            self, method: str, path: str, query: dict[str, str], body: bytes, content_type: str
        ) -> tuple[int, object]:
            paths.append(f"{method} {path.rpartition('/')[2]}")
            return super().send(method, path, query, body, content_type)

    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    steps = (
        Step(0, "POST", "v1/pods", pod),
        Step(1, "GET", "v1/pods/a"),
        Step(2, "POST", "v1/configmaps", {"metadata": {"name": "c"}}),
        Step(3, "PATCH", "v1/pods/a/resize", {}, content_type="application/merge-patch+json"),
    )
    play(Script(1, steps), Server(37))
    expected = [
        "POST namespaces",
        "next second",
        "POST pods",
        "GET a",
        "POST configmaps",
        "next second",
        "PATCH resize",
    ]
    assert paths == expected
