"""The door for tests of plugins: `Trial` runs one plugin on a small cluster, without a server.

`extender-service serve` never loads this module. Stable are the names in `__all__`, as `extender_service.plugin_api`
says. Of `trial.cluster`, a test may also call `apply_node`, `remove_node`, `apply_pod` and `remove_pod`.
"""

from extender_service.framework.guard import CycleError
from extender_service.kube.parsing.manifests import ManifestError
from extender_service.testing.builders import make_node, make_pod
from extender_service.testing.trial import Trial

__all__ = ["CycleError", "ManifestError", "Trial", "make_node", "make_pod"]
