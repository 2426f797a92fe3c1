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


def drawn_world(scenario: Scenario) -> Scenario:
    """Return a scenario with the release of its seed. In a share of the worlds with others, it also has what only some
    worlds have, and faults of one theme, unless the scenario says which ones it has.

    Where `serve` is to work only with the scheduler on its machine, there is one replica.
    """
    minor = Random(f"release {scenario.seed}").randint(OLDEST_MINOR, NEWEST_MINOR)
    scenario = replace(scenario, minor=minor)
    if not scenario.has_others:
        return scenario
    wanted = scenario.wanted | _drawn_wanted(scenario.seed) | draw_newer(scenario.seed)
    scenario = replace(scenario, wanted=wanted)
    says_faults = scenario.faults is not None or bool(scenario.fault_kinds)
    drawn = _with_theme(scenario) if scenario.has_faults and not says_faults else scenario
    return replace(drawn, replicas=1) if drawn.wants_pair else drawn


def _drawn_wanted(seed: int) -> frozenset[str]:
    random = Random(f"wanted by some worlds {seed}")
    return draw_wanted(random) if random.random() < _WANTED_RATE else frozenset()


def _with_theme(scenario: Scenario) -> Scenario:
    random = Random(f"theme of faults {scenario.seed}")
    if random.random() >= _THEME_RATE:
        return scenario
    theme = draw_newer_theme(scenario.seed) or random.choice((*THEMES, *BINDING_THEMES))
    wanted = scenario.wanted.union(theme.wanted.split())
    return replace(scenario, wanted=wanted, fault_kinds=frozenset(theme.faults.split()))
