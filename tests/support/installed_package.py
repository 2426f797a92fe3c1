"""A package with entry points, as an installer leaves it behind."""

from pathlib import Path

from extender_service.framework.registry.discovery import GROUP


def install(folder: Path, package: str, **entry_points: str) -> None:
    """Write the metadata of an installed package into a folder of sys.path; `entry_points` are plugins by name."""
    info = folder / f"{package}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    lines = [f"[{GROUP}]", *(f"{name} = {value}" for name, value in entry_points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
