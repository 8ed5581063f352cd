"""TLS for calls: the certificate verified, the handshake under the call's deadline."""

from __future__ import annotations

import ssl

from reminders.providers.deadline_sockets import Call, DeadlineSocket, DeadlineTlsSocket


def new_tls_context() -> ssl.SSLContext:
    """A context that verifies chain and name by the system's authorities, or certifi's where there are none."""
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if not paths.cafile and not paths.capath:
        # A slim image without a certificate store.
        import certifi  # noqa: PLC0415 (only there)

        context.load_verify_locations(certifi.where())
    context.sslsocket_class = DeadlineTlsSocket
    return context


def wrap(sock: DeadlineSocket, call: Call, context: ssl.SSLContext, host: str) -> DeadlineTlsSocket:
    """Shake hands over `sock`, which is used up, also where this raises `OSError`. `host` is the certificate's name."""
    try:
        sock.settimeout(call.remaining())
        tls_sock = context.wrap_socket(sock, server_hostname=host.removesuffix("."))
    except BaseException:
        sock.close()
        raise
    assert isinstance(tls_sock, DeadlineTlsSocket)
    tls_sock.call = call
    return tls_sock
