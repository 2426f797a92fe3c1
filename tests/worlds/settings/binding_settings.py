"""Settings of programs that matter on a pod's way from its node to its binding, and to who leads meanwhile."""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.worlds.settings.late_extender import LateExtender

Object = dict[str, Any]

DELAYED_CACHE: Final = "delayed-cache"
LEADER_LEASE: Final = "leader-lease"
PROBES: Final = "probes"
# Settings that are a user's plugin, and its class: only the program that binds pods has it.
BINDING_PLUGINS: Final = {"courier": "Courier", "preparations": "Preparing"}
BINDING_PLUGINS_MODULE: Final = "tests.worlds.settings.preparing"


def _late_extender(config: Object, _: Random) -> None:
    """Ask an extender, too, that is late at times."""
    late = {"urlPrefix": LateExtender.url(), "httpTimeout": "5s", "nodeCacheCapable": True, "weight": 1}
    config.setdefault("extenders", []).append({**late, "filterVerb": "filter"})


def _preparations(config: Object, _: Random) -> None:
    for profile in config["profiles"]:
        profile["plugins"]["multiPoint"]["enabled"].append({"name": BINDING_PLUGINS["preparations"]})


def _courier(config: Object, _: Random) -> None:
    """Put a user's plugin in the place of DefaultBinder."""
    for profile in config["profiles"]:
        enabled = profile["plugins"].get("bind", {}).get("enabled", ())
        others = [each for each in enabled if each["name"] != "DefaultBinder"]
        binders = [*others, {"name": BINDING_PLUGINS["courier"]}]
        profile["plugins"]["bind"] = {"disabled": [{"name": "*"}], "enabled": binders}


def _own_sampling(config: Object, random: Random) -> None:
    """Let only the last profile say how many nodes to look at, and perhaps score none."""
    profile = config["profiles"][-1]
    profile["percentageOfNodesToScore"] = random.choice((10, 50, 100))
    if random.random() < 0.5:
        profile["plugins"] |= {point: {"disabled": [{"name": "*"}]} for point in ("preScore", "score")}


def _delay_cache(config: Object, _: Random) -> None:
    """Let only the leader read the cluster, where replicas elect one."""
    config["delayCacheUntilActive"] = True


# In this order: each changes what the ones before have made.
BINDING_CHANGES: Final[dict[str, Callable[[Object, Random], None]]] = {
    "late-extender": _late_extender,
    "own-sampling": _own_sampling,
    "preparations": _preparations,
    "courier": _courier,
    DELAYED_CACHE: _delay_cache,
}
# Beside these changes of the configuration:
# - leader-lease: `serve` works only while the scheduler on its machine leads, where it places pods for one scheduler
# - probes: a kubelet asks programs whether they are healthy, also while they stand still
BINDING_SETTINGS: Final = (*BINDING_CHANGES, LEADER_LEASE, PROBES)
