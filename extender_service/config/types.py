"""KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1, types.go), with the defaults that are constants.

Defaults that depend on other fields, the default plugins above all, are in `defaulting`.
"""

import base64
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from extender_service.config.args import API_VERSION, ApiVersion, ArgsTypes
from extender_service.config.durations import Duration, DurationText
from extender_service.config.model import (
    Float32,
    Int32Field,
    Int64Field,
    Many,
    Model,
    OmitEmpty,
    OmitMissing,
    OptionalBool,
    OptionalText,
    zero_means,
)

KIND: Literal["KubeSchedulerConfiguration"] = "KubeSchedulerConfiguration"

_15_SECONDS = Duration.parse("15s")
_10_SECONDS = Duration.parse("10s")
_2_SECONDS = Duration.parse("2s")
_5_SECONDS = Duration.parse("5s")


class LeaderElectionConfiguration(Model):
    """Which replica is active (component-base/config/v1alpha1)."""

    leader_elect: bool = True
    lease_duration: Annotated[DurationText, zero_means(_15_SECONDS)] = _15_SECONDS
    renew_deadline: Annotated[DurationText, zero_means(_10_SECONDS)] = _10_SECONDS
    retry_period: Annotated[DurationText, zero_means(_2_SECONDS)] = _2_SECONDS
    resource_lock: Annotated[str, zero_means("leases")] = "leases"
    resource_name: Annotated[str, zero_means("kube-scheduler")] = "kube-scheduler"
    resource_namespace: Annotated[str, zero_means("kube-system")] = "kube-system"


class ClientConnectionConfiguration(Model):
    """How to reach the API server (component-base/config/v1alpha1)."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: Annotated[str, zero_means("application/vnd.kubernetes.protobuf")] = (
        "application/vnd.kubernetes.protobuf"
    )
    qps: Annotated[Float32, zero_means(50.0)] = 50.0
    burst: Annotated[Int32Field, zero_means(100)] = 100


class PluginRef(Model):
    """A plugin by its name, and its weight if it scores; a weight of 0 counts as 1."""

    name: str = ""
    weight: Int32Field = 0


class PluginSet(Model):
    """The plugins enabled and disabled at an extension point; a disabled `*` stands for all defaults."""

    enabled: Annotated[Many[PluginRef], OmitEmpty] = ()
    disabled: Annotated[Many[PluginRef], OmitEmpty] = ()


class Plugins(Model):
    """The plugins of a profile, by extension point. `multi_point` stands for all points that a plugin implements."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    # Those of later releases. No plugin serves them here.
    placement_generate: Annotated[PluginSet | None, OmitMissing] = None
    placement_score: Annotated[PluginSet | None, OmitMissing] = None
    pod_group_post_filter: Annotated[PluginSet | None, OmitMissing] = None

    def sets(self) -> dict[str, PluginSet]:
        """Return the sets that are there by their names in a configuration, such as preFilter, including multiPoint."""
        sets = {str(field.alias): getattr(self, name) for name, field in type(self).model_fields.items()}
        return {point: plugins for point, plugins in sets.items() if plugins is not None}

    def enabled_names(self) -> set[str]:
        """Return the names of all plugins that any extension point enables."""
        return {plugin.name for plugins in self.sets().values() for plugin in plugins.enabled}


class PluginConfig(Model):
    """A plugin's arguments. The validation context, an `ArgsTypes`, gives their type.

    The arguments of plugins that it does not list stay as the file has them.
    """

    name: str = ""
    args: Any = Field(default=None, validate_default=True)

    @field_validator("args", mode="plain")
    @classmethod
    def _read_args(cls, value: object, info: ValidationInfo) -> object:
        args_types: ArgsTypes = info.context or {}
        args_type = args_types.get(info.data.get("name", ""))
        return value if args_type is None else args_type.model_validate(value, by_name=False)


class KubeSchedulerProfile(Model):
    """The plugins for the pods of one `spec.schedulerName`, and their arguments."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: Annotated[Int32Field | None, OmitMissing] = None
    plugins: Plugins = Plugins()
    plugin_config: Annotated[Many[PluginConfig], OmitEmpty] = ()

    def args(self, plugin: str) -> Any:
        """Return the arguments of a plugin, see `PluginConfig`; None if it has none."""
        return next((each.args for each in self.plugin_config if each.name == plugin), None)


class ExtenderManagedResource(Model):
    """An extended resource that an extender manages, and whether NodeResourcesFit leaves it to the extender."""

    name: str = ""
    ignored_by_scheduler: OptionalBool = False


# Go's decoder of base64 skips them, as in a block scalar of YAML.
_LINE_BREAKS = str.maketrans("", "", "\r\n")


def _as_go_prints(text: str) -> str:
    """Return base64 as Go encodes what it decodes."""
    try:
        return base64.b64encode(base64.b64decode(text.translate(_LINE_BREAKS), validate=True)).decode()
    except ValueError:
        raise ValueError("must be base64") from None


Base64Text = Annotated[str, AfterValidator(_as_go_prints), OmitEmpty]


class ExtenderTLSConfig(Model):
    """How kube-scheduler secures its calls to an extender."""

    insecure: OptionalBool = False
    server_name: OptionalText = ""
    cert_file: OptionalText = ""
    key_file: OptionalText = ""
    ca_file: OptionalText = ""
    cert_data: Base64Text = ""
    key_data: Base64Text = ""
    ca_data: Base64Text = ""


class Extender(Model):
    """An extender that kube-scheduler calls."""

    url_prefix: str = ""
    filter_verb: OptionalText = ""
    preempt_verb: OptionalText = ""
    prioritize_verb: OptionalText = ""
    weight: Annotated[Int64Field, OmitEmpty] = 0
    bind_verb: OptionalText = ""
    enable_https: OptionalBool = Field(default=False, alias="enableHTTPS")
    tls_config: Annotated[ExtenderTLSConfig | None, OmitMissing] = None
    http_timeout: Annotated[DurationText, zero_means(_5_SECONDS)] = _5_SECONDS
    node_cache_capable: OptionalBool = False
    managed_resources: Annotated[Many[ExtenderManagedResource], OmitEmpty] = ()
    ignorable: OptionalBool = False


class KubeSchedulerConfiguration(Model):
    """Everything that a file can configure in a kube-scheduler, and in this service in its place."""

    api_version: ApiVersion = API_VERSION
    kind: Literal["KubeSchedulerConfiguration"] = KIND
    parallelism: Int32Field = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: Int32Field = 0
    pod_initial_backoff_seconds: Int64Field = 1
    pod_max_backoff_seconds: Int64Field = 10
    profiles: Many[KubeSchedulerProfile] = ()
    extenders: Annotated[Many[Extender], OmitEmpty] = ()
    delay_cache_until_active: OptionalBool = False

    def ignored_extended_resources(self) -> tuple[str, ...]:
        """Return names of the resources that NodeResourcesFit leaves to extenders (scheduler.go, buildExtenders)."""
        return tuple(
            resource.name
            for extender in self.extenders
            for resource in extender.managed_resources
            if resource.ignored_by_scheduler
        )
