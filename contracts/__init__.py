"""Shapes that the server and the writer agree on; imports no service's client."""
