"""The HTTP surface of the embedded server: a plain ASGI application."""
