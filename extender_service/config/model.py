"""The base of all configuration types: how Kubernetes' strict decoder reads fields, and how Go prints them."""

from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, model_validator
from pydantic.alias_generators import to_camel

from extender_service.config.durations import Duration

T = TypeVar("T")

_LARGEST_FLOAT32 = 3.4028234663852886e38

Int32Field = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Int64Field = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
Float32 = Annotated[float, Field(ge=-_LARGEST_FLOAT32, le=_LARGEST_FLOAT32, allow_inf_nan=False)]
# A list in the file, a tuple in Python.
Many = Annotated[tuple[T, ...], Strict(strict=False)]
# Go's `omitempty`: an empty value is not printed.
OmitEmpty = Field(exclude_if=lambda value: not value)
# A pointer with `omitempty`: only a missing value is not printed.
OmitMissing = Field(exclude_if=lambda value: value is None)
OptionalText = Annotated[str, OmitEmpty]
OptionalBool = Annotated[bool, OmitEmpty]


def zero_means(default: object) -> AfterValidator:
    """Annotate a field where zero or empty text stands for a default."""
    return AfterValidator(lambda value: value or default)


class Model(BaseModel):
    """A type of the configuration: immutable, camelCase in the file; refuses unknown fields and converts no values.

    Null means missing, except for durations, where it is an error (metav1.Duration reads it as empty text).
    """

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, extra="forbid", strict=True, frozen=True)
    _may_be_null: ClassVar[frozenset[str | None]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls._may_be_null = frozenset(
            field.alias for field in cls.model_fields.values() if not isinstance(field.default, Duration)
        )

    @model_validator(mode="before")
    @classmethod
    def _null_means_missing(cls, value: object) -> object:
        if value is None:
            return {}
        if isinstance(value, dict):
            return {key: each for key, each in value.items() if each is not None or key not in cls._may_be_null}
        return value
