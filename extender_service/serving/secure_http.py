"""A server that tells the application over which TLS connection a request came."""

from extender_service.serving.limited_http import LimitedHTTP
from extender_service.serving.limited_server import LimitedServer
from extender_service.serving.scope import TLS_CONNECTION


class SecureHTTP(LimitedHTTP):
    """One connection."""

    def on_headers_complete(self) -> None:
        """Add the connection's TLS to the request."""
        self.scope[TLS_CONNECTION] = self.transport.get_extra_info("ssl_object")  # type: ignore[literal-required]
        super().on_headers_complete()


class SecureServer(LimitedServer):
    """A server of such connections."""

    def _connection(self) -> SecureHTTP:
        return SecureHTTP(
            self._held,
            self._guard,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
