"""What every request passes on its way in and out, as plain ASGI: none of it buffers a stream."""
