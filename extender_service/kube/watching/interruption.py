"""A way to end what a task waits for, with an error."""

import asyncio
from types import TracebackType
from typing import Self


class Interruption:
    """An asynchronous context manager, once; `interrupt` ends what goes on in it, from another task or a callback."""

    def __init__(self) -> None:
        self._timeout = asyncio.Timeout(None)
        self._is_entered = False
        self._error: Exception | None = None

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._is_entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_entered = False
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            cause, self._error = self._error, None
            try:
                raise cause or AssertionError("nothing else makes it time out") from None
            finally:
                del cause  # its traceback refers to this frame: both would wait for the garbage collector

    def interrupt(self, error: Exception) -> None:
        """Have the context raise this error when it is the task's turn. Only the first one counts."""
        if self._is_entered and self._error is None:
            self._error = error
            self._timeout.reschedule(asyncio.get_running_loop().time())
