"""The command line of a comparison with kube-scheduler on new random cases: python -m tests.lockstep.PACKAGE."""

import argparse
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

Script = TypeVar("Script")


def parser(package: str, description: str | None, what: str, count: int) -> argparse.ArgumentParser:
    """Return the parser of --seed, and of how many cases there are: `--what`, `count` by default."""
    made = argparse.ArgumentParser(prog=f"python -m tests.lockstep.{package}", description=description)
    made.add_argument(f"--{what}", dest="count", type=int, default=count, help=f"how many {what}")
    made.add_argument("--seed", type=int, default=None, help="of the first; those after it have the next ones")
    return made


def first_seed(args: argparse.Namespace, what: str) -> int:
    """Return the seed that is given, or a new one, and print it: so that a difference can be seen again."""
    first: int = secrets.randbelow(2**40) if args.seed is None else args.seed
    print(f"{args.count} {what} from seed {first}")
    logging.disable()  # plugins fail in cases
    return first


def compare_scripts(
    package: str,
    description: str | None,
    generate: Callable[[int], Script],
    compare: Callable[[Iterable[Script]], Counter[str]],
    *,
    scripts: int,
    batch: int,
) -> None:
    """Compare as many new scripts as the command line says (`run`)."""
    run(parser(package, description, "scripts", scripts).parse_args(), generate, compare, batch=batch)


def run(
    args: argparse.Namespace,
    generate: Callable[[int], Script],
    compare: Callable[[Iterable[Script]], Counter[str]],
    *,
    batch: int,
) -> None:
    """Compare new scripts, a batch at a time, and print what was in them. A difference raises AssertionError."""
    first = first_seed(args, "scripts")
    seen: Counter[str] = Counter()
    for start in range(first, first + args.count, batch):
        seen += compare(generate(seed) for seed in range(start, min(start + batch, first + args.count)))
    for name, count in sorted(seen.items()):
        print(f"{name:42} {count:11,}")
