"""What a seed draws of a world whose release the command line does not say.

Each thing comes from a random source of its own. So a seed keeps the others where one of them is drawn in another way.
"""

from dataclasses import replace
from random import Random
from typing import Final

from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR
from tests.worlds.clusters.draft import draw_newer
from tests.worlds.covered.binding_themes import BINDING_THEMES, draw_newer_theme
from tests.worlds.finding.small_worlds import THEMES
from tests.worlds.scenarios import Scenario
from tests.worlds.settings.program_settings import draw_wanted

# So many worlds have some of the settings and features that no seed has by itself, and so many have faults of one theme
# only: some kinds are in themes alone, as they hide the effects of others.
_WANTED_RATE: Final = 0.35
_THEME_RATE: Final = 0.35
# So few of the worlds keep what takes ten times as long: from 1.33 on, a scheduler that looks at some nodes only, and
# asks `serve`, tries a pod that is refused up to fifty times a second, as kube-scheduler does.
_RETRIES_FROM_MINOR: Final = 33
_RETRIES: Final = "narrow-sampling"
_RETRIES_RATE: Final = 0.2


def drawn_world(scenario: Scenario) -> Scenario:
    """Return a scenario with the release of its seed. In a share of the worlds with others, it also has what only some
    worlds have, and faults of one theme, unless the scenario says which ones it has.

    Where `serve` is to work only with the scheduler on its machine, there is one replica.
    """
    minor = Random(f"release {scenario.seed}").randint(OLDEST_MINOR, NEWEST_MINOR)
    scenario = replace(scenario, minor=minor)
    if not scenario.has_others:
        return scenario
    drawn = _drawn_wanted(scenario.seed) | draw_newer(scenario.seed)
    if scenario.mode is not None and minor >= _RETRIES_FROM_MINOR and not _keeps_retries(scenario.seed):
        drawn -= {_RETRIES}
    wanted = scenario.wanted | drawn
    scenario = replace(scenario, wanted=wanted)
    says_faults = scenario.faults is not None or bool(scenario.fault_kinds)
    themed = _with_theme(scenario) if scenario.has_faults and not says_faults else scenario
    return replace(themed, replicas=1) if themed.wants_pair else themed


def _drawn_wanted(seed: int) -> frozenset[str]:
    random = Random(f"wanted by some worlds {seed}")
    return draw_wanted(random) if random.random() < _WANTED_RATE else frozenset()


def _keeps_retries(seed: int) -> bool:
    return Random(f"retries {seed}").random() < _RETRIES_RATE


def _with_theme(scenario: Scenario) -> Scenario:
    random = Random(f"theme of faults {scenario.seed}")
    if random.random() >= _THEME_RATE:
        return scenario
    theme = draw_newer_theme(scenario.seed) or random.choice((*THEMES, *BINDING_THEMES))
    wanted = scenario.wanted.union(theme.wanted.split())
    return replace(scenario, wanted=wanted, fault_kinds=frozenset(theme.faults.split()))
